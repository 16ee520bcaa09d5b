"""Writes attention.json.gz: what PyTorch says attention in its many forms gives, with gradients.

    python make.py

Made with torch 2.15.0. Inputs have two decimals; PyTorch computes in f64 (seven digits are printed). The gradients are
those of sum(upstream * output). Query, key and value are batch x length x (n_heads * d_head), weights are
batch x n_heads x query length x key length. Options that are null are not used.

attention: softmax over the visible keys of q.k / sqrt(d_k); a query that sees no key gives zeros. Visible is what
    every given rule allows: `causal`: k <= q; `key_lengths`: k < length of its row;
    `window` {back, ahead, dilation}: the distance is a multiple of the dilation and at most back * dilation behind or
    ahead * dilation in front; `global`: such a position sees all and is seen by all, whatever the window says (causal
    and key_lengths still hold). `n_kv_heads`: query head h uses key/value head h // (n_heads / n_kv_heads).
relative: Shaw et al. 2018. With r = clip(k - q, -distance, distance) + distance: scores q.(key + key_table[r]) /
    sqrt(d_k), context = sum of weights * (value + value_table[r]); the tables are shared by the heads.
rotary: Su et al. 2021. Query and key are turned by position * 10000^(-2j / d_k) for pair j, positions begin at
    `query_offset` and `key_offset`; pairs are (2j, 2j + 1) for "neighbours" and (j, j + d_k / 2) for "halves".
    `query_turned` and `key_turned` are given too. Then attention, causal over positions where it is asked for.
score: one head, query batch x query length x d_q, key batch x key length x d_k; weights = softmax over keys.
    dot q.k; scaled_dot q.k / sqrt(d); general q^T weight k; additive vector^T tanh(weight q + key_weight k);
    location: the first key-length rows of weight, times q; cosine: sharpness * q.k / (|q| |k|).
recurrent: nn.RNN (tanh), nn.GRU, nn.LSTM, one layer; weights under torch's names, weight_hh_l0 and so on; gates stand
    r, z, n (GRU) and i, f, g, o (LSTM). Inputs hold the first states; upstream is
    given by name for the outputs and the last states.
"""

import gzip
import json
import math
import pathlib

import torch
from torch import nn

torch.manual_seed(30)
cases = []
BATCH = 2


def draw(*shape, scale=1.0):
    return short(torch.randn(*shape) * scale).requires_grad_()


def short(tensor):
    """Numbers of two decimals, which keep the file small."""
    return (tensor.double() * 100).round() / 100


def pack(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.7g}") for x in tensor.detach().flatten().tolist()]}


def case(kind, name, inputs, outputs, extra=None, **options):
    """One case: all inputs by name, the outputs by name ("output" is the context), gradients of all inputs."""
    upstream = {key: short(torch.randn(value.shape)) for key, value in outputs.items()}
    sum((value * upstream[key]).sum() for key, value in outputs.items()).backward()
    found = {"kind": kind, "name": name, "options": options}
    found["inputs"] = {key: pack(value) for key, value in inputs.items()}
    found |= {key: pack(value) for key, value in outputs.items()}
    found |= {key: pack(value) for key, value in (extra or {}).items()}
    if list(outputs) == ["output"]:
        found["upstream"] = pack(upstream["output"])
    else:
        found["upstream"] = {key: pack(value) for key, value in upstream.items()}
    found["gradients"] = {key: pack(value.grad) for key, value in inputs.items()}
    for entry in [found["gradients"], found["inputs"]]:
        assert all(math.isfinite(x) for value in entry.values() for x in value["data"])
    cases.append(found)


def split(x, n_heads):
    return x.view(x.shape[0], x.shape[1], n_heads, -1).transpose(1, 2)


def join(x):
    return x.transpose(1, 2).flatten(2)


def softmax(scores, visible):
    """Rows without a visible key give zeros, and gradients of zero."""
    hidden = scores.masked_fill(~visible, -1e300)
    return torch.where(visible, hidden.softmax(-1), 0.0)


def visible(q_len, k_len, causal=False, key_lengths=None, window=None, global_positions=None, offset=0):
    """batch x 1 x query length x key length."""
    q, k = torch.arange(q_len)[:, None] + offset, torch.arange(k_len)[None, :]
    mask = torch.ones(BATCH, 1, q_len, k_len, dtype=torch.bool)
    if window:
        behind, dilation = q - k, window["dilation"]
        near = (behind <= window["back"] * dilation) & (-behind <= window["ahead"] * dilation)
        near &= behind % dilation == 0
        if global_positions:
            chosen = torch.tensor(global_positions)
            near |= torch.isin(q, chosen) | torch.isin(k, chosen)
        mask &= near
    if causal:
        mask &= k <= q
    if key_lengths:
        mask &= k[None, None] < torch.tensor(key_lengths)[:, None, None, None]
    return mask


