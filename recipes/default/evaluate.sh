#!/usr/bin/env bash
# Scores of a translator (models/default, or $1) on the tests in data/ (or $2), all six directions, beam 5: a table.
# Needs polyhead on the PATH, or in $POLYHEAD. Translations are saved in runs/default/tests/NAME, NAME being $3 or "default".
set -euo pipefail
model=${1:-models/default} data=${2:-data} polyhead=${POLYHEAD:-polyhead}
out=runs/default/tests/${3:-default}
mkdir -p "$out"

text() { if [ -e "$1.gz" ]; then zcat "$1.gz"; else cat "$1"; fi; }
# score NAME FROM TO: translates NAME.FROM and compares with NAME.TO.
score() {
    "$polyhead" translate --model "$model" --from "$2" --to "$3" --beam 5 < "$out/$1.$2" > "$out/$1.$2-$3" 2> "$out/$1.$2-$3.notes"
    "$polyhead" score --reference "$out/$1.$3" --metric bleu,chrf --format text < "$out/$1.$2-$3" > "$out/$1.$2-$3.score" 2>&1
    awk -v name="$1" -v way="$2-$3" '/^BLEU /{bleu = $2} /^chrF2 /{chrf = $2} END {printf "%-22s %s  %6.2f  %6.2f\n", name, way, bleu, chrf}' \
        "$out/$1.$2-$3.score"
}

echo "test                   way      BLEU   chrF2"
for pair in de:deu fr:fra tr:tur; do
    short=${pair%:*} long=${pair#*:} news=newstest2014
    if [ "$short" = tr ]; then news=newstest2016; fi
    text "$data/tatoeba/test.eng-$long.tsv" | cut -f1 > "$out/tatoeba-$short.en"
    text "$data/tatoeba/test.eng-$long.tsv" | cut -f2 > "$out/tatoeba-$short.$short"
    text "$data/wmt-newstest/eng-$long/$news.eng" > "$out/$news-$short.en"
    text "$data/wmt-newstest/eng-$long/$news.$long" > "$out/$news-$short.$short"
    text "$data/flores200/flores-dev.en" > "$out/flores-dev-$short.en"
    text "$data/flores200/flores-dev.$short" > "$out/flores-dev-$short.$short"
    for test in ${TESTS:-tatoeba $news flores-dev}; do
        score "$test-$short" en "$short"
        score "$test-$short" "$short" en
    done
done
grep -h '^BLEU|\|^chrF2|' "$out"/*.score | sort -u
