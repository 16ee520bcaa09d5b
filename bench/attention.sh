#!/usr/bin/env bash
# Time and memory of full, window, dilated and global attention at lengths 256 … 16,384, as JSON lines.
#   bench/attention.sh POLYHEAD [THREADS]
set -eu
for pattern in full window dilated global; do
    for length in 256 512 1024 2048 4096 8192 16384; do
        "$1" bench attention --length "$length" --pattern "$pattern" --threads "${2:-2}" --repeats 3 --format jsonl
    done
done
