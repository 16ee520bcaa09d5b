#!/usr/bin/env bash
# Prints unsure_below of a translator (models/default, or $1) for its generation_config.json: the mean log-probability of a token
# that 3 % of the translations of Tatoeba's validation sentences lie below, all six directions, 700 sentences each ($3). The data
# are in data/ (or $2). Needs polyhead on the PATH, or in $POLYHEAD. The number belongs to one model: measure it again for each.
set -euo pipefail
model=${1:-models/default} data=${2:-data} n=${3:-700} polyhead=${POLYHEAD:-polyhead}
all=$(mktemp)
trap 'rm -f "$all"' EXIT

# quantile NAME: of the numbers on standard input, those below which 1, 3 and 10 % lie, and the median.
quantile() {
    sort -g | awk -v name="$1" '{v[NR] = $1}
        function q(p,  i) { i = int(NR * p) + 1; return v[i > NR ? NR : i] }
        END {printf "%-6s %6d  %7.3f  %7.3f  %7.3f  %7.3f\n", name, NR, q(0.01), q(0.03), q(0.1), q(0.5)}'
}

echo "way        n      1 %      3 %     10 %     50 %"
for pair in de:deu fr:fra tr:tur; do
    short=${pair%:*} long=${pair#*:}
    for way in en-$short $short-en; do
        column=$([ "${way%-*}" = en ] && echo 1 || echo 2)
        zcat "$data/tatoeba/valid.eng-$long.tsv.gz" | awk -v n="$n" 'NR <= n' | cut -f"$column" |
            "$polyhead" translate --quiet --model "$model" --from "${way%-*}" --to "${way#*-}" --format jsonl |
            sed -E 's/.*"log_probability":([-0-9.e]+).*"tokens":([0-9]+).*/\1 \2/' |
            awk '$2 > 0 {print $1 / $2}' | tee -a "$all" | quantile "$way"
    done
done
quantile all < "$all"
