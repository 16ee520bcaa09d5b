#!/usr/bin/env bash
# The lexical shortlist of the default translator: MODEL/shortlist.safetensors, from the pairs in the folder TEXT, files
# NAME.eng-deu.tsv, NAME.eng-fra.tsv and NAME.eng-tur.tsv (English, tab, the other language). Up to 300,000 pairs of each
# two languages are used ($PAIRS), evenly spread over the files; tests and validation text are left out. Translations into
# English use all tokens: there a list costs 0.05 BLEU.
# Needs polyhead on the PATH, or in $POLYHEAD. Two minutes on two cores.
#
#   recipes/default/shortlist.sh models/default runs/default/text
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "usage: recipes/default/shortlist.sh MODEL TEXT" >&2
    exit 2
fi
model=$1 text=$2 polyhead=${POLYHEAD:-polyhead}
files=()
for pair in de:deu fr:fra tr:tur; do
    for file in "$text"/*.eng-"${pair#*:}".tsv; do
        case ${file##*/} in
        valid.* | test.*) continue ;;
        esac
        if [ -s "$file" ]; then files+=(--tsv "$file" --languages "en,${pair%:*}"); fi
    done
done
"$polyhead" shortlist train --model "$model" "${files[@]}" --max-pairs "${PAIRS:-300000}" \
    --into de,fr,tr --frequent 5000 --per-token 50 --min-probability 0.0003 --overwrite
