"""Whether transformers gets the outputs of images.json.gz from folders that Polyhead wrote.

    POLYHEAD_SAVE=DIR cargo test -p polyhead-models --test it -- images::folders_are_written_as_they_were_read
    python check_saved.py DIR
"""

import gzip
import json
import pathlib
import sys
import zlib

import torch
import transformers

transformers.logging.set_verbosity_error()


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    return (torch.tensor(values, dtype=torch.float64) * 0.8).to(torch.float32).reshape(shape)


golden = json.loads(gzip.decompress(pathlib.Path(__file__).with_name("images.json.gz").read_bytes()))
for name, case in golden.items():
    folder = pathlib.Path(sys.argv[1]) / name
    config = json.loads((folder / "config.json").read_text())
    model, info = getattr(transformers, config["architectures"][0]).from_pretrained(folder, output_loading_info=True)
    size, channels = case["runs"][0]["size"], config["num_channels"]
    batch = torch.stack([weight(f"{name} 0 {row}", [channels, *size]) * 4 for row in range(2)])
    with torch.no_grad():
        out = model.eval()(batch)
    error = (out.logits.flatten() - torch.tensor(case["runs"][0]["logits"])).abs().max().item()
    print(f"{name} {config['architectures'][0]}: largest difference {error:.2g}, missing {sorted(info['missing_keys'])}, "
          f"unexpected {sorted(info['unexpected_keys'])}")
