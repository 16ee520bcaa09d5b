#!/usr/bin/env bash
# evaluate.sh MODEL OUTDIR: scores of a translator in six directions, beam 5, as one table of BLEU and chrF2.
# Tests: the first 1,000 lines of Tatoeba's, FLORES-200 dev, newstest2014 (German and French). $TESTS chooses among
# "tatoeba flores newstest", $DATA is the folder of the data, $POLYHEAD the program, $DEVICE cpu (default) or cuda.
set -euo pipefail
model=$1 out=$2
data=${DATA:-data} polyhead=${POLYHEAD:-polyhead} tests=${TESTS:-tatoeba flores newstest}
threads=${THREADS:-1}
mkdir -p "$out"

text() { if [ -e "$1.gz" ]; then zcat "$1.gz"; else cat "$1"; fi; }
# score NAME FROM TO: translates NAME.FROM and compares with NAME.TO.
score() {
    local base=$out/$1.$2-$3
    "$polyhead" translate --model "$model" --from "$2" --to "$3" --beam 5 --threads "$threads" --device "${DEVICE:-cpu}" \
        < "$out/$1.$2" > "$base" 2> "$base.notes"
    "$polyhead" score --reference "$out/$1.$3" --metric bleu,chrf --format text < "$base" > "$base.score" 2>&1
    awk -v name="$1" -v way="$2-$3" '/^BLEU /{bleu = $2} /^chrF2 /{chrf = $2} END {printf "%-16s %s  %6.2f  %6.2f\n", name, way, bleu, chrf}' \
        "$base.score" | tee -a "$out/table.txt"
}

echo "test             way      BLEU   chrF2" | tee "$out/table.txt"
for test in $tests; do
    for pair in de:deu fr:fra tr:tur; do
        short=${pair%:*} long=${pair#*:} name=$test-${pair%:*}
        case $test in
        tatoeba)
            text "$data/tatoeba/test.eng-$long.tsv" | sed -n 1,1000p | cut -f1 > "$out/$name.en"
            text "$data/tatoeba/test.eng-$long.tsv" | sed -n 1,1000p | cut -f2 > "$out/$name.$short" ;;
        flores)
            text "$data/flores200/flores-dev.en" > "$out/$name.en"
            text "$data/flores200/flores-dev.$short" > "$out/$name.$short" ;;
        newstest)
            if [ "$short" = tr ]; then continue; fi
            text "$data/wmt-newstest/eng-$long/newstest2014.eng" > "$out/$name.en"
            text "$data/wmt-newstest/eng-$long/newstest2014.$long" > "$out/$name.$short" ;;
        esac
        score "$name" en "$short"
        score "$name" "$short" en
    done
done
grep -h '^BLEU|\|^chrF2|' "$out"/*.score | sort -u
