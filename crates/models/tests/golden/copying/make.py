"""Golden values of pointer-generators: losses and gradients of PyTorch modules written by hand from See, Liu & Manning 2017.

    python make.py > copying.json && gzip -9n copying.json

Recurrent: LSTM encoder in both directions (nn.LSTM, packed lengths), attention with the additive score and coverage
(equations 8, 10 and 11), the context or attention vector fed to the cell, p_gen of context, state and input, the final
distribution over an extended vocabulary (equation 9), and the coverage loss (equations 12 and 13). Transformer: one layer
each, post-norm, and a copy head over the outputs of encoder and decoder.

Every case has the keys of the config that differ from the default, all parameters by Polyhead's names, the cross-entropy,
the coverage loss, and the gradients of cross-entropy + weight · coverage loss.
"""
import json
import math

import torch
from torch import nn

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
VOCAB, D, UNKNOWN, PAD = 6, 4, 2, 0
# 6 and 7 are words that the vocabulary lacks.
SOURCES = [[3, 6, 4, 7, 6, 1], [5, 6, 1]]
TARGETS = [[0, 6, 4, 7, 3], [0, 5, 6]]
EXPECTED = [[6, 4, 7, 3, 1], [5, 6, 1]]


def numbers(*shape):
    """Random numbers with short decimals, so that files stay small."""
    return (torch.randint(-48, 49, shape) / 64).requires_grad_()


def padded(rows):
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


class PointerGenerator:
    def __init__(self, **config):
        self.config = config
        self.parameters = {}

    def parameter(self, name, *shape):
        if name not in self.parameters:
            self.parameters[name] = numbers(*shape)
        return self.parameters[name]

    def linear(self, name, x, d_out):
        return x @ self.parameter(f"{name}.weight", d_out, x.shape[-1]).T + self.parameter(f"{name}.bias", d_out)

    def embed(self, name, ids):
        known = torch.where(ids < VOCAB, ids, UNKNOWN)
        return self.parameter(f"{name}.weight", VOCAB, D)[known] * math.sqrt(D)

    def final(self, x, weights, gate, sources):
        """Equation 9, with scatter_add over the extended vocabulary."""
        generate = torch.sigmoid(gate)
        vocabulary = torch.softmax(self.linear("output", x, VOCAB), -1) * generate
        extended = torch.cat([vocabulary, torch.zeros(*x.shape[:2], sources.shape[1])], -1)
        index = sources[:, None, :].expand(-1, x.shape[1], -1)
        return extended.scatter_add(-1, index, (1 - generate) * weights)

    def case(self, name):
        sources, expected = padded(SOURCES), padded(EXPECTED)
        x, weights, gate = self.decode(sources, padded(TARGETS))
        final = self.final(x, weights, gate, sources)
        exists = expected != PAD
        own = -torch.log(final.gather(-1, expected[..., None])[..., 0])
        cross_entropy = own[exists].mean()
        coverage = torch.cumsum(weights, 1) - weights
        covered = torch.minimum(weights, coverage).sum(-1)[exists].mean()
        (cross_entropy + self.config.get("coverage", 0) * covered).backward()
        short = lambda tensor: [float(f"{number:.7g}") for number in tensor.detach().flatten().tolist()]
        parameters = {path: {"data": short(value), "gradient": short(value.grad)}
                      for path, value in self.parameters.items()}
        return {"name": name, "config": self.config, "parameters": parameters, "cross_entropy": cross_entropy.item(),
                "coverage": covered.item()}


