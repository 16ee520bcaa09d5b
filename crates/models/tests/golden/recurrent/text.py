"""Golden values of recurrent language models and classifiers: logits and gradients of PyTorch's nn.LSTM, nn.GRU, nn.RNN.

    python text.py > text.json && gzip -9n text.json

Every case has the section [model] of a recipe, all parameters by Polyhead's names, logits, and the gradients of
Σ upstream·logits. Lengths are packed; the logits of a language model beyond a row's length have an upstream of 0.
"""
import json
import math

import torch
from torch import nn

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
ROWS = [[3, 4, 2, 5], [4, 1]]
VOCAB, LABELS = 6, 3
CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def case(**keys):
    cell, layers, d_in, d = keys["cell"], keys["n_layers"], keys["d_embedding"], keys["d_model"]
    is_text = keys["model_type"] == "recurrent_language_model"
    both = keys.get("bidirectional", False)
    module = CELLS[cell](d_in, d // (2 if both else 1), num_layers=layers, bidirectional=both, batch_first=True)
    stack = "decoder" if is_text else "encoder"
    parameters = {}

    def parameter(name, *shape):
        parameters[name] = (torch.randint(-48, 49, shape) / 64).requires_grad_()
        return parameters[name]

    weights = {}
    for name, value in module.named_parameters():
        kind, layer = name.removesuffix("_reverse").rsplit("_l", 1)
        direction = "backward" if name.endswith("_reverse") else "forward"
        weights[name] = parameter(f"{stack}.layers.{layer}.{direction}.{kind}", *value.shape)
    table = parameter("embedding.weight", VOCAB, d_in)
    lengths = torch.tensor([len(row) for row in ROWS])
    ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ROWS], batch_first=True)
    x = nn.utils.rnn.pack_padded_sequence(table[ids] * math.sqrt(d_in), lengths, batch_first=True)
    y, last = torch.func.functional_call(module, weights, (x,))
    y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    if is_text:
        weight = table if keys["tie_output"] else parameter("output.weight", VOCAB, d)
        logits = y @ weight.T + parameter("output.bias", VOCAB)
    else:
        h = last[0] if cell == "lstm" else last
        pooled = y.sum(1) / lengths[:, None] if keys["pooling"] == "mean" else torch.cat(list(h[-2 if both else -1:]), -1)
        logits = pooled @ parameter("classes.weight", LABELS, d).T + parameter("classes.bias", LABELS)
    upstream = torch.randint(-48, 49, logits.shape) / 64
    if is_text:
        upstream[1, len(ROWS[1]):] = 0
    (logits * upstream).sum().backward()
    short = lambda tensor: [float(f"{number:.7g}") for number in tensor.detach().flatten().tolist()]
    return {"model": keys, "logits": short(logits), "upstream": short(upstream),
            "parameters": {name: {"data": short(value), "gradient": short(value.grad)} for name, value in parameters.items()}}


def main():
    text = {"model_type": "recurrent_language_model", "dropout": 0}
    classes = {"model_type": "recurrent_encoder", "dropout": 0}
    cases = [
        case(cell="lstm", n_layers=2, d_embedding=3, d_model=5, tie_output=False, **text),
        case(cell="gru", n_layers=1, d_embedding=4, d_model=4, tie_output=True, **text),
        case(cell="lstm", n_layers=2, d_embedding=3, d_model=4, bidirectional=True, pooling="last", **classes),
        case(cell="gru", n_layers=1, d_embedding=3, d_model=4, bidirectional=True, pooling="mean", **classes),
        case(cell="rnn", n_layers=1, d_embedding=3, d_model=4, bidirectional=False, pooling="last", **classes),
    ]
    print(json.dumps({"rows": ROWS, "cases": cases}))


main()
