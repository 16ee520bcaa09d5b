#!/usr/bin/env bash
# Time and memory of `polyhead data check` next to `wc` + `sort -u` on the same two files, alternating, best of N.
#   bench/data_check.sh POLYHEAD N SOURCE TARGET
# Prints one JSON line per tool.
set -eu
polyhead=$1 repeats=$2 source=$3 target=$4
lines=$(wc -l < "$source")
peer() { wc "$1" "$2" > /dev/null; LC_ALL=C sort -u --parallel=2 "$1" > /dev/null; LC_ALL=C sort -u --parallel=2 "$2" > /dev/null; }
export -f peer
best_ours=1e9 best_peer=1e9 most=0
for _ in $(seq "$repeats"); do
    read -r s kb < <({ /usr/bin/time -f '%e %M' "$polyhead" data check --source "$source" --target "$target" > /dev/null; } 2>&1 | tail -1)
    best_ours=$(awk "BEGIN{print ($s<$best_ours)?$s:$best_ours}"); most=$(awk "BEGIN{print ($kb>$most)?$kb:$most}")
    read -r s _ < <({ /usr/bin/time -f '%e %M' bash -c 'peer "$1" "$2"' - "$source" "$target"; } 2>&1 | tail -1)
    best_peer=$(awk "BEGIN{print ($s<$best_peer)?$s:$best_peer}")
done
awk -v l="$lines" -v o="$best_ours" -v p="$best_peer" -v m="$most" 'BEGIN {
    printf "{\"bench\":\"data_check\",\"tool\":\"polyhead data check\",\"lines\":%d,\"seconds_best\":%s,\"peak_memory_bytes\":%d,\"bytes_a_line\":%.1f}\n", l, o, m*1024, m*1024/l
    printf "{\"bench\":\"data_check\",\"tool\":\"wc + LC_ALL=C sort -u --parallel=2\",\"lines\":%d,\"seconds_best\":%s,\"polyhead_takes\":%.2f}\n", l, p, o/p }'
