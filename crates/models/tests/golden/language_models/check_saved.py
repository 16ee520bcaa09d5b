"""Whether transformers gets the logits of expected.json.gz from folders that Polyhead wrote.

    POLYHEAD_SAVE=DIR cargo test -p polyhead-models --test it -- folders_are_written_as_they_were_read
    python check_saved.py DIR
"""

import gzip
import json
import pathlib
import sys

import torch
import transformers

from make import HERE, MODELS, load

transformers.logging.set_verbosity_error()
for name in MODELS:
    expected = json.loads(gzip.decompress((HERE / name / "expected.json.gz").read_bytes()))
    for dtype in ("F32", "F16"):
        model = load(pathlib.Path(sys.argv[1]) / f"{name}-{dtype}")
        with torch.no_grad():
            found = model(torch.tensor([expected["text"]])).logits[0]
        error = (found - torch.tensor(expected["logits"])).abs().max().item()
        print(f"{name} {dtype} {type(model).__name__}: largest difference {error:.2g}")
