#!/usr/bin/env bash
# What the teacher makes of the text: runs/default/teacher/model (or $1), runs/default/text (or $2) → TEXT/*.teacher.tsv.gz.
#
#   eng-XXX.teacher.tsv.gz   every English sentence of all corpora, and the teacher's translation
#   XXX-eng.teacher.tsv.gz   every sentence of the other language, and the teacher's English
#
# The student learns from both (distillation: Kim & Rush 2016, "Sequence-Level Knowledge Distillation"), and from the first
# the other way round (back-translation: Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual
# Data"): what it writes then is what people wrote.
set -euo pipefail
teacher=${1:-runs/default/teacher/model} text=${2:-runs/default/text} polyhead=${POLYHEAD:-polyhead}
device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sentences() { for file in "$text"/tatoeba.$1.tsv.gz "$text"/office.$1.tsv.gz "$text"/python.$1.tsv.gz; do
    if [ -e "$file" ]; then zcat "$file" | cut -f"$2"; fi; done | LC_ALL=C sort -u; }
# pairs FROM TO FILE: the sentences of FILE with their translations, those of odd lengths left out.
pairs() {
    "$polyhead" translate --model "$teacher" --device "$device" --to "$2" --raw --beam 4 --max-length 128 < "$3" > "$3.$2"
    paste "$3" "$3.$2" | gzip -1 > "$work/$1-$2.raw.tsv.gz"
    "$polyhead" data clean --tsv "$work/$1-$2.raw.tsv.gz" --max-ratio 3 --out "$text/$1-$2.teacher.tsv.gz" \
        --report "$work/$1-$2.dropped.jsonl"
}

sentences 'eng-*' 1 > "$work/eng"
for other in deu fra tur; do
    sentences "eng-$other" 2 > "$work/$other"
    ln "$work/eng" "$work/eng.$other"
    { pairs eng "$other" "$work/eng.$other"; pairs "$other" eng "$work/$other"; } &
done
wait
ls -l "$text"/*.teacher.tsv.gz
