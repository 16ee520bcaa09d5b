#!/bin/sh
# Lists of the Free Spoken Digit Dataset (github.com/Jakobovski/free-spoken-digit-dataset, CC BY-SA 4.0): 3,000 recordings of the
# digits by six speakers, 50 of each digit each.
#
#   sh digits.sh RECORDINGS LISTS
#
# RECORDINGS is the folder of the recordings (0_george_0.wav, …). LISTS gets train.tsv, valid.tsv and test.tsv, where recordings 0
# to 4 are the test set as in the dataset's own split and 5 to 9 are for validation; and speakers/, where one speaker, theo, is the
# test set and in neither of the others.
set -eu
recordings=$(cd "$1" && pwd)
mkdir -p "$2/speakers"
lists=$(cd "$2" && pwd)
for name in train valid test; do : > "$lists/$name.tsv"; : > "$lists/speakers/$name.tsv"; done
for path in "$recordings"/?_*_*.wav; do
    name=$(basename "$path" .wav)
    digit=${name%%_*} rest=${name#*_}
    speaker=${rest%_*} index=${rest##*_}
    word=$(echo "zero one two three four five six seven eight nine" | cut -d ' ' -f $((digit + 1)))
    if [ "$index" -lt 5 ]; then part=test; elif [ "$index" -lt 10 ]; then part=valid; else part=train; fi
    printf '%s\t%s\n' "$path" "$word" >> "$lists/$part.tsv"
    if [ "$speaker" = theo ]; then part=test; elif [ "$part" = test ]; then part=train; fi
    printf '%s\t%s\n' "$path" "$word" >> "$lists/speakers/$part.tsv"
done
wc -l "$lists"/*.tsv "$lists"/speakers/*.tsv
