"""Compares intervals and p-values of `polyhead score` with sacreBLEU's on system outputs of WMT13 and WMT14.

usage: python bench/score_significance.py POLYHEAD FOLDER

FOLDER holds wmt13 and wmt14 .ref.de.gz, .en.gz, .bergamot-tiny.de.gz and .bergamot-base-memory.de.gz.
Needs: sacrebleu==2.6.0, NumPy 2.
"""

import gzip
import json
import logging
import pathlib
import subprocess
import sys
import tempfile

import numpy
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

METRICS = {"bleu": BLEU, "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2), "ter": TER}


def lines(path):
    return [line.rstrip() for line in gzip.open(path, "rt", encoding="utf-8", newline="\n")]


def ours(program, reference, systems, options):
    names = [part for name in systems for part in ("--hypothesis", str(name))]
    command = [program, "score", "-r", str(reference), *names, "--metric", ",".join(METRICS), "--format", "json", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["systems"]


def main():
    logging.disable(logging.CRITICAL)
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    print(f"sacreBLEU {sacrebleu.__version__}, NumPy {numpy.__version__}")
    for year in ("wmt13", "wmt14"):
        texts = {name: lines(folder / f"{year}.{name}.gz")
                 for name in ("ref.de", "bergamot-base-memory.de", "bergamot-tiny.de", "en")}
        base, tiny = texts["bergamot-base-memory.de"], texts["bergamot-tiny.de"]
        texts["mixed.de"] = [pair[index % 2] for index, pair in enumerate(zip(base, tiny))]
        names = ["bergamot-base-memory.de", "bergamot-tiny.de", "mixed.de", "en"]
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in texts.items():
                (pathlib.Path(scratch) / name).write_text("\n".join(text) + "\n", encoding="utf-8")
            paths = [pathlib.Path(scratch) / name for name in names]
            for test, options in (("bs", []), ("ar", ["--paired-ar"])):
                found = ours(program, pathlib.Path(scratch) / "ref.de", paths, options)
                for index, (kind, make) in enumerate(METRICS.items()):
                    systems = [(name, texts[name]) for name in names]
                    theirs = PairedTest(systems, {kind: make()}, [texts["ref.de"]], test_type=test)()[1]
                    column = next(value for key, value in theirs.items() if key != "System")
                    for name, system, result in zip(names, found, column):
                        metric = system["metrics"][index]
                        own = [metric["score"], metric.get("confidence", {}).get("mean"),
                               metric.get("confidence", {}).get("half_width"), metric.get("baseline", {}).get("p_value")]
                        other = [None if value is None else float(value)
                                 for value in (result.score, result.mean, result.ci, result.p_value)]
                        gap = max((abs(a - b) for a, b in zip(own, other) if b is not None), default=0.0)
                        shown = " ".join("-".rjust(9) if value is None else f"{value:9.5f}" for value in own)
                        equal = [a == b for a, b in zip(own, other)]
                        print(f"{year} {test} {kind:7} {name:24} {shown}  largest difference {gap:.0e}, "
                              f"{sum(equal)} of 4 equal bit for bit")


if __name__ == "__main__":
    main()
