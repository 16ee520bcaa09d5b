#!/usr/bin/env bash
# Translations by the teacher: runs/default/teacher/model (or $1), runs/default/text (or $2) → TEXT/*.teacher.tsv.gz.
#
#   XXX-eng.teacher.tsv.gz   every sentence of another language with the teacher's English translation
#   eng-XXX.teacher.tsv.gz   English sentences with the teacher's translation: all of them into Turkish, which has the least
#                            text of its own, and 98,304 of them into German and French
#
# The student learns from both (distillation: Kim & Rush 2016, "Sequence-Level Knowledge Distillation"), and from the second
# in reverse (back-translation: Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual
# Data"), where the target is human text.
set -euo pipefail
teacher=${1:-runs/default/teacher/model} text=${2:-runs/default/text} polyhead=${POLYHEAD:-polyhead}
device=${DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sentences() { for file in "$text"/tatoeba.$1.tsv.gz "$text"/office.$1.tsv.gz "$text"/python.$1.tsv.gz; do
    if [ -e "$file" ]; then zcat "$file" | cut -f"$2"; fi; done | LC_ALL=C sort -u; }
# pairs FROM TO FILE: the sentences of FILE with their translations, without pairs of very different lengths.
pairs() {
    "$polyhead" translate --model "$teacher" --device "$device" --to "$2" --raw --beam 4 --max-length 128 < "$3" > "$3.$2"
    paste "$3" "$3.$2" | gzip -1 > "$work/$1-$2.raw.tsv.gz"
    "$polyhead" data clean --tsv "$work/$1-$2.raw.tsv.gz" --max-ratio 3 --out "$text/$1-$2.teacher.tsv.gz" \
        --report "$work/$1-$2.dropped.jsonl"
}

# Lists of settings are long and teach nothing; the order is the same on every machine.
sentences 'eng-*' 1 | awk 'length($0) <= 250' | shuf --random-source=<(yes) > "$work/eng.tur"
for other in deu fra; do head -n 98304 "$work/eng.tur" > "$work/eng.$other"; done
jobs=()
for other in deu fra tur; do
    sentences "eng-$other" 2 > "$work/$other"
    { pairs eng "$other" "$work/eng.$other"; pairs "$other" eng "$work/$other"; } &
    jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
ls -l "$text"/*.teacher.tsv.gz
