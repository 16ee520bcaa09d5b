"""Writes pointer.json.gz: a pointer network in plain PyTorch, its logits, loss and gradients.

Python 3.12, torch 2.15: python make.py
"""

import gzip
import json

import torch
from torch import nn

D, POINTS, STEPS = 5, 4, 4


class Additive(nn.Module):
    """vᵀ·tanh(W·q + U·k)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, D) * 0.4)
        self.key_weight = nn.Parameter(torch.randn(D, D) * 0.4)
        self.vector = nn.Parameter(torch.randn(D))

    def forward(self, query, key):
        hidden = torch.tanh((query @ self.weight.T).unsqueeze(2) + (key @ self.key_weight.T).unsqueeze(1))
        return hidden @ self.vector


class Pointer(nn.Module):
    def __init__(self, has_glimpse):
        super().__init__()
        self.input = nn.Linear(2, D)
        self.encoder = nn.LSTM(D, D, batch_first=True)
        self.decoder = nn.LSTM(D, D, batch_first=True)
        self.start = nn.Parameter(torch.randn(D))
        self.end = nn.Parameter(torch.randn(D))
        self.pointer = Additive()
        self.glimpse = Additive() if has_glimpse else None
        self.glimpse_output = nn.Linear(D, D) if has_glimpse else None

    def row(self, points, order):
        """Logits of one row: (steps) × (1 + points)."""
        x = self.input(points).unsqueeze(0)
        states, last = self.encoder(x)
        keys = torch.cat([self.end.view(1, 1, D), states], 1)
        read = torch.cat([self.start.view(1, 1, D), x[:, order]], 1)
        query, _ = self.decoder(read, last)
        if self.glimpse is not None:
            weights = torch.softmax(self.glimpse(query, keys), -1)
            query = query + self.glimpse_output(weights @ keys)
        return self.pointer(query, keys)[0]


def ours(name):
    for theirs, own in [("_l0", ""), ("glimpse_output", "glimpse.output")]:
        name = name.replace(theirs, own)
    for part in ["weight", "key_weight", "vector"]:
        name = name.replace(f"glimpse.{part}", f"glimpse.score.{part}") if name == f"glimpse.{part}" else name
    return name


def rounded(tensor):
    return [float(f"{number:.9g}") for number in tensor.detach().flatten().tolist()]


def case(seed, has_glimpse):
    torch.manual_seed(seed)
    model = Pointer(has_glimpse)
    rows = [(torch.rand(4, 2), [2, 0, 3]), (torch.rand(1, 2), [0]), (torch.rand(3, 2), [1, 2])]
    losses, padded = [], torch.full((len(rows), STEPS, 1 + POINTS), -1e9)
    for index, (points, order) in enumerate(rows):
        logits = model.row(points, order)
        targets = torch.tensor([1 + point for point in order] + [0])
        losses.append(nn.functional.cross_entropy(logits, targets, reduction="none"))
        padded[index, : len(order) + 1, : 1 + len(points)] = logits.detach()
        # Steps after the end read the start again: not compared, but computed here for equal logits.
        state_points, more = points, order + [None] * (STEPS - 1 - len(order))
        x = model.input(state_points).unsqueeze(0)
        states, last = model.encoder(x)
        keys = torch.cat([model.end.view(1, 1, D), states], 1)
        read = [model.start.view(1, D)] + [x[0, p : p + 1] if p is not None else model.start.view(1, D) for p in more]
        query, _ = model.decoder(torch.cat(read).unsqueeze(0), last)
        if model.glimpse is not None:
            weights = torch.softmax(model.glimpse(query, keys), -1)
            query = query + model.glimpse_output(weights @ keys)
        padded[index, :, : 1 + len(points)] = model.pointer(query, keys)[0].detach()
    loss = torch.cat(losses).mean()
    loss.backward()
    return {
        "glimpse": has_glimpse,
        "parameters": {ours(name): rounded(value) for name, value in model.named_parameters()},
        "points": [rounded(points) for points, _ in rows],
        "orders": [order for _, order in rows],
        "logits": rounded(padded),
        "loss": loss.item(),
        "gradients": {ours(name): rounded(value.grad) for name, value in model.named_parameters()},
    }


text = json.dumps([case(1, False), case(2, True)])
with open("pointer.json.gz", "wb") as file:
    file.write(gzip.compress(text.encode(), 9, mtime=0))
