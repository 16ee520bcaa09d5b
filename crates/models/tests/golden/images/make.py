"""Random-weight image classifiers of Hugging Face's transformers: logits, states and attention weights (images.json.gz).

    python make.py

Weights and pixels are not stored: element i of a tensor is a function of i and the CRC-32 of its name, which the test computes
too. Made with transformers 5.23.0 and torch 2.15.0.
"""

import gzip
import json
import zlib
from pathlib import Path

import torch
from transformers import (DeiTConfig, DeiTForImageClassification, DeiTForImageClassificationWithTeacher, ViTConfig,
                          ViTForImageClassification)

COMMON = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
              id2label={0: "cat", 1: "dog", 2: "fish", 3: "bird"}, label2id={"cat": 0, "dog": 1, "fish": 2, "bird": 3})
# The class, its config, and the sizes of images: the second needs interpolated positions.
CASES = {
    "vit": (ViTForImageClassification, ViTConfig(**COMMON, image_size=12, patch_size=4), [[12, 12], [20, 8]]),
    "vit-grey": (ViTForImageClassification,
                 ViTConfig(**COMMON, image_size=10, patch_size=3, num_channels=1, qkv_bias=False, layer_norm_eps=1e-6,
                           hidden_act="gelu_new"), [[10, 10], [16, 21]]),
    "deit": (DeiTForImageClassification, DeiTConfig(**COMMON, image_size=12, patch_size=4), [[12, 12], [16, 24]]),
    "deit-teacher": (DeiTForImageClassificationWithTeacher, DeiTConfig(**COMMON, image_size=9, patch_size=3),
                     [[9, 9], [12, 6]]),
}


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    values = torch.tensor(values, dtype=torch.float64)
    # Norms multiply by numbers around 1.
    is_norm = len(shape) == 1 and name.endswith(".weight")
    return (values * 0.8 + (1 if is_norm else 0)).to(torch.float32).reshape(shape)


def pixels(name, shape):
    return weight(name, shape) * 4


def rounded(tensor):
    return [float(f"{value:.6g}") for value in tensor.detach().flatten().tolist()]


def main():
    found = {}
    for name, (kind, config, sizes) in CASES.items():
        config._attn_implementation = "eager"
        model = kind(config).eval()
        tensors = []
        for own, tensor in model.state_dict().items():
            with torch.no_grad():
                tensor.copy_(weight(own, tensor.shape))
        folder = Path("/tmp") / f"golden-{name}"
        model.save_pretrained(folder)
        from safetensors import safe_open
        with safe_open(folder / "model.safetensors", "pt") as file:
            # The values in a file belong to the names in the file.
            for own in sorted(file.keys()):
                tensors.append([own, list(file.get_slice(own).get_shape())])
        state = {own: weight(own, shape) for own, shape in tensors}
        from safetensors.torch import save_file
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        model = kind.from_pretrained(folder, attn_implementation="eager").eval()
        runs = []
        for index, size in enumerate(sizes):
            batch = torch.stack([pixels(f"{name} {index} {row}", [config.num_channels, *size]) for row in range(2)])
            with torch.no_grad():
                out = model(batch, output_attentions=True, output_hidden_states=True, interpolate_pos_encoding=index > 0)
            runs.append({"size": size, "logits": rounded(out.logits), "attention": [rounded(own[:1]) for own in out.attentions],
                         "embedding": rounded(out.hidden_states[0][:1])})
        config = json.loads((folder / "config.json").read_text())
        found[name] = {"config": config, "tensors": tensors, "runs": runs}
    text = json.dumps(found, separators=(",", ":"))
    Path(__file__).with_name("images.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
