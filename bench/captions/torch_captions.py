"""Captions of a model folder by PyTorch's own Transformer layers and Pillow (greedy), compared with Polyhead's.

    polyhead caption -m MODEL --beam 1 --format jsonl data/scenes/test > captions.jsonl
    python torch_captions.py MODEL data/scenes captions.jsonl 100
"""

import json
import sys

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn


def main(folder, data, captions, count):
    config = json.load(open(f"{folder}/config.json"))
    own = load_file(f"{folder}/model.safetensors")
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    steps = json.load(open(f"{folder}/preprocessor_config.json"))
    d, size = config["d_model"], config["patch_size"]

    def copy(module, name):
        with torch.no_grad():
            for part, ours in (("weight", "gamma"), ("bias", "beta")):
                key = f"{name}.{ours}"
                getattr(module, part).copy_(own[key if key in own else f"{name}.{part}"])

    def attention(module, name, parts):
        with torch.no_grad():
            module.in_proj_weight.copy_(torch.cat([own[f"{name}.{part}.weight"] for part in parts]))
            module.in_proj_bias.copy_(torch.cat([own[f"{name}.{part}.bias"] for part in parts]))
        copy(module.out_proj, f"{name}.output")

    def stack(kind, name):
        sizes, found = config[name], []
        for index in range(sizes["n_layers"]):
            layer = kind(d, sizes["n_heads"], sizes["d_ff"], dropout=0.0, activation="gelu", batch_first=True,
                         norm_first=True).eval()
            place = f"{name}.layers.{index}"
            attention(layer.self_attn, f"{place}.self_attention", ["query_key_value"])
            norms = ["self_attention_norm", "feed_forward_norm"]
            if name == "decoder":
                attention(layer.multihead_attn, f"{place}.cross_attention", ["query", "key_value"])
                norms.insert(1, "cross_attention_norm")
            for number, norm in enumerate(norms):
                copy(getattr(layer, f"norm{number + 1}"), f"{place}.{norm}")
            copy(layer.linear1, f"{place}.feed_forward.inner")
            copy(layer.linear2, f"{place}.feed_forward.outer")
            found.append(layer)
        norm = nn.LayerNorm(d)
        copy(norm, f"{name}.norm")
        return found, norm

    (encoder, encoder_norm), (decoder, decoder_norm) = (
        stack(nn.TransformerEncoderLayer, "encoder"), stack(nn.TransformerDecoderLayer, "decoder"))
    same, far = 0, 0.0
    rows = [json.loads(line) for line in open(captions)][:count]
    for row in rows:
        pixels = numpy.asarray(Image.open(f"{data}/test/{row['image'].split('/')[-1]}"), numpy.float32)
        pixels = (pixels * steps["rescale_factor"] - steps["image_mean"]) / steps["image_std"]
        image = torch.tensor(pixels, dtype=torch.float32).permute(2, 0, 1)[None]
        kernel = own["patches.weight"].reshape(d, config["channels"], size, size)
        x = nn.functional.conv2d(image, kernel, own["patches.bias"], stride=size).flatten(2).transpose(1, 2)
        x = x + own["encoder.positions.weight"]
        for layer in encoder:
            x = layer(x)
        memory, ids, score = encoder_norm(x), [config["start_id"]], 0.0
        while len(ids) < config["max_len"]:
            angles = torch.arange(len(ids))[:, None] / 10000 ** (torch.arange(d // 2) * 2 / d)
            y = (own["embedding.weight"][ids] + torch.cat([angles.sin(), angles.cos()], 1))[None]
            mask = nn.Transformer.generate_square_subsequent_mask(len(ids))
            for layer in decoder:
                y = layer(y, memory, tgt_mask=mask)
            logits = decoder_norm(y)[0, -1] @ own["embedding.weight"].T
            logits[config["pad_id"]] = -torch.inf
            best = int(logits.argmax())
            score += float(logits.log_softmax(0)[best])
            ids.append(best)
            if best == config["end_id"]:
                break
        text = " ".join(tokenizer.id_to_token(token) for token in ids[1:] if token != config["end_id"])
        same += text == row["caption"]
        far = max(far, abs(score / (len(ids) - 1) - row["log_probability"]))
    print(f"{same} of {len(rows)} captions are the same; mean log-probabilities differ by {far:.1e} at most")


with torch.no_grad():
    main(*sys.argv[1:4], int(sys.argv[4]))
