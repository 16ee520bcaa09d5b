#!/bin/sh
# The texts of the recipes shakespeare-*.toml and captions-*.toml, written to data/shakespeare and data/captions. Run it at the
# root of the repository.
#
# It reads data/tinyshakespeare/input.txt.gz (Tiny Shakespeare, 40,000 lines) and data/multi30k/tok/{train,val,test_2016_flickr}
# .lc.norm.tok.en.gz (Multi30k, tokenised). Words that occur once in the training captions are replaced by *rare* in all files,
# so that every model predicts the same words.
set -eu
mkdir -p data/shakespeare data/captions
text=data/tinyshakespeare/input.txt.gz
gzip -cd $text | sed -n '1,36000p' > data/shakespeare/train.txt
gzip -cd $text | sed -n '36001,38000p' > data/shakespeare/valid.txt
gzip -cd $text | sed -n '38001,$p' > data/shakespeare/test.txt
# The division of nanoGPT, by characters.
gzip -cd $text | head -c 1003854 > data/shakespeare/first-90-percent.txt
gzip -cd $text | tail -c +1003855 > data/shakespeare/last-10-percent.txt

captions=data/multi30k/tok
gzip -cd $captions/train.lc.norm.tok.en.gz | tr ' ' '\n' | sort | uniq -c | awk '$1 > 1 && NF == 2 { print $2 }' > data/captions/words
for part in train:train val:valid test_2016_flickr:test; do
    gzip -cd "$captions/${part%:*}.lc.norm.tok.en.gz" |
        awk 'NR == FNR { known[$1] = 1; next } { for (i = 1; i <= NF; i++) if (!($i in known)) $i = "*rare*"; print }' \
            data/captions/words - > "data/captions/${part#*:}.txt"
done
rm data/captions/words
wc -l data/shakespeare/*.txt data/captions/*.txt
