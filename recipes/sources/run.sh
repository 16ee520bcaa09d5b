#!/bin/sh
# Trains German → English, French → English and German + French → English on the same triples, and scores them on the same test set.
#
#   recipes/sources/run.sh DATA [SEEDS]      # in the root of the repository; DATA as ../shared/data, SEEDS as "1 2 3"
#
# Every model takes the same number of steps with about the same sentences. `flat` reads both languages with one encoder, so that it has
# hardly more parameters than a model of one source; `hierarchical` has an encoder for each. `twice` is a control: the model of
# `flat`, reading the French sentence twice.
set -eu
data=$1
seeds=${2:-1 2 3}
polyhead=${POLYHEAD:-target/release/polyhead}
models=${MODELS:-de fr flat hierarchical twice}
runs=runs/sources
if [ ! -e runs/sources-data/train.tsv ]; then
    tatoeba=$data/tatoeba
    python3 recipes/sources/triples.py \
        "$tatoeba/train.eng-deu.tsv.gz,$data/parallel/tatoeba-more.en-de.tsv.xz" \
        "$tatoeba/train.eng-fra.tsv.gz,$data/parallel/tatoeba-more.en-fr.tsv.xz" runs/sources-data \
        "$tatoeba/test.eng-deu.tsv.gz" "$tatoeba/test.eng-fra.tsv.gz" "$tatoeba/valid.eng-deu.tsv.gz" \
        "$tatoeba/valid.eng-fra.tsv.gz"
fi
test=runs/sources-data/test.tsv

# The columns of a model's sources, once each.
columns() {
    case $1 in de) echo 1 ;; fr | twice) echo 2 ;; *) echo 1,2 ;; esac
}

for seed in $seeds; do
    for model in $models; do
        out=$runs/$model-$seed
        [ -e "$out/model/model.safetensors" ] && continue
        files="tsv = \"$PWD/runs/sources-data/PART.tsv\""
        case $model in
            de | fr) keys="source_column = $(columns "$model"), target_column = 3" sources=1 tokens=1024 ;;
            twice) keys="source_columns = [2, 2], target_column = 3" sources=2 tokens=2048 ;;
            *) keys="source_columns = [1, 2], target_column = 3" sources=2 tokens=2048 ;;
        esac
        combination=hierarchical shared=false
        case $model in flat | twice) combination=flat shared=true ;; esac
        part() { echo "{ $files, $keys }" | sed "s/PART/$1/"; }
        "$polyhead" train recipes/sources/sources.toml --threads 1 --set "out=\"$PWD/$out\"" --set seed=$seed \
            --set "data.train=$(part train)" --set "data.valid=$(part valid)" --set model.sources=$sources \
            --set "model.combination=\"$combination\"" --set model.shared_encoder=$shared --set train.max_tokens=$tokens
    done
done

for model in $models; do
    source=$runs/test.$model.tsv
    cut -f "$(columns "$model")" $test >"$source"
    if [ "$model" = twice ]; then awk '{ print $0 "\t" $0 }' "$source" >"$source.tmp" && mv "$source.tmp" "$source"; fi
    cut -f 3 $test >$runs/test.en
    for seed in $seeds; do
        echo "$model, seed $seed"
        "$polyhead" evaluate -m "$runs/$model-$seed/model" --threads 1 --raw --source "$source" --reference $runs/test.en
    done
done
