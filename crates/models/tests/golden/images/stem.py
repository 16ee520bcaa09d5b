"""The convolutional stem of a Vision Transformer, computed by PyTorch's convolutions (stem.json).

    python stem.py

Weights and pixels are those of make.py, by the names of Polyhead. Made with torch 2.15.0.
"""

import json
from pathlib import Path

import torch
from make import pixels, rounded, weight
from torch.nn import functional as F

CHANNELS, WIDTH, SIZE = 3, 6, [8, 12]


def main():
    x = torch.stack([pixels(f"stem {row}", [CHANNELS, *SIZE]) for row in range(2)])
    for level, [inputs, outputs] in enumerate([[CHANNELS, WIDTH // 2], [WIDTH // 2, WIDTH]]):
        name = f"stem.{level}"
        # Polyhead's kernel has the channels of a tap together.
        kernel = weight(f"{name}.convolution.weight", [outputs, 9 * inputs]).reshape(outputs, 3, 3, inputs)
        bias = weight(f"{name}.convolution.bias", [outputs])
        x = F.conv2d(F.pad(x, [1, 1, 1, 1], mode="replicate"), kernel.permute(0, 3, 1, 2), bias, stride=2)
        x = F.gelu(x).permute(0, 2, 3, 1)
        x = F.layer_norm(x, [outputs], weight(f"{name}.norm.gamma", [outputs]), weight(f"{name}.norm.beta", [outputs]), 1e-5)
        x = x.permute(0, 3, 1, 2)
    x = F.linear(x.permute(0, 2, 3, 1), weight("patches.weight", [WIDTH, WIDTH]), weight("patches.bias", [WIDTH]))
    x = x.reshape(2, -1, WIDTH) + weight("encoder.positions.weight", [x.shape[1] * x.shape[2], WIDTH])
    Path(__file__).with_name("stem.json").write_text(json.dumps(rounded(x)) + "\n")


if __name__ == "__main__":
    main()