class Recurrent(PointerGenerator):
    def weights(self, query, states, lengths, covered):
        path = "decoder.attention.score"
        keys = states @ self.parameter(f"{path}.key_weight", D, D).T
        hidden = (query @ self.parameter(f"{path}.weight", D, D).T)[:, None] + keys
        if self.config.get("coverage"):
            hidden = hidden + covered[..., None] * self.parameter("decoder.attention.coverage", D, 1)[:, 0]
        scores = torch.tanh(hidden) @ self.parameter(f"{path}.vector", D)
        outside = torch.arange(states.shape[1])[None] >= lengths[:, None]
        return torch.softmax(scores.masked_fill(outside, -math.inf), -1)

    def encode(self, sources):
        lengths = torch.tensor([len(row) for row in SOURCES])
        module = nn.LSTM(D, D // 2, bidirectional=True, batch_first=True)
        own = {}
        for direction, suffix in [("forward", "_l0"), ("backward", "_l0_reverse")]:
            for weight, shape in [("weight_ih", (2 * D, D)), ("weight_hh", (2 * D, D // 2)), ("bias_ih", (2 * D,)),
                                  ("bias_hh", (2 * D,))]:
                own[weight + suffix] = self.parameter(f"encoder.layers.0.{direction}.{weight}", *shape)
        packed = nn.utils.rnn.pack_padded_sequence(self.embed("source_embedding", sources), lengths, batch_first=True,
                                                   enforce_sorted=False)
        states, last = torch.func.functional_call(module, own, (packed,))
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return states, lengths, [torch.cat(list(state), -1) for state in last]

    def decode(self, sources, targets):
        states, lengths, (h, c) = self.encode(sources)
        y = self.embed("target_embedding", targets)
        path, fed = "decoder.layers.0", torch.zeros_like(h)
        covered = torch.zeros(sources.shape)
        outputs, all_weights, gates = [], [], []
        is_bahdanau, feeds = self.config["attention"] == "bahdanau", self.config.get("input_feeding", False)
        for t in range(y.shape[1]):
            if is_bahdanau:
                weights = self.weights(h, states, lengths, covered)
                fed = context = (weights[..., None] * states).sum(1)
            projected = y[:, t] @ self.parameter(f"{path}.weight_ih", 4 * D, D).T + self.parameter(f"{path}.bias_ih", 4 * D)
            if is_bahdanau or feeds:
                projected = projected + fed @ self.parameter("decoder.feed.weight", 4 * D, D).T
            gate = projected + h @ self.parameter(f"{path}.weight_hh", 4 * D, D).T + self.parameter(f"{path}.bias_hh", 4 * D)
            i, f, g, o = gate.chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            if not is_bahdanau:
                weights = self.weights(h, states, lengths, covered)
                context = (weights[..., None] * states).sum(1)
            parts = [context, h, y[:, t]] if is_bahdanau else [context, h]
            vector = torch.tanh(self.linear("decoder.combine", torch.cat(parts, -1), D))
            if feeds:
                fed = vector
            covered = covered + weights
            outputs.append(vector)
            all_weights.append(weights)
            gates.append(self.linear("copy.gate", torch.cat([context, h, y[:, t]], -1), 1))
        return [torch.stack(parts, 1) for parts in (outputs, all_weights, gates)]


class Transformer(PointerGenerator):
    def norm(self, name, x):
        return nn.functional.layer_norm(x, (D,), self.parameter(f"{name}.gamma", D), self.parameter(f"{name}.beta", D))

    def heads(self, x):
        return x.unflatten(-1, (2, D // 2)).transpose(1, 2)

    def attend(self, query, key, value, mask):
        query, key, value = [self.heads(part) for part in (query, key, value)]
        context = nn.functional.scaled_dot_product_attention(query, key, value, mask[:, None])
        return context.transpose(1, 2).flatten(2)

    def self_attention(self, path, x, mask):
        parts = self.linear(f"{path}.self_attention.query_key_value", x, 3 * D).chunk(3, -1)
        x = x + self.linear(f"{path}.self_attention.output", self.attend(*parts, mask), D)
        return self.norm(f"{path}.self_attention_norm", x)

    def feed_forward(self, path, x):
        inner = nn.functional.gelu(self.linear(f"{path}.feed_forward.inner", x, 5))
        return self.norm(f"{path}.feed_forward_norm", x + self.linear(f"{path}.feed_forward.outer", inner, D))

    def input(self, name, ids):
        frequency = 10_000 ** (-torch.arange(0, D, 2) / D)
        angle = torch.arange(ids.shape[1])[:, None] * frequency
        return self.embed(name, ids) + torch.cat([angle.sin(), angle.cos()], -1)

    def decode(self, sources, targets):
        source_mask = (torch.arange(sources.shape[1]) < torch.tensor([[len(row)] for row in SOURCES]))[:, None]
        memory = self.input("source_embedding", sources)
        memory = self.feed_forward("encoder.layers.0", self.self_attention("encoder.layers.0", memory, source_mask))
        path, length = "decoder.layers.0", targets.shape[1]
        causal = torch.ones(1, length, length).tril().bool()
        x = self.self_attention(path, self.input("target_embedding", targets), causal)
        query = self.linear(f"{path}.cross_attention.query", x, D)
        key, value = self.linear(f"{path}.cross_attention.key_value", memory, 2 * D).chunk(2, -1)
        x = x + self.linear(f"{path}.cross_attention.output", self.attend(query, key, value, source_mask), D)
        x = self.feed_forward(path, self.norm(f"{path}.cross_attention_norm", x))
        scores = x @ self.parameter("copy.attention.score.weight", D, D) @ memory.transpose(1, 2) / math.sqrt(D)
        weights = torch.softmax(scores.masked_fill(~source_mask, -math.inf), -1)
        gate = self.linear("copy.gate", torch.cat([weights @ memory, x], -1), 1)
        return x, weights, gate


def main():
    recurrent = {"model_type": "recurrent", "n_layers": 1, "d_embedding": D, "score": "additive"}
    cases = [
        Recurrent(**recurrent, attention="luong", input_feeding=True, coverage=1.0).case("input feeding and coverage"),
        Recurrent(**recurrent, attention="luong", coverage=0.5).case("coverage"),
        Recurrent(**recurrent, attention="luong").case("no coverage"),
        Recurrent(**recurrent, attention="bahdanau", coverage=2.0).case("attention before the cell"),
        Transformer(n_layers=1, n_heads=2, d_ff=5, activation="gelu", coverage=1.0).case("transformer"),
    ]
    print(json.dumps({"sources": SOURCES, "targets": TARGETS, "expected": EXPECTED, "cases": cases}))


main()
