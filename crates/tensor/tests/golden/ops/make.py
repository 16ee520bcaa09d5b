"""Makes ops.json.gz: values and gradients that PyTorch gives for the operations of the tensor crate.

usage: python make.py

Inputs are f32 numbers of four digits; PyTorch computes in f64 from them, so that the answers are exact to the digits
kept. The loss is the sum of the output times `weights`. Needs: torch==2.15.0
"""

import gzip
import json
import pathlib

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
GENERATOR = torch.Generator().manual_seed(20)


def numbers(*shape, low=-2.0, high=2.0):
    """Random numbers that a short decimal and an f32 both hold."""
    exact = torch.rand(shape, generator=GENERATOR, dtype=torch.float64) * (high - low) + low
    return (exact * 1000).round().div(1000).to(torch.float32)


def digits(tensor):
    return [float(f"{number:.7g}") for number in tensor.detach().flatten().tolist()]


def case(name, inputs, operation):
    inputs = [tensor.double().requires_grad_() for tensor in inputs]
    output = operation(*inputs)
    weights = numbers(*output.shape).double()
    (output * weights).sum().backward()
    return {
        "name": name,
        "inputs": [{"shape": list(x.shape), "data": [round(n, 3) for n in x.flatten().tolist()]} for x in inputs],
        "weights": [round(n, 3) for n in weights.flatten().tolist()],
        "shape": list(output.shape),
        "output": digits(output),
        "gradients": [digits(x.grad) for x in inputs],
    }


