#!/bin/sh
# Writes the labelled texts of recipes/encoder: OUT/trec-qc/{train,valid,test}.tsv and OUT/sst2/{train,dev,test}.tsv.gz, a text and
# its label on each line.
#
# usage: recipes/encoder/prepare.sh DATA OUT
#
# DATA holds trec-qc/{train,test}.txt.gz (Li & Roth 2002; the last 500 training questions are held out for validation) and
# sst2/{train,dev,test}.tsv.gz (Socher et al. 2013), whose files have a header.
set -eu
data=$1 out=$2
mkdir -p "$out/trec-qc" "$out/sst2"
for part in train test; do
    zcat "$data/trec-qc/$part.txt.gz" | iconv -f latin1 -t utf8 | sed 's/^\([A-Z]*\):[a-z]* \(.*\)$/\2\t\1/' > "$out/trec-qc/$part-all.tsv"
done
head -n 4952 "$out/trec-qc/train-all.tsv" > "$out/trec-qc/train.tsv"
tail -n 500 "$out/trec-qc/train-all.tsv" > "$out/trec-qc/valid.tsv"
mv "$out/trec-qc/test-all.tsv" "$out/trec-qc/test.tsv"
rm "$out/trec-qc/train-all.tsv"
for part in train dev test; do
    zcat "$data/sst2/$part.tsv.gz" | tail -n +2 | sed 's/ *\t/\t/' | gzip > "$out/sst2/$part.tsv.gz"
done
wc -l "$out"/trec-qc/*.tsv