def attention(name, q_len=4, k_len=5, n_heads=3, n_kv_heads=None, d_k=4, d_v=4, **rules):
    n_kv_heads = n_kv_heads or n_heads
    query, key = draw(BATCH, q_len, n_heads * d_k), draw(BATCH, k_len, n_kv_heads * d_k)
    value = draw(BATCH, k_len, n_kv_heads * d_v)
    group = n_heads // n_kv_heads
    keys = split(key, n_kv_heads).repeat_interleave(group, 1)
    values = split(value, n_kv_heads).repeat_interleave(group, 1)
    scores = split(query, n_heads) @ keys.transpose(2, 3) / math.sqrt(d_k)
    mask = visible(q_len, k_len, **rules)
    weights = softmax(scores, mask)
    check(split(query, n_heads), keys, values, mask, weights @ values)
    case(
        "attention", name, {"query": query, "key": key, "value": value}, {"output": join(weights @ values)},
        {"weights": weights}, n_heads=n_heads, n_kv_heads=n_kv_heads, d_k=d_k, d_v=d_v,
        causal=rules.get("causal", False), key_lengths=rules.get("key_lengths"), window=rules.get("window"),
        **{"global": rules.get("global_positions")},
    )


def check(query, key, value, mask, context):
    """The same from torch's own function, where it is defined."""
    own = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    rows = mask.any(-1, keepdim=True)
    assert torch.allclose(torch.where(rows, own, 0.0), context, atol=1e-12)


def plain_and_masked():
    attention("plain")
    attention("causal", q_len=5, k_len=5, causal=True)
    attention("key lengths", key_lengths=[3, 5])
    attention("key lengths, one row sees nothing", key_lengths=[2, 0])
    attention("causal and key lengths", q_len=5, k_len=5, causal=True, key_lengths=[5, 2])
    attention("values of another width", d_v=6)
    attention("values of another width, causal", q_len=5, k_len=5, d_v=6, causal=True, key_lengths=[4, 5])
    for kv in (2, 1):
        attention(f"grouped heads, {kv}", n_heads=4, n_kv_heads=kv, d_v=6, key_lengths=[5, 3])
    attention("grouped heads, causal", q_len=5, k_len=5, n_heads=4, n_kv_heads=2, causal=True)


def windows():
    def near(back, ahead, dilation=1):
        return {"back": back, "ahead": ahead, "dilation": dilation}

    size = dict(q_len=11, k_len=11, n_heads=2, d_k=4, d_v=3)
    attention("window", **size, window=near(2, 2))
    attention("window, causal", **size, window=near(3, 0), causal=True)
    attention("window, dilated", **size, window=near(2, 2, 2))
    attention("window, dilated and causal", **size, window=near(3, 0, 2), causal=True)
    attention("window, key lengths", **size, window=near(2, 2), key_lengths=[11, 5])
    attention("window and global", **size, window=near(2, 2), global_positions=[0, 4])
    attention("window and global, causal", **size, window=near(2, 2), global_positions=[0, 4], causal=True)
    attention("window and global, key lengths", **size, window=near(1, 1), global_positions=[0, 4], key_lengths=[11, 3])
    attention(
        "window and global, causal and key lengths", **size, window=near(2, 2), global_positions=[0, 4], causal=True,
        key_lengths=[7, 10],
    )
    attention("window and global, dilated", **size, window=near(1, 2, 3), global_positions=[0, 4])


def relative():
    length, n_heads, d_k, d_v, distance = 6, 3, 4, 5, 2
    for causal, key_lengths in [(False, None), (True, None), (False, [6, 3]), (True, [4, 6])]:
        query, key = draw(BATCH, length, n_heads * d_k), draw(BATCH, length, n_heads * d_k)
        value = draw(BATCH, length, n_heads * d_v)
        key_table, value_table = draw(2 * distance + 1, d_k), draw(2 * distance + 1, d_v)
        steps = torch.arange(length)
        r = (steps[None, :] - steps[:, None]).clamp(-distance, distance) + distance
        q, k, v = split(query, n_heads), split(key, n_heads), split(value, n_heads)
        keys = k[:, :, None] + key_table[r]  # batch, head, query, key, d_k
        scores = (q[:, :, :, None] * keys).sum(-1) / math.sqrt(d_k)
        weights = softmax(scores, visible(length, length, causal=causal, key_lengths=key_lengths))
        context = (weights[..., None] * (v[:, :, None] + value_table[r])).sum(3)
        inputs = {"query": query, "key": key, "value": value, "key_table": key_table, "value_table": value_table}
        name = "relative" + causal * ", causal" + bool(key_lengths) * ", key lengths"
        case(
            "relative", name, inputs, {"output": join(context)}, {"weights": weights}, n_heads=n_heads, d_k=d_k,
            d_v=d_v, distance=distance, causal=causal, key_lengths=key_lengths,
        )