def rms_norm(x, residual, gamma):
    h = x + residual
    return gamma * h / (h.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def rotary(x, offset, halves):
    """x is batch × length × heads × d_head; `halves` as in Hugging Face's rotate_half, otherwise complex numbers."""
    length, d_head = x.shape[1], x.shape[3]
    speeds = 10000.0 ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    angles = torch.arange(offset, offset + length, dtype=torch.float64)[:, None] * speeds
    if halves:
        cos, sin = torch.cat([angles, angles], -1).cos()[:, None], torch.cat([angles, angles], -1).sin()[:, None]
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin
    turns = torch.polar(torch.ones_like(angles), angles)[:, None]
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


def cases():
    n = numbers
    yield case("matmul", [n(2, 3, 4, 5), n(2, 3, 5, 7)], lambda a, b: a @ b)
    yield case("matmul left transposed", [n(2, 3, 5, 4), n(2, 3, 5, 7)], lambda a, b: a.mT @ b)
    yield case("matmul right transposed", [n(2, 3, 4, 5), n(2, 3, 7, 5)], lambda a, b: a @ b.mT)
    yield case("matmul both transposed", [n(2, 3, 5, 4), n(2, 3, 7, 5)], lambda a, b: a.mT @ b.mT)
    yield case("matmul shared", [n(2, 3, 4, 5), n(5, 7)], lambda a, b: a @ b)
    yield case("matmul shared left transposed", [n(2, 3, 5, 4), n(5, 7)], lambda a, b: a.mT @ b)
    yield case("matmul shared right transposed", [n(2, 3, 4, 5), n(7, 5)], lambda a, b: a @ b.mT)
    yield case("matmul shared both transposed", [n(2, 3, 5, 4), n(7, 5)], lambda a, b: a.mT @ b.mT)
    yield case("matmul two axes", [n(4, 5), n(5, 7)], lambda a, b: a @ b)
    yield case("rms_norm", [n(2, 3, 19), n(2, 3, 19), n(19)], rms_norm)
    yield case("softmax", [n(2, 3, 4, 21)], lambda x: x.softmax(-1))
    yield case("log_softmax", [n(2, 3, 4, 21)], lambda x: x.log_softmax(-1))
    for left, right in [((2, 3, 4), (2, 3, 4)), ((2, 3, 4, 5), (3, 1, 5)), ((4, 1), (2, 1, 5)), ((3, 4), ())]:
        yield case(f"add {left} {right}", [n(*left), n(*right)], torch.add)
        yield case(f"sub {left} {right}", [n(*left), n(*right)], torch.sub)
        yield case(f"mul {left} {right}", [n(*left), n(*right)], torch.mul)
        yield case(f"div {left} {right}", [n(*left), n(*right, low=0.5, high=3.0)], torch.div)
    yield case("scale", [n(3, 7)], lambda x: x * -1.75)
    yield case("neg", [n(3, 7)], torch.neg)
    yield case("square", [n(3, 7)], torch.square)
    yield case("sqrt", [n(3, 7, low=0.1, high=5.0)], torch.sqrt)
    yield case("exp", [n(3, 7, low=-6.0, high=6.0)], torch.exp)
    yield case("ln", [n(3, 7, low=0.1, high=9.0)], torch.log)
    yield case("tanh", [n(3, 7, low=-3.0, high=3.0)], torch.tanh)
    yield case("sigmoid", [n(3, 7, low=-6.0, high=6.0)], torch.sigmoid)
    yield case("relu", [n(3, 7)], torch.relu)
    yield case("gelu", [n(3, 7, low=-3.0, high=3.0)], lambda x: F.gelu(x, approximate="tanh"))
    yield case("silu", [n(3, 7, low=-6.0, high=6.0)], F.silu)
    for axis in range(3):
        yield case(f"sum {axis}", [n(3, 18, 2)], lambda x, axis=axis: x.sum(axis))
        yield case(f"mean {axis}", [n(3, 18, 2)], lambda x, axis=axis: x.mean(axis))
        yield case(f"max {axis}", [n(3, 18, 2)], lambda x, axis=axis: x.max(axis).values)
    yield case("sum all", [n(3, 18, 2)], torch.sum)
    yield case("mean all", [n(3, 18, 2)], torch.mean)
    yield case("max all", [n(3, 18, 2)], torch.max)
    for axis, shapes in enumerate([[(1, 3, 4), (3, 3, 4)], [(2, 5, 4), (2, 1, 4)], [(2, 3, 2), (2, 3, 5)]]):
        yield case(f"concat {axis}", [n(*shape) for shape in shapes], lambda *x, axis=axis: torch.cat(x, axis))
    for axis in range(3):
        yield case(f"slice {axis}", [n(4, 5, 6)], lambda x, axis=axis: x.narrow(axis, 1, 2))
    for a, b in [(0, 1), (1, 2), (0, 2), (1, 3)]:
        yield case(f"transpose {a} {b}", [n(2, 3, 4, 5)], lambda x, a=a, b=b: x.transpose(a, b))
    ids = torch.tensor([4, 0, 4, 2, 4, 0])
    yield case("index_select", [n(5, 3, 2)], lambda x: x.index_select(0, ids))
    yield case("rotary interleaved", [n(2, 4, 3, 6)], lambda x: rotary(x, 7, False))
    yield case("rotary halves", [n(2, 4, 3, 6)], lambda x: rotary(x, 7, True))


def weighted(weights, smoothing, ignored=-100):
    """Cross-entropy of nine rows with a weight for each of five classes."""
    targets = torch.tensor([3, 0, 4, 4, 2, 0, 1, 4, 3])
    loss = torch.nn.CrossEntropyLoss(
        torch.tensor(weights, dtype=torch.float64), ignore_index=ignored, label_smoothing=smoothing
    )
    name = f"weighted_cross_entropy {' '.join(map(str, weights))} {smoothing} {ignored}"
    return case(name, [numbers(9, 5)], lambda x: loss(x, targets))


def losses():
    for weights in [[1.0, 1.0, 1.0, 1.0, 1.0], [0.25, 4.0, 1.5, 0.5, 2.0]]:
        for smoothing in [0.0, 0.1]:
            for ignored in [-100, 4]:
                yield weighted(weights, smoothing, ignored)


def sgd(name, **options):
    """Five steps on the loss Σ weights·θ³/3, so that gradients change with θ."""
    start, weights = numbers(7), numbers(7).double()
    theta = start.double().requires_grad_()
    optimiser = torch.optim.SGD([theta], lr=0.05, **options)
    for _ in range(5):
        optimiser.zero_grad()
        (weights * theta**3 / 3).sum().backward()
        optimiser.step()
    inputs = [[round(n, 3) for n in tensor.tolist()] for tensor in (start, weights)]
    return {"name": name, "start": inputs[0], "weights": inputs[1], "end": digits(theta)}


def steps():
    yield sgd("plain")
    yield sgd("decay", weight_decay=0.1)
    yield sgd("momentum", momentum=0.9, weight_decay=0.1)
    yield sgd("nesterov", momentum=0.9, weight_decay=0.1, nesterov=True)


if __name__ == "__main__":
    lines = [json.dumps(found, separators=(",", ":")) for found in cases()]
    sgds = [json.dumps(found, separators=(",", ":")) for found in steps()]
    lines += [json.dumps(found, separators=(",", ":")) for found in losses()]
    text = '{"cases":[\n' + ",\n".join(lines) + '\n],\n"sgd":[\n' + ",\n".join(sgds) + "\n]}\n"
    (HERE / "ops.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
