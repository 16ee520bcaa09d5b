"""Images prepared by the processors of Hugging Face's transformers (images.json.gz).

    python images.py

The images are not stored: a byte is a function of its place, which the test computes too. Of a prepared image the file has its
size, the CRC-32 of its bytes (numbers times deviation plus mean, times 255), and some of its numbers. JPEG files are stored with the
pixels that Pillow decodes. Made with transformers
5.23.0 and Pillow 13.0.0, without torchvision.
"""

import gzip
import io
import json
import zlib
from pathlib import Path

import numpy
from PIL import Image, ImageOps
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

# Width, height and channels of the images.
SIZES = [(1, 1, 3), (1, 300, 3), (300, 1, 3), (7, 5, 3), (31, 97, 3), (224, 224, 3), (225, 223, 3), (256, 256, 3),
         (257, 255, 1), (512, 3, 3), (640, 480, 3), (480, 641, 3), (333, 777, 3), (1000, 10, 3), (99, 101, 1), (28, 28, 1),
         (449, 447, 3), (600, 601, 3), (123, 45, 3), (720, 405, 3)]
IMAGENET = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])
PROCESSORS = {
    "vit": ViTImageProcessorPil(),
    "deit": DeiTImageProcessorPil(**IMAGENET),
    "lanczos": ViTImageProcessorPil(resample=1, size={"height": 50, "width": 81}, **IMAGENET),
    "shortest": DeiTImageProcessorPil(size={"shortest_edge": 60}, crop_size={"height": 48, "width": 65}, resample=2,
                                      do_normalize=False),
    "padded": DeiTImageProcessorPil(size={"height": 20, "width": 33}, crop_size={"height": 25, "width": 30}, resample=0),
}


def image(width, height, channels):
    """Waves with a hash on top, so that both smooth areas and sharp edges occur."""
    y, x, c = numpy.meshgrid(numpy.arange(height), numpy.arange(width), numpy.arange(channels), indexing="ij")
    wave = (x * (3 + c) + y * (5 - c)) % 511
    wave = numpy.where(wave > 255, 510 - wave, wave)
    noise = ((x * 73856093) ^ (y * 19349663) ^ (c * 83492791)) % 256
    array = numpy.where((x // 16 + y // 16) % 3 == 0, noise, wave).astype(numpy.uint8)
    return Image.fromarray(array[:, :, 0] if channels == 1 else array)


def jpegs():
    """Baseline, progressive, grey and inverted (CMYK) files, one turned by its camera."""
    own = image(40, 24, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds = [(own, dict(quality=90)), (own, dict(quality=75, progressive=True)), (own.convert("L"), dict(quality=80)),
             (own.convert("CMYK"), dict(quality=95)), (own, dict(quality=95, subsampling=0, exif=exif.tobytes()))]
    for picture, options in kinds:
        file = io.BytesIO()
        picture.save(file, "JPEG", **options)
        shown = ImageOps.exif_transpose(Image.open(file)).convert("RGB")
        yield {"file": list(file.getvalue()), "size": shown.size, "pixels": list(shown.tobytes())}


def main():
    found = []
    for name, processor in PROCESSORS.items():
        config = json.loads(processor.to_json_string())
        cases = []
        for size in SIZES:
            if name == "shortest" and max(size[:2]) > 20 * min(size[:2]):
                continue
            own = image(*size).convert("RGB")
            out = processor(own, return_tensors="np")["pixel_values"][0]
            mean = numpy.array(config["image_mean"] if config["do_normalize"] else [0, 0, 0])[:, None, None]
            deviation = numpy.array(config["image_std"] if config["do_normalize"] else [1, 1, 1])[:, None, None]
            data = numpy.rint((out.astype(numpy.float64) * deviation + mean) * 255).astype(numpy.uint8)
            samples = [float(f"{value:.8g}") for value in out.flatten()[:: max(1, out.size // 5)][:5]]
            cases.append({"size": size, "shape": out.shape, "crc": zlib.crc32(data.tobytes()), "samples": samples})
        found.append({"name": name, "config": config, "cases": cases})
    text = json.dumps({"preprocessors": found, "jpegs": list(jpegs())}, separators=(",", ":"))
    Path(__file__).with_name("images.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


main()
