#!/bin/sh
# The ladder from the simple recurrent network to the Transformer on Multi30k, English to German: trains every rung, translates
# the test set of 2016 and draws the alignment of one sentence. Run it at the root of the repository, with
# POLYHEAD=target/release/polyhead if the program is not on the PATH; report.py beside it makes the table and the plot.
#
#   recipes/ladder/run.sh              all rungs
#   recipes/ladder/run.sh rnn lstm     some of them
#
# The test set is data/multi30k/tok/test_2016_flickr.lc.norm.tok.en (and .de), possibly compressed with gzip. On an H200 a rung
# takes about a minute, and several can run at once; on two CPU cores several hours.
set -eu
program=${POLYHEAD:-polyhead}
runs=${RUNS:-runs/ladder}
test=data/multi30k/tok/test_2016_flickr.lc.norm.tok
sentence="a man in an orange hat starring at something ."
translation="ein mann mit einem orangefarbenen hut , der etwas anstarrt ."

keys() {
    case $1 in
    rnn) echo 'cell="rnn" attention="none"' ;;
    gru) echo 'cell="gru" attention="none"' ;;
    lstm) echo 'cell="lstm" attention="none"' ;;
    lstm-cosine) echo 'score="cosine"' ;;
    lstm-additive) echo 'score="additive"' ;;
    lstm-location) echo 'score="location"' ;;
    lstm-general) echo 'score="general"' ;;
    lstm-dot) echo 'score="dot"' ;;
    lstm-scaled_dot) echo 'score="scaled_dot"' ;;
    bahdanau) echo 'cell="gru" attention="bahdanau" score="additive"' ;;
    luong) echo 'input_feeding=true' ;;
    local-m) echo 'local="monotonic" window=5' ;;
    local-p) echo 'local="predictive" window=5' ;;
    lstmn) echo 'cell="lstmn" bidirectional=false' ;;
    transformer) ;;
    *) echo "unknown rung $1" >&2 && exit 2 ;;
    esac
}

all="rnn gru lstm lstm-cosine lstm-additive lstm-location lstm-general lstm-dot lstm-scaled_dot bahdanau luong local-m local-p
lstmn transformer"
mkdir -p "$runs"
for side in en de; do
    [ -f "$runs/test.$side" ] || gzip -cdf "$test.$side"* > "$runs/test.$side"
done
for rung in ${*:-$all}; do
    recipe=recipes/ladder/recurrent.toml
    [ "$rung" != transformer ] || recipe=recipes/ladder/transformer.toml
    out=$runs/$rung
    set -- --set "out=\"$PWD/$out\"" --set "seed=${SEED:-1}"
    for key in $(keys "$rung"); do set -- "$@" --set "model.$key"; done
    "$program" train "$recipe" "$@"
    "$program" evaluate -m "$out/model" --source "$runs/test.en" --reference "$runs/test.de" --tokenize none --beam 5 \
        --out "$out/test.de" --format json > "$out/test.json"
    # A model without attention has no alignment to draw.
    "$program" inspect "$sentence" --target "$translation" -m "$out/model" --out "$out/alignment.json" || true
done
