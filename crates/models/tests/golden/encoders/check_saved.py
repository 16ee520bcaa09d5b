"""Whether transformers gets the outputs of encoders.json.gz from folders that Polyhead wrote.

    POLYHEAD_SAVE=DIR cargo test -p polyhead-models --test it -- encoders::folders_are_written_as_they_were_read
    python check_saved.py DIR
"""

import gzip
import json
import pathlib
import sys

import torch
import transformers

transformers.logging.set_verbosity_error()
golden = json.loads(gzip.decompress(pathlib.Path(__file__).with_name("encoders.json.gz").read_bytes()))
# The order of the families in a JSON object read by Rust.
for name in sorted(golden["models"]):
    for index, case in enumerate(golden["models"][name]):
        folder = pathlib.Path(sys.argv[1]) / f"{name}-{index}"
        architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
        model, info = getattr(transformers, architecture).from_pretrained(folder, output_loading_info=True,
                                                                          attn_implementation="eager")
        types = {"token_type_ids": torch.tensor([golden["types"]])} if name == "bert" else {}
        with torch.no_grad():
            out = model.eval()(torch.tensor([golden["texts"][0]]), **types)
        key = next(key for key in ("states", "classes", "token_classes", "words") if key in case)
        found = out.last_hidden_state if key == "states" else out.logits
        error = (found.flatten() - torch.tensor(case[key])).abs().max().item()
        print(f"{name} {architecture}: largest difference {error:.2g}, missing {sorted(info['missing_keys'])}, "
              f"unexpected {sorted(info['unexpected_keys'])}")
