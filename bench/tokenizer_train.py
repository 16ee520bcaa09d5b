"""Time of training tokenisers: polyhead next to Python's `tokenizers` and `sentencepiece`, alternating, best of N.

    python bench/tokenizer_train.py POLYHEAD N FILE...        (pip install tokenizers sentencepiece)

Prints one JSON line per measurement: seconds (best and all), threads, and for BPE whether the merges are equal. Both
sides read the same plain text files; polyhead's time is of the whole program, Python's of the training call alone.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import sentencepiece
import tokenizers
from tokenizers import Tokenizer, models, trainers

SIZE = 8000
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def ours(polyhead, kind, files, out, threads):
    command = [polyhead, "tokenizer", "train", "--kind", kind, "--vocab-size", str(SIZE), "--out", out, "--overwrite"]
    command += ["--character-coverage", "1", "--threads", str(threads)]
    for file in files:
        command += ["--input", file]
    start = time.time()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return time.time() - start


def theirs(kind, files, reference, out):
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        trainer = trainers.BpeTrainer(
            vocab_size=SIZE, min_frequency=2, special_tokens=SPECIAL, show_progress=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(
            vocab_size=SIZE, unk_token="<unk>", special_tokens=SPECIAL, show_progress=False)
    tokenizer.normalizer, tokenizer.pre_tokenizer = reference.normalizer, reference.pre_tokenizer
    start = time.time()
    tokenizer.train(files, trainer)
    seconds = time.time() - start
    tokenizer.save(out)
    return seconds


def spm(kind, files, prefix):
    start = time.time()
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(files), model_prefix=prefix, vocab_size=SIZE, model_type=kind, num_threads=os.cpu_count(),
        minloglevel=2)
    return time.time() - start


def report(**line):
    print(json.dumps(line), flush=True)


def main(polyhead, repeats, files):
    cores = os.cpu_count()
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("bpe", "unigram"):
            mine, python = f"{folder}/ours.json", f"{folder}/python.json"
            seconds = {"polyhead-1": [], "polyhead": [], "tokenizers": [], "sentencepiece": []}
            for _ in range(repeats):
                seconds["polyhead-1"].append(ours(polyhead, kind, files, mine, 1))
                seconds["polyhead"].append(ours(polyhead, kind, files, mine, cores))
                seconds["tokenizers"].append(theirs(kind, files, Tokenizer.from_file(mine), python))
                seconds["sentencepiece"].append(spm(kind, files, f"{folder}/spm"))
            versions = {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__}
            best = {tool: min(times) for tool, times in seconds.items()}
            for tool, times in seconds.items():
                report(bench="tokenizer_train", kind=kind, vocab_size=SIZE, tool=tool, version=versions.get(tool),
                       threads=1 if tool.endswith("-1") else cores, seconds_best=round(best[tool], 3),
                       seconds=[round(t, 3) for t in times], polyhead_is_faster=round(best[tool] / best["polyhead"], 2))
            if kind == "bpe":
                merges = [json.load(open(path, encoding="utf8"))["model"]["merges"] for path in (mine, python)]
                report(bench="tokenizer_train", kind=kind, merges=len(merges[0]), merges_equal=merges[0] == merges[1])


main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
