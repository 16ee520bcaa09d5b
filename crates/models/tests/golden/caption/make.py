"""A captioner of PyTorch's own layers (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer) with weights from a formula.

    python make.py      writes caption.json
"""

import json
import math

import torch
from torch import nn

D, PATCH, CHANNELS, SIZE, GRID, VOCAB = 12, 3, 2, (7, 9), (2, 3), 13
ENCODER, DECODER = (2, 3, 10), (3, 2, 9)  # layers, heads, d_ff
TARGETS = [[0, 5, 6], [0, 7, 8, 9, 10]]


def shapes():
    """Names and shapes of Polyhead's parameters."""
    found = {"patches.weight": (D, CHANNELS * PATCH * PATCH), "patches.bias": (D,), "embedding.weight": (VOCAB, D),
             "encoder.positions.weight": (GRID[0] * GRID[1], D)}

    def norm(name):
        found[f"{name}.gamma"] = found[f"{name}.beta"] = (D,)

    def linear(name, out, own):
        found[f"{name}.weight"], found[f"{name}.bias"] = (out, own), (out,)

    for stack, (layers, _, d_ff) in (("encoder", ENCODER), ("decoder", DECODER)):
        norm(f"{stack}.norm")
        for index in range(layers):
            layer = f"{stack}.layers.{index}"
            linear(f"{layer}.self_attention.query_key_value", 3 * D, D)
            linear(f"{layer}.self_attention.output", D, D)
            norm(f"{layer}.self_attention_norm")
            if stack == "decoder":
                linear(f"{layer}.cross_attention.query", D, D)
                linear(f"{layer}.cross_attention.key_value", 2 * D, D)
                linear(f"{layer}.cross_attention.output", D, D)
                norm(f"{layer}.cross_attention_norm")
            linear(f"{layer}.feed_forward.inner", d_ff, D)
            linear(f"{layer}.feed_forward.outer", D, d_ff)
            norm(f"{layer}.feed_forward_norm")
    return found


def weights():
    found = {}
    for number, (name, shape) in enumerate(sorted(shapes().items())):
        values = [0.4 * math.sin(0.7 * (number + 1) + 0.61 * at) for at in range(math.prod(shape))]
        values = torch.tensor(values, dtype=torch.float64).reshape(shape)
        found[name] = values + 1 if name.endswith("gamma") else values
    return found


def copy(module, own, name):
    with torch.no_grad():
        module.weight.copy_(own[f"{name}.gamma" if f"{name}.gamma" in own else f"{name}.weight"])
        module.bias.copy_(own[f"{name}.beta" if f"{name}.beta" in own else f"{name}.bias"])


def copy_attention(module, own, name, parts):
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([own[f"{name}.{part}.weight"] for part in parts]))
        module.in_proj_bias.copy_(torch.cat([own[f"{name}.{part}.bias"] for part in parts]))
    copy(module.out_proj, own, f"{name}.output")


def stack(kind, name, own):
    layers, heads, d_ff = ENCODER if name == "encoder" else DECODER
    found = []
    for index in range(layers):
        layer = kind(D, heads, d_ff, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64)
        place = f"{name}.layers.{index}"
        copy_attention(layer.self_attn, own, f"{place}.self_attention", ["query_key_value"])
        norms = ["self_attention_norm", "feed_forward_norm"]
        if name == "decoder":
            copy_attention(layer.multihead_attn, own, f"{place}.cross_attention", ["query", "key_value"])
            norms.insert(1, "cross_attention_norm")
        for number, norm in enumerate(norms):
            copy(getattr(layer, f"norm{number + 1}"), own, f"{place}.{norm}")
        copy(layer.linear1, own, f"{place}.feed_forward.inner")
        copy(layer.linear2, own, f"{place}.feed_forward.outer")
        found.append(layer.eval())
    norm = nn.LayerNorm(D, dtype=torch.float64)
    copy(norm, own, f"{name}.norm")
    return found, norm


def sinusoids(length):
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(D // 2) * 2 / D)
    return torch.cat([angles.sin(), angles.cos()], 1)


def main():
    own = weights()
    (encoder, encoder_norm), (decoder, decoder_norm) = [
        stack(*which, own) for which in ((nn.TransformerEncoderLayer, "encoder"), (nn.TransformerDecoderLayer, "decoder"))]
    logits, attention = [], []
    for row, target in enumerate(TARGETS):
        count = CHANNELS * SIZE[0] * SIZE[1]
        image = torch.tensor([math.sin(0.3 * (row + 1) + 0.17 * at) for at in range(count)], dtype=torch.float64)
        image = image.reshape(1, CHANNELS, *SIZE)
        kernel = own["patches.weight"].reshape(D, CHANNELS, PATCH, PATCH)
        x = nn.functional.conv2d(image, kernel, own["patches.bias"], stride=PATCH)
        x = x.flatten(2).transpose(1, 2) + own["encoder.positions.weight"]
        for layer in encoder:
            x = layer(x)
        memory = encoder_norm(x)
        y = (own["embedding.weight"][target] + sinusoids(len(target)))[None]
        mask = nn.Transformer.generate_square_subsequent_mask(len(target), dtype=torch.float64)
        for layer in decoder:
            own_attention = layer.norm1(y)
            before = y + layer.self_attn(own_attention, own_attention, own_attention, attn_mask=mask)[0]
            found = layer.multihead_attn(layer.norm2(before), memory, memory, average_attn_weights=False)[1]
            y = layer(y, memory, tgt_mask=mask)
        attention.append(found[0].flatten().tolist())
        logits.append((decoder_norm(y) @ own["embedding.weight"].T)[0].flatten().tolist())
    rounded = lambda rows: [[round(number, 7) for number in row] for row in rows]
    with open("caption.json", "w") as file:
        json.dump({"torch": torch.__version__, "logits": rounded(logits), "last_cross_attention": rounded(attention)}, file)
        file.write("\n")


main()