def turn(x, pairing, offset):
    """x: batch, head, length, d_k."""
    half = x.shape[-1] // 2
    position = torch.arange(x.shape[2]).double() + offset
    angle = position[:, None] * 10000 ** (-torch.arange(half).double() / half)
    cos, sin = angle.cos(), angle.sin()
    if pairing == "halves":
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def rotary():
    n_heads, d_k, d_v = 2, 6, 4
    for pairing in ("neighbours", "halves"):
        for q_len, k_len, query_offset, causal in [(5, 5, 0, False), (5, 5, 0, True), (3, 7, 4, True)]:
            query, key = draw(BATCH, q_len, n_heads * d_k), draw(BATCH, k_len, n_heads * d_k)
            value = draw(BATCH, k_len, n_heads * d_v)
            q, k = turn(split(query, n_heads), pairing, query_offset), turn(split(key, n_heads), pairing, 0)
            mask = visible(q_len, k_len, causal=causal, offset=query_offset)
            weights = softmax(q @ k.transpose(2, 3) / math.sqrt(d_k), mask)
            name = f"rotary, {pairing}" + causal * ", causal" + bool(query_offset) * ", offset"
            case(
                "rotary", name, {"query": query, "key": key, "value": value},
                {"output": join(weights @ split(value, n_heads))},
                {"weights": weights, "query_turned": join(q), "key_turned": join(k)}, n_heads=n_heads, d_k=d_k, d_v=d_v,
                pairing=pairing, base=10000.0, query_offset=query_offset, key_offset=0, causal=causal,
            )


def check_rotary():
    """The halves are those of Hugging Face Llama."""
    x = torch.randn(1, 1, 5, 6).double()
    half = x.shape[-1] // 2
    angle = torch.arange(5).double()[:, None] * 10000 ** (-torch.arange(0, 6, 2).double() / 6)
    angle = torch.cat([angle, angle], -1)
    llama = x * angle.cos() + torch.cat([-x[..., half:], x[..., :half]], -1) * angle.sin()
    assert torch.allclose(llama, turn(x, "halves", 0))


def scores():
    q_len, k_len, d_value = 3, 4, 7

    def one(name, d_q, d_k, parameters, score, **options):
        for key_lengths in (None, [4, 2]):
            query, key, value = draw(BATCH, q_len, d_q), draw(BATCH, k_len, d_k), draw(BATCH, k_len, d_value)
            drawn = {part: draw(*shape, scale=0.7) for part, shape in parameters.items()}
            found = score(query, key, **drawn)
            weights = softmax(found, visible(q_len, k_len, key_lengths=key_lengths)[:, 0])
            inputs = {"query": query, "key": key, "value": value, **drawn}
            case(
                "score", name, inputs, {"output": weights @ value}, {"scores": found, "weights": weights},
                key_lengths=key_lengths, **options,
            )

    def dot(q, k):
        return q @ k.transpose(1, 2)

    def additive(q, k, weight, key_weight, vector):
        return torch.tanh((q @ weight.T)[:, :, None] + (k @ key_weight.T)[:, None]) @ vector

    def location(q, k, weight):
        return (q @ weight.T)[..., : k.shape[1]] + 0 * k.sum()  # so that the key has a gradient, of zeros

    one("dot", 5, 5, {}, dot)
    one("scaled_dot", 5, 5, {}, lambda q, k: dot(q, k) / math.sqrt(5))
    one("general", 5, 6, {"weight": (5, 6)}, lambda q, k, weight: dot(q @ weight, k))
    one("additive", 5, 6, {"weight": (8, 5), "key_weight": (8, 6), "vector": (8,)}, additive)
    one("location", 5, 6, {"weight": (9, 5)}, location, max_len=9)
    for sharpness in (1.0, 2.0):
        one(
            "cosine", 5, 5, {},
            lambda q, k: sharpness * dot(q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True)),
            sharpness=sharpness,
        )


def recurrent():
    n_steps, d_in, d_hidden = 4, 3, 5
    for name, cell in [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)]:
        module = cell(d_in, d_hidden, batch_first=True)
        for parameter in module.parameters():
            parameter.data.normal_(0.0, 0.6)
        module = module.double()
        inputs = {"x": draw(BATCH, n_steps, d_in), "hidden": draw(1, BATCH, d_hidden)}
        if name == "lstm":
            inputs["cell"] = draw(1, BATCH, d_hidden)
            output, (hidden, memory) = module(inputs["x"], (inputs["hidden"], inputs["cell"]))
            outputs = {"output": output, "last_hidden": hidden, "last_cell": memory}
        else:
            output, hidden = module(inputs["x"], inputs["hidden"])
            outputs = {"output": output, "last_hidden": hidden}
        inputs |= dict(module.named_parameters())
        case("recurrent", name, inputs, outputs, d_in=d_in, d_hidden=d_hidden)


check_rotary()
for make in (plain_and_masked, windows, relative, rotary, scores, recurrent):
    make()
path = pathlib.Path(__file__).with_name("attention.json.gz")
lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in cases)
path.write_bytes(gzip.compress(f'{{"torch":"{torch.__version__}","cases":[\n{lines}\n]}}\n'.encode(), mtime=0))
