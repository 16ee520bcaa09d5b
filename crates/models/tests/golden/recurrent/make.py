"""Golden values of recurrent sequence-to-sequence models: logits and gradients of PyTorch modules written by hand.

    python make.py > recurrent.json && gzip -9n recurrent.json

Encoders are nn.RNN, nn.GRU and nn.LSTM (stacked, one or both directions, packed lengths); decoders without input feeding
likewise, others are nn.GRUCell and nn.LSTMCell with attention by hand: Bahdanau et al. 2015 (score before the cell), Luong
et al. 2015 (after it, input feeding, local-m, local-p), and LSTMN of Cheng et al. 2016.
Every case has the keys of the config that differ from the default, all parameters by Polyhead's names, logits, and the
gradients of Σ upstream·logits over the tokens that exist.
"""
import json
import math

import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
SOURCES = [[3, 4, 2, 1], [4, 1]]
TARGETS = [[0, 2, 3], [0, 4, 3]]
VOCAB, D = 5, 4
CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def numbers(*shape):
    """Random numbers with short decimals, so that files stay small."""
    return (torch.randint(-48, 49, shape) / 64).requires_grad_()


class Model:
    def __init__(self, **config):
        self.config = {"cell": "lstm", "n_layers": 2, "bidirectional": True, "attention": "luong", "score": "general",
                       "local": "none", "window": 1, "input_feeding": False, "residual": False, "sharpness": 3.0} | config
        self.parameters = {}

    def __getattr__(self, name):
        return self.__dict__["config"][name]

    def parameter(self, name, *shape):
        if name not in self.parameters:
            self.parameters[name] = numbers(*shape)
        return self.parameters[name]

    def linear(self, name, x, d_out, bias=False):
        y = x @ self.parameter(f"{name}.weight", d_out, x.shape[-1]).T
        return y + self.parameter(f"{name}.bias", d_out) if bias else y

    def embed(self, name, ids):
        return self.parameter(f"{name}.weight", VOCAB, D)[ids] * math.sqrt(D)

    def layer(self, paths, d_in, d_hidden):
        """A PyTorch layer, of both directions if there are two paths, whose weights are ours."""
        kind = CELLS[self.cell]
        module = kind(d_in, d_hidden, bidirectional=len(paths) == 2, batch_first=True)
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[self.cell] * d_hidden
        weights = {}
        for path, suffix in zip(paths, ["_l0", "_l0_reverse"]):
            for name, shape in [("weight_ih", (gates, d_in)), ("weight_hh", (gates, d_hidden)), ("bias_ih", (gates,)),
                                ("bias_hh", (gates,))]:
                weights[name + suffix] = self.parameter(f"{path}.{name}", *shape)
        return lambda *inputs: torch.func.functional_call(module, weights, inputs)

    def encode(self):
        ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in SOURCES], batch_first=True)
        lengths = torch.tensor([len(row) for row in SOURCES])
        x = self.embed("source_embedding", ids)
        directions = ["forward", "backward"] if self.bidirectional else ["forward"]
        last = []
        for index in range(self.n_layers):
            paths = [f"encoder.layers.{index}.{direction}" for direction in directions]
            if self.cell == "lstmn":
                y, states = self.lstmn(paths[0], x, None, lengths)
            else:
                packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                y, states = self.layer(paths, x.shape[-1], D // len(paths))(packed)
                y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
                states = states if isinstance(states, tuple) else (states,)
                states = [torch.cat(list(state), -1) for state in states]
            last.append(states)
            x = x + y if self.residual and index > 0 else y
        return x, lengths, last

    def lstmn(self, path, x, start, lengths=None):
        """All positions of an LSTMN: outputs, and h and c after each row's own length."""
        d = D
        hidden, cell = start if start else [torch.zeros(x.shape[0], d)] * 2
        hs, cs, mean, outputs = [hidden], [cell], hidden, []
        weight, bias = self.parameter(f"{path}.weight_hh", 4 * d, d), self.parameter(f"{path}.bias_hh", 4 * d)
        projected = self.linear(f"{path}.input", x, 5 * d, bias=True)
        for t in range(x.shape[1]):
            query = projected[:, t, 4 * d:] + self.linear(f"{path}.memory.mean", mean, d)
            keys = [self.linear(f"{path}.memory.key", h, d) for h in hs]
            scores = torch.stack([torch.tanh(key + query) @ self.parameter(f"{path}.memory.vector", d) for key in keys], 1)
            weights = torch.softmax(scores, 1)
            mean = sum(weights[:, i:i + 1] * h for i, h in enumerate(hs))
            memory = sum(weights[:, i:i + 1] * c for i, c in enumerate(cs))
            i, f, g, o = (projected[:, t, :4 * d] + mean @ weight.T + bias).chunk(4, 1)
            cell = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            hs.append(hidden)
            cs.append(cell)
            outputs.append(hidden)
        own = [x.shape[1]] * x.shape[0] if lengths is None else lengths
        last = [torch.stack([states[n][row] for row, n in enumerate(own)]) for states in (hs, cs)]
        return torch.stack(outputs, 1), last

    def weights(self, query, states, lengths, t):
        """Attention weights of one query of each row, over the row's own keys."""
        rows = []
        for row, length in enumerate(lengths):
            q, keys = query[row], states[row, :length]
            if self.score == "dot":
                scores = keys @ q
            elif self.score == "scaled_dot":
                scores = keys @ q / math.sqrt(D)
            elif self.score == "general":
                scores = keys @ (q @ self.parameter("decoder.attention.score.weight", D, D))
            elif self.score == "additive":
                own = self.linear("decoder.attention.score", q, D)
                other = keys @ self.parameter("decoder.attention.score.key_weight", D, D).T
                scores = torch.tanh(own + other) @ self.parameter("decoder.attention.score.vector", D)
            elif self.score == "location":
                scores = (self.parameter("decoder.attention.score.weight", 6, D) @ q)[:length]
            else:
                scores = self.sharpness * nn.functional.cosine_similarity(keys, q[None], dim=1, eps=1e-12)
            positions = torch.arange(int(length))
            if self.local == "monotonic":
                scores = scores.masked_fill((positions - min(t, int(length) - 1)).abs() > self.window, -math.inf)
            if self.local == "predictive":
                hidden = torch.tanh(self.linear("decoder.attention.position.hidden", q, D))
                p = length * torch.sigmoid(self.linear("decoder.attention.position.output", hidden, 1))
                scores = scores.masked_fill((positions - p).abs() > self.window, -math.inf)
            weights = torch.softmax(scores, 0)
            if self.local == "predictive":
                weights = weights * torch.exp(-((positions - p) ** 2) / (2 * (self.window / 2) ** 2))
            rows.append(torch.cat([weights, torch.zeros(states.shape[1] - length)]))
        return torch.stack(rows)

    def attend(self, query, states, lengths, t):
        return (self.weights(query, states, lengths, t)[:, :, None] * states).sum(1)

    def combine(self, *parts):
        return torch.tanh(self.linear("decoder.combine", torch.cat(parts, -1), D, bias=True))

    def cell_step(self, index, projected, state):
        path = f"decoder.layers.{index}"
        gates = {"gru": 3, "lstm": 4}[self.cell] * D
        weight, bias = self.parameter(f"{path}.weight_hh", gates, D), self.parameter(f"{path}.bias_hh", gates)
        if self.cell == "lstm":
            i, f, g, o = (projected + state[0] @ weight.T + bias).chunk(4, 1)
            c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
            return [torch.sigmoid(o) * torch.tanh(c), c]
        r, z, n = projected.chunk(3, 1)
        hr, hz, hn = (state[0] @ weight.T + bias).chunk(3, 1)
        r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
        n = torch.tanh(n + r * hn)
        return [(1 - z) * n + z * state[0]]

    def by_steps(self, x, states, lengths, last):
        vector, outputs = torch.zeros(x.shape[0], D), []
        gates = {"gru": 3, "lstm": 4}[self.cell] * D
        for t in range(x.shape[1]):
            y = x[:, t]
            if self.attention == "bahdanau":
                fed = context = self.attend(last[-1][0], states, lengths, t)
            else:
                fed = vector
            h = y
            for index in range(self.n_layers):
                path = f"decoder.layers.{index}"
                projected = h @ self.parameter(f"{path}.weight_ih", gates, D).T + self.parameter(f"{path}.bias_ih", gates)
                if index == 0:
                    projected = projected + self.linear("decoder.feed", fed, gates)
                last[index] = self.cell_step(index, projected, last[index])
                h = h + last[index][0] if self.residual and index > 0 else last[index][0]
            if self.attention == "bahdanau":
                outputs.append(self.combine(context, h, y))
            else:
                vector = self.combine(self.attend(h, states, lengths, t), h)
                outputs.append(vector)
        return torch.stack(outputs, 1)

    def decode(self):
        states, lengths, last = self.encode()
        x = self.embed("target_embedding", torch.tensor(TARGETS))
        if self.attention == "bahdanau" or self.input_feeding:
            return self.by_steps(x, states, lengths, last)
        for index in range(self.n_layers):
            if self.cell == "lstmn":
                y, _ = self.lstmn(f"decoder.layers.{index}", x, last[index])
            else:
                start = [state[None] for state in last[index]]
                start = tuple(start) if self.cell == "lstm" else start[0]
                y, _ = self.layer([f"decoder.layers.{index}"], D, D)(x, start)
            x = x + y if self.residual and index > 0 else y
        if self.attention == "none":
            return x
        contexts = [self.attend(x[:, t], states, lengths, t) for t in range(x.shape[1])]
        return self.combine(torch.stack(contexts, 1), x)

    def case(self, name):
        logits = self.linear("output", self.decode(), VOCAB, bias=True)
        upstream = numbers(*logits.shape).detach()
        (logits * upstream).sum().backward()
        keys = {key: value for key, value in self.config.items()}
        short = lambda tensor: [float(f"{number:.7g}") for number in tensor.detach().flatten().tolist()]
        parameters = {path: {"shape": list(value.shape), "data": short(value), "gradient": short(value.grad)}
                      for path, value in self.parameters.items()}
        return {"name": name, "config": keys, "parameters": parameters, "logits": short(logits),
                "upstream": short(upstream)}


def main():
    cases = [
        Model().case("lstm, both directions, general"),
        Model(cell="gru", n_layers=1, attention="bahdanau", score="additive").case("Bahdanau's model"),
        Model(bidirectional=False, input_feeding=True, score="dot", residual=True).case("Luong's model"),
        Model(cell="rnn", attention="none", bidirectional=False).case("rnn without attention"),
        Model(cell="gru", attention="none", n_layers=1).case("gru without attention"),
        Model(n_layers=1, score="additive", local="monotonic").case("local-m"),
        Model(n_layers=1, bidirectional=False, score="scaled_dot", local="predictive", window=2).case("local-p"),
        Model(cell="gru", n_layers=1, score="cosine", bidirectional=False).case("cosine"),
        Model(cell="rnn", n_layers=1, score="location", bidirectional=False).case("location"),
        Model(cell="lstmn", n_layers=1, score="dot", bidirectional=False).case("lstmn"),
    ]
    print(json.dumps({"sources": SOURCES, "targets": TARGETS, "cases": cases}))


main()
