"""Writes small files of weights as torch.save does, and what they hold.

    python make.py

Made with torch 2.15.0. archive.bin is a zip archive, legacy.bin the format from before version 1.6, protocol4.bin an archive with a
pickle of protocol 4, nested.bin a checkpoint with the weights under "model". expected.json has shape, dtype and values of each tensor
by name; float16 and bfloat16 numbers are exact in it.
"""

import collections
import json
import pathlib

import torch

HERE = pathlib.Path(__file__).parent

torch.manual_seed(7)
storage = torch.randn(4, 5)
weights = collections.OrderedDict(
    {
        "whole": storage,
        "rows": storage[1:3],
        "columns": storage[:, 1:4:2],
        "transposed": storage.t(),
        "half": torch.randn(2, 3).half(),
        "bfloat": torch.randn(3).bfloat16(),
        "ids": torch.tensor([[3, -1], [2**31, 5]]),
        "one": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.randn(2, 1, 2)),
        "norm.gamma": torch.tensor([1.0, 2.0]),
        "norm.beta": torch.tensor([-1.0, 0.5]),
    }
)
weights._metadata = {"": {"version": 1}}
torch.save(weights, HERE / "archive.bin")
torch.save(weights, HERE / "legacy.bin", _use_new_zipfile_serialization=False)
torch.save(weights, HERE / "protocol4.bin", pickle_protocol=4)
torch.save({"epoch": 3, "best": 0.25, "model": weights, "notes": ["a", None, True, 2**40]}, HERE / "nested.bin")

names = {"norm.gamma": "norm.weight", "norm.beta": "norm.bias"}
expected = {
    names.get(name, name): {
        "shape": list(value.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "values": value.detach().flatten().tolist(),
    }
    for name, value in weights.items()
}
(HERE / "expected.json").write_text(json.dumps(expected) + "\n")
