#!/usr/bin/env bash
# Text for the default translator: data/ (or $1) → runs/default/text (or $2). Needs polyhead on the PATH, or in $POLYHEAD.
#
#   tatoeba          CC-BY 2.0 FR   everyday sentences, as they are
#   libreoffice-po   MPL-2.0        texts of an office program and its help, cleaned
#   python-docs-tr   CC0            documentation in Turkish: text without markup
#
# Data whose licence forbids this use or is unclear is not used; README.md beside this file says which and why.
set -euo pipefail
data=${1:-data} text=${2:-runs/default/text} polyhead=${POLYHEAD:-polyhead}
mkdir -p "$text"

for pair in de:deu fr:fra tr:tur; do
    short=${pair%:*} long=${pair#*:}
    install -m 644 "$data/tatoeba/train.eng-$long.tsv.gz" "$text/tatoeba.eng-$long.tsv.gz"
    install -m 644 "$data/tatoeba/valid.eng-$long.tsv.gz" "$text/valid.eng-$long.tsv.gz"
    # Formulas and lists of options teach nothing about a language, and pairs that a test has would be cheating.
    zcat "$data/libreoffice-po/en-$short.tsv.gz" | cut -f1,2 | grep -v '[=%$|{}\\<>_]\|XX' | gzip > "$text/raw.tsv.gz"
    "$polyhead" data clean --tsv "$text/raw.tsv.gz" --test-tsv "$data/tatoeba/test.eng-$long.tsv.gz" --max-chars 400 \
        --max-ratio 3 --out "$text/office.eng-$long.tsv.gz" --report "$text/office.eng-$long.dropped.jsonl.gz"
done
zcat "$data/python-docs-tr/en-tr.tsv.gz" | cut -f1,2 | grep -v '[`*_=%$|{}\\<>]' | gzip > "$text/raw.tsv.gz"
"$polyhead" data clean --tsv "$text/raw.tsv.gz" --test-tsv "$data/tatoeba/test.eng-tur.tsv.gz" --max-chars 400 \
    --max-ratio 3 --out "$text/python.eng-tur.tsv.gz" --report "$text/python.eng-tur.dropped.jsonl.gz"
rm "$text/raw.tsv.gz"
ls -l "$text"/*.tsv.gz
