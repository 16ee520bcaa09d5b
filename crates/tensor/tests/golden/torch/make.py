"""Writes torch.json.gz: results and gradients of each operation in PyTorch.

    python crates/tensor/tests/golden/torch/make.py

Inputs have two decimals, which keeps the file small; PyTorch computes in f64, so what is written is right to its last
digit (seven are printed). The gradients are those of sum(upstream * output).
"""

import gzip
import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(20)
cases = []


def draw(*shape, scale=1.0):
    return short(torch.randn(*shape) * scale).requires_grad_()


def short(tensor):
    return (tensor.double() * 100).round() / 100


def pack(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.7g}") for x in tensor.detach().flatten().tolist()]}


def case(name, inputs, output, **options):
    """One operation: inputs by name, the output, gradients of all inputs."""
    upstream = short(torch.randn(output.shape))
    (output * upstream).sum().backward()
    cases.append({
        "name": name,
        "options": options,
        "inputs": {key: pack(value) for key, value in inputs.items()},
        "output": pack(output),
        "upstream": pack(upstream),
        "gradients": {key: pack(value.grad) for key, value in inputs.items()},
    })


def linear():
    activations = {
        "none": lambda x: x, "relu": F.relu, "gelu": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    }
    for name, activation in activations.items():
        x, weight, bias = draw(2, 3, 19), draw(7, 19, scale=0.3), draw(7)
        inputs = {"x": x, "weight": weight, "bias": bias}
        case("linear", inputs, activation(F.linear(x, weight, bias)), activation=name)
    x, weight = draw(4, 19), draw(7, 19, scale=0.3)
    case("linear", {"x": x, "weight": weight}, F.linear(x, weight), activation="none")


def layer_norm():
    for residual in (False, True):
        x, gamma, beta = draw(2, 3, 21), draw(21), draw(21)
        inputs = {"x": x, "gamma": gamma, "beta": beta}
        h = x
        if residual:
            inputs["residual"] = draw(2, 3, 21)
            h = x + inputs["residual"]
        case("layer_norm", inputs, F.layer_norm(h, [21], gamma, beta, eps=1e-5))


def attention():
    n_heads, d_head = 3, 7
    for causal, lengths, q_len, k_len in [
        (False, None, 4, 5), (True, None, 6, 6), (False, [3, 5], 4, 5), (True, [6, 2], 6, 6),
    ]:
        query, key, value = draw(2, q_len, 21), draw(2, k_len, 21), draw(2, k_len, 21)
        heads = [x.view(2, -1, n_heads, d_head).transpose(1, 2) for x in (query, key, value)]
        mask = torch.ones(2, 1, q_len, k_len, dtype=torch.bool)
        if causal:
            mask = mask.tril()
        if lengths:
            mask = mask & (torch.arange(k_len) < torch.tensor(lengths)[:, None])[:, None, None]
        output = F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).reshape(2, q_len, 21)
        inputs = {"query": query, "key": key, "value": value}
        case("attention", inputs, output, n_heads=n_heads, causal=causal, key_lengths=lengths)


def embedding():
    table = draw(9, 5)
    ids = [[3, 0, 8, 3], [1, 3, 3, 0]]
    case("embedding", {"table": table}, F.embedding(torch.tensor(ids), table), ids=sum(ids, []), length=4)


def cross_entropy():
    for smoothing, ignored in [(0.0, None), (0.1, None), (0.0, 2), (0.1, 2)]:
        logits = draw(6, 23, scale=3.0)
        targets = [4, 2, 22, 2, 0, 11]
        ignore_index = -100 if ignored is None else ignored
        loss = F.cross_entropy(logits, torch.tensor(targets), label_smoothing=smoothing, ignore_index=ignore_index)
        case("cross_entropy", {"logits": logits}, loss, targets=targets, smoothing=smoothing, ignored=ignored)


def adamw():
    """Five steps on given gradients: the parameters before and after each."""
    for options in [
        {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0},
        {"lr": 0.02, "betas": [0.9, 0.98], "eps": 1e-9, "weight_decay": 0.1},
    ]:
        parameter = draw(3, 4)
        optimizer = torch.optim.AdamW([parameter], **{**options, "betas": tuple(options["betas"])})
        start, gradients, values = pack(parameter), [], []
        for _ in range(5):
            parameter.grad = torch.randn(3, 4).double()
            gradients.append(pack(parameter.grad))
            optimizer.step()
            values.append(pack(parameter))
        cases.append({"name": "adamw", "options": options, "start": start, "gradients": gradients, "values": values})


def clip():
    for max_norm in (0.5, 100.0):
        parameters = [draw(3, 4), draw(5)]
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape).double()
        before = [pack(parameter.grad) for parameter in parameters]
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm).item()
        after = [pack(parameter.grad) for parameter in parameters]
        cases.append({"name": "clip", "max_norm": max_norm, "norm": norm, "before": before, "after": after})


def r_drop():
    """Two passes over three rows of two positions, the second below the first."""
    for weight, smoothing, ignored in [(0.0, 0.1, None), (2.5, 0.0, None), (2.5, 0.1, 2)]:
        logits = draw(12, 23, scale=3.0)
        targets = torch.tensor([4, 2, 22, 2, 0, 11])
        ignore_index = -100 if ignored is None else ignored
        losses = [
            F.cross_entropy(half, targets, label_smoothing=smoothing, ignore_index=ignore_index)
            for half in logits.chunk(2)
        ]
        p, q = (half[targets != ignore_index].log_softmax(-1) for half in logits.chunk(2))
        kl = [F.kl_div(a, b, reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p))]
        cross_entropy, divergence = sum(losses) / 2, sum(kl) / 2
        case(
            "r_drop", {"logits": logits}, cross_entropy + weight * divergence,
            targets=targets.tolist(), weight=weight, smoothing=smoothing, ignored=ignored,
            cross_entropy=cross_entropy.item(), divergence=divergence.item(),
        )


for operation in (linear, layer_norm, attention, embedding, cross_entropy, adamw, clip, r_drop):
    operation()
path = pathlib.Path(__file__).with_name("torch.json.gz")
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
path.write_bytes(gzip.compress(f'{{"torch":"{torch.__version__}","cases":[\n{lines}\n]}}\n'.encode(), mtime=0))
print(path, path.stat().st_size, "bytes")
