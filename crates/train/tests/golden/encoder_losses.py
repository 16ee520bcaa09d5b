"""Losses and gradients of masked language modelling and of contrastive training by PyTorch (encoder_losses.json.gz).

    python encoder_losses.py

Weights are a function of a tensor's name. Made with transformers 5.23.0 and torch 2.15.0.
"""

import gzip
import json
import zlib
from pathlib import Path

import torch
import transformers
from torch.nn.functional import cross_entropy, normalize
from transformers import BertConfig, BertForMaskedLM, BertModel

CONFIG = dict(vocab_size=19, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
              max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
# Rows of ids; 4 is the mask token. The second has a random token and one that stays.
ROWS = [[2, 7, 4, 9, 10, 4, 12, 3], [2, 13, 5, 6, 3]]
# (row, position, word) of the hidden tokens.
HIDDEN = [(0, 2, 8), (0, 5, 11), (1, 1, 16), (1, 3, 6)]
PAIRS = [([2, 7, 8, 9, 3], [2, 9, 8, 3]), ([2, 5, 6, 3], [2, 6, 5, 10, 11, 3]), ([2, 14, 3], [2, 15, 14, 3])]
TEMPERATURE = 0.1


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    values = torch.tensor(values, dtype=torch.float64)
    is_norm = len(shape) == 1 and name.endswith(".weight")
    return (values * 0.8 + (1 if is_norm else 0)).to(torch.float32).reshape(shape)


def made(cls, **options):
    model = cls(BertConfig(**CONFIG), **options).train()
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            parameter.copy_(weight(name, list(parameter.shape)))
    config = json.loads(model.config.to_json_string(use_diff=False))
    config["architectures"] = [cls.__name__]
    return model, config


def padded(rows):
    longest = max(len(row) for row in rows)
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    found = {name: parameter.grad.reshape(-1).tolist() for name, parameter in model.named_parameters()}
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    return {"loss": loss.item(), "gradients": found, "shapes": shapes}


def main():
    found = {"rows": ROWS, "hidden": HIDDEN, "pairs": PAIRS, "temperature": TEMPERATURE}
    model, config = made(BertForMaskedLM)
    ids, mask = padded(ROWS)
    labels = torch.full_like(ids, -100)
    for row, position, word in HIDDEN:
        labels[row, position] = word
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    found["masked"] = {"config": config, **gradients(model, loss)}

    model, config = made(BertModel, add_pooling_layer=False)

    def vectors(rows):
        ids, mask = padded(rows)
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        mask = mask.unsqueeze(-1)
        return normalize((states * mask).sum(1) / mask.sum(1))

    sources, targets = [vectors([pair[side] for pair in PAIRS]) for side in (0, 1)]
    scores = sources @ targets.T / TEMPERATURE
    partners = torch.arange(len(PAIRS))
    one_way = gradients(model, cross_entropy(scores, partners))
    sources, targets = [vectors([pair[side] for pair in PAIRS]) for side in (0, 1)]
    scores = sources @ targets.T / TEMPERATURE
    both = (cross_entropy(scores, partners) + cross_entropy(scores.T, partners)) / 2
    found["contrastive"] = {"config": config, "one_way": one_way, "symmetric": gradients(model, both)}
    text = json.dumps(found)
    path = Path(__file__).parent / "encoder_losses.json.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(path, path.stat().st_size, "bytes, transformers", transformers.__version__, "torch", torch.__version__)


main()
