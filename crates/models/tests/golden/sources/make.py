"""Makes sources.json: logits and attention weights of Transformers with two sources, computed with PyTorch alone.

    python make.py > sources.json

The model is written here from the equations of Vaswani et al. 2017 and of Libovický, Helcl & Mareček 2018 (flat, hierarchical,
parallel and serial combination), sentence by sentence, without padding or masks but the causal one. Parameters follow from a
formula, in the order of their names.
"""

import json
import math

import torch
from torch.nn import functional as F

D, VOCABULARY, HEADS = 12, 13, {"encoder": 3, "decoder": 2}
FEED_FORWARD = {"encoder": 10, "decoder": 9}
SOURCES = [[3, 4, 5, 1, 6, 7, 1], [8, 1, 9, 10, 11, 12, 1], [2, 3, 1, 1]]
TARGETS = [[0, 5, 6, 7], [0, 8], [0, 9, 10]]
torch.set_default_dtype(torch.float64)


def shapes(combination):
    found = {"embedding.weight": (VOCABULARY, D)}

    def linear(name, d_in, d_out):
        found[f"{name}.weight"], found[f"{name}.bias"] = (d_out, d_in), (d_out,)

    def norm(name):
        found[f"{name}.gamma"], found[f"{name}.beta"] = (D,), (D,)

    def layer(name, stack):
        linear(f"{name}.self_attention.query_key_value", D, 3 * D)
        linear(f"{name}.self_attention.output", D, D)
        norm(f"{name}.self_attention_norm")
        linear(f"{name}.feed_forward.input", D, FEED_FORWARD[stack])
        linear(f"{name}.feed_forward.output", FEED_FORWARD[stack], D)
        norm(f"{name}.feed_forward_norm")

    def cross(name):
        linear(f"{name}.query", D, D)
        linear(f"{name}.output", D, D)
        linear(f"{name}.key_value", D, 2 * D)

    layer("encoder.layers.0", "encoder")
    layer("encoder_2.layers.0", "encoder")
    for index in range(2):
        name = f"decoder.layers.{index}"
        layer(name, "decoder")
        cross(f"{name}.cross_attention")
        norm(f"{name}.cross_attention_norm")
        if combination == "flat":
            linear(f"{name}.cross_attention.key_value_2", D, 2 * D)
        else:
            cross(f"{name}.cross_attention_2")
        if combination == "hierarchical":
            cross(f"{name}.context_attention")
        if combination == "serial":
            norm(f"{name}.cross_attention_norm_2")
    return found


def parameters(combination):
    found = {}
    for number, (name, shape) in enumerate(sorted(shapes(combination).items())):
        angle = 0.37 * torch.arange(1, math.prod(shape) + 1) + 1.3 * (number + 1)
        base = 1.0 if name.endswith("gamma") else 0.0
        found[name] = (base + 0.4 * torch.sin(angle * angle)).reshape(shape)
    return found


class Model:
    def __init__(self, combination):
        self.combination, self.p, self.weights = combination, parameters(combination), []

    def linear(self, name, x):
        return x @ self.p[f"{name}.weight"].T + self.p[f"{name}.bias"]

    def norm(self, name, x):
        return F.layer_norm(x, (D,), self.p[f"{name}.gamma"], self.p[f"{name}.beta"], 1e-5)

    def embed(self, ids):
        x = self.p["embedding.weight"][torch.tensor(ids)] * math.sqrt(D)
        half = D // 2
        rates = 10000.0 ** (-torch.arange(half) / half)
        angles = torch.arange(len(ids))[:, None] * rates
        return x + torch.cat([torch.sin(angles), torch.cos(angles)], 1)

    def attend(self, query, key, value, n_heads, causal=False):
        """Weights and contexts of all heads; the contexts side by side."""
        cut = lambda x: x.reshape(x.shape[0], n_heads, -1).transpose(0, 1)
        scores = cut(query) @ cut(key).transpose(1, 2) / math.sqrt(query.shape[1] // n_heads)
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(-1)
        return weights, (weights @ cut(value)).transpose(0, 1).reshape(query.shape[0], -1)

    def layer(self, name, stack, x, cross=None):
        query, key, value = self.linear(f"{name}.self_attention.query_key_value", x).split(D, 1)
        _, context = self.attend(query, key, value, HEADS[stack], causal=stack == "decoder")
        x = self.norm(f"{name}.self_attention_norm", x + self.linear(f"{name}.self_attention.output", context))
        if cross:
            x = cross(x)
        y = self.linear(f"{name}.feed_forward.output", self.linear(f"{name}.feed_forward.input", x).relu())
        return self.norm(f"{name}.feed_forward_norm", x + y)

    def one(self, name, x, states):
        """Attention to one source."""
        key, value = self.linear(f"{name}.key_value", states).split(D, 1)
        weights, context = self.attend(self.linear(f"{name}.query", x), key, value, HEADS["decoder"])
        self.weights.append(weights)
        return self.linear(f"{name}.output", context)

    def cross(self, name, sources):
        first = f"{name}.cross_attention"
        norm = lambda x, y, suffix="": self.norm(f"{first}_norm{suffix}", x + y)

        def flat(x):
            pairs = zip(["key_value", "key_value_2"], sources)
            key, value = torch.cat([self.linear(f"{first}.{own}", states) for own, states in pairs]).split(D, 1)
            weights, context = self.attend(self.linear(f"{first}.query", x), key, value, HEADS["decoder"])
            self.weights += list(weights.split([len(states) for states in sources], 2))
            return norm(x, self.linear(f"{first}.output", context))

        def contexts(x):
            return [self.one(own, x, states) for own, states in zip([first, f"{first}_2"], sources)]

        def hierarchical(x):
            own, found, weights = f"{name}.context_attention", contexts(x), []
            rows = []
            for position in range(len(x)):
                states = torch.stack([context[position] for context in found])
                rows.append(self.one(own, x[position : position + 1], states))
                weights.append(self.weights.pop())
            self.weights.append(torch.cat(weights, 1))
            return norm(x, torch.cat(rows))

        def serial(x):
            x = norm(x, self.one(first, x, sources[0]))
            return norm(x, self.one(f"{first}_2", x, sources[1]), "_2")

        parallel = lambda x: norm(x, sum(contexts(x)))
        return {"flat": flat, "hierarchical": hierarchical, "parallel": parallel, "serial": serial}[self.combination]

    def logits(self, source, target):
        end = source.index(1) + 1
        parts = [source[:end], source[end:]]
        names = ["encoder.layers.0", "encoder_2.layers.0"]
        states = [self.layer(name, "encoder", self.embed(ids)) for name, ids in zip(names, parts)]
        x = self.embed(target)
        for index in range(2):
            self.weights = []
            name = f"decoder.layers.{index}"
            x = self.layer(name, "decoder", x, self.cross(name, states))
        return x @ self.p["embedding.weight"].T, self.weights


def rounded(x, digits):
    if isinstance(x, list):
        return [rounded(own, digits) for own in x]
    return round(x, digits)


cases = []
for combination in ["flat", "hierarchical", "parallel", "serial"]:
    model = Model(combination)
    rows = [model.logits(source, target) for source, target in zip(SOURCES, TARGETS)]
    weights = [[rounded(row[1][kind].tolist(), 6) for row in rows] for kind in range(len(rows[0][1]))]
    logits = [rounded(row[0].tolist(), 5) for row in rows]
    cases.append({"combination": combination, "logits": logits, "weights": weights})
print(json.dumps({"sources": SOURCES, "targets": TARGETS, "cases": cases}, separators=(",", ":")))
