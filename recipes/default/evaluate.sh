#!/usr/bin/env bash
# The scores of a translator (models/default, or $1), six directions, beam 5: BLEU and chrF2 of every test under data/
# (or $2), and the accepted share of the phrase list. Translations are saved in runs/default/tests/NAME, NAME being $3 or
# "default". Needs polyhead on the PATH, or in $POLYHEAD, and python3.
# $TESTS chooses among "tatoeba newstest flores ntrex pud phrases"; $LINES scores the first lines of each test only;
# $DEVICE is cpu (default) or cuda, $THREADS the number of threads, $DTYPE int8 or f32 (default: as the model is stored).
#
#   tatoeba    2,000 everyday sentences of each language     newstest   newstest2014 (Turkish: newstest2016), news
#   flores     FLORES-200 dev, web text                      ntrex      NTREX-128, news
#   pud        Parallel Universal Dependencies, news and encyclopaedia
set -euo pipefail
model=${1:-models/default} data=${2:-data} polyhead=${POLYHEAD:-polyhead} here=$(dirname "$0")
out=runs/default/tests/${3:-default}
tests=${TESTS:-tatoeba newstest flores ntrex pud phrases}
options=(--model "$model" --beam 5 --device "${DEVICE:-cpu}")
if [ -n "${THREADS:-}" ]; then options+=(--threads "$THREADS"); fi
if [ -n "${DTYPE:-}" ]; then options+=(--dtype "$DTYPE"); fi
mkdir -p "$out"

text() { if [ -e "$1.gz" ]; then zcat "$1.gz"; elif [ -e "$1.xz" ]; then xz -dc "$1.xz"; else cat "$1"; fi; }
first() { if [ -n "${LINES:-}" ]; then sed -n "1,${LINES}p"; else cat; fi; }
# translate FILE FROM TO: FILE.FROM → FILE.FROM-TO, and the notes beside it.
translate() { "$polyhead" translate "${options[@]}" --from "$2" --to "$3" < "$1.$2" > "$1.$2-$3" 2> "$1.$2-$3.notes"; }
# score NAME FROM TO: translates NAME.FROM and compares with NAME.TO.
score() {
    local base=$out/$1.$2-$3
    translate "$out/$1" "$2" "$3"
    "$polyhead" score --reference "$out/$1.$3" --metric bleu,chrf --format text < "$base" > "$base.score" 2>&1
    awk -v name="$1" -v way="$2-$3" \
        '/^BLEU /{bleu = $2} /^chrF2 /{chrf = $2} END {printf "%-16s %s  %6.2f  %6.2f\n", name, way, bleu, chrf}' "$base.score"
}

for test in $tests; do
    if [ "$test" = phrases ]; then continue; fi
    for pair in de:deu fr:fra tr:tur; do
        short=${pair%:*} long=${pair#*:} name=$test-${pair%:*}
        news=newstest2014
        if [ "$short" = tr ]; then news=newstest2016; fi
        case $test in
        tatoeba) both=$data/tatoeba/test.eng-$long.tsv ;;
        ntrex) both=$data/parallel/ntrex.en-$short.tsv ;;
        pud) both=$data/parallel/ud-pud.en-$short.tsv ;;
        flores) both="" english=$data/flores200/flores-dev.en other=$data/flores200/flores-dev.$short ;;
        newstest) both="" english=$data/wmt-newstest/eng-$long/$news.eng other=$data/wmt-newstest/eng-$long/$news.$long ;;
        *) echo "$test: no test, expected one of tatoeba newstest flores ntrex pud phrases" >&2; exit 2 ;;
        esac
        if [ -n "$both" ]; then
            text "$both" | first | cut -f1 > "$out/$name.en"
            text "$both" | first | cut -f2 > "$out/$name.$short"
        else
            text "$english" | first > "$out/$name.en"
            text "$other" | first > "$out/$name.$short"
        fi
        score "$name" en "$short"
        score "$name" "$short" en
    done
done | { echo "test             way      BLEU   chrF2"; cat; } | tee "$out/table.txt"
grep -h '^BLEU|\|^chrF2|' "$out"/*.score 2>/dev/null | sort -u || true  # none where only phrases are scored

if [[ " $tests " == *" phrases "* ]]; then
    for way in en-de en-fr en-tr de-en fr-en tr-en; do
        from=${way%-*} to=${way#*-}
        python3 "$here/phrases.py" sources "$here/phrases.tsv" "$from" "$to" > "$out/phrases-$way.$from"
        translate "$out/phrases-$way" "$from" "$to"
        python3 "$here/phrases.py" score "$here/phrases.tsv" "$from" "$to" --misses "$out/phrases-$way.misses" < "$out/phrases-$way.$way"
    done | tee "$out/phrases.txt"
fi
