"""Writes what generate() makes of the models here under rules for tokens and further ways to stop.

    python rules.py [NAME...]

Made with torch 2.15.0, transformers 5.22.2. NAME/rules.json.gz holds cases: the options of generate() and, for each
source of NAME/generate.json.gz alone, the ids without padding and, with beams, the sequences_scores, best first. A case is written
only if the results do not depend on rounding: computed in float64 all ids are the same.
"""

import gzip
import json
import pathlib
import sys

import torch
import transformers

import make

HERE = pathlib.Path(__file__).parent
NAMES = ["relu", "gelu", "opus"]


def settings(sources, plain):
    """Options of generate(); `plain` are the ids that beams give without rules, so that rules have something to do."""
    pairs = [ids[1:3] for ids in plain] + [ids[3:6] for ids in plain if len(ids) > 7] + [[plain[0][2]]]
    beams = dict(num_beams=4, num_return_sequences=2)
    for early_stopping in ("never", False, True):
        for length_penalty in (1.0, 0.0, -0.5, 2.0):
            yield dict(beams, early_stopping=early_stopping, length_penalty=length_penalty)
    rules = [
        dict(repetition_penalty=1.3), dict(repetition_penalty=0.8), dict(no_repeat_ngram_size=1),
        dict(no_repeat_ngram_size=2), dict(no_repeat_ngram_size=3), dict(bad_words_ids=pairs),
        dict(min_new_tokens=9), dict(forced_eos_token_id=0),
        dict(repetition_penalty=1.2, no_repeat_ngram_size=2, bad_words_ids=pairs, min_new_tokens=5,
             forced_eos_token_id=0),
    ]
    for rule in rules:
        yield dict(num_beams=1, num_return_sequences=1, early_stopping=False, length_penalty=1.0) | rule
        yield dict(beams, early_stopping=False, length_penalty=1.0) | rule


def results(model, sources, options):
    found = []
    for source in sources:
        output = make.generate(model, [source], **options)
        scores = output.sequences_scores.tolist() if options["num_beams"] > 1 else [None]
        rows = [make.cut(ids, model.config.eos_token_id) for ids in output.sequences.tolist()]
        found.append([{"ids": ids, "score": score and float(f"{score:.8g}")} for ids, score in zip(rows, scores)])
    return found


def write(name):
    folder = HERE / name
    sources = json.loads(gzip.decompress((folder / "generate.json.gz").read_bytes()))["sources"]
    model, double = make.record.load(folder), make.record.load(folder).double()
    plain = [rows[0]["ids"] for rows in make.beam(model, sources, num_beams=4, num_return_sequences=1)]
    cases, left_out = [], 0
    for options in settings(sources, plain):
        found = results(model, sources, options)
        if make.only_ids(found) != make.only_ids(results(double, sources, options)):
            left_out += 1
            continue
        rows = ",\n".join(f"  {json.dumps(row)}" for row in found)
        cases.append(f' {{"options": {json.dumps(options)}, "results": [\n{rows}\n ]}}')
    make.write_packed(folder / "rules.json.gz", "[\n" + ",\n".join(cases) + "\n]\n")
    print(f"{name}: {len(cases)} cases, {left_out} left out")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or NAMES:
        write(name)
