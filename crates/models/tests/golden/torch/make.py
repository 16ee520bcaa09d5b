"""Writes two small nn.Transformer models, what every layer gives, and the gradients of a training loss.

    python make.py

Made with torch 2.15.0, safetensors 0.8.0. Folders: pre (norm_first=True, exact gelu), post (norm_first=False, relu).
nn.Transformer has a norm at the end of both stacks in both orders. Embeddings are multiplied by sqrt(d_model), then
sinusoidal positions are added: sin(i / 10000^(2j/d)) in column 2j, cos of the same in column 2j + 1.

model.safetensors        the weights under the names of torch, float32
config.json              the settings under our names
reference.safetensors    ids and what every layer gives, under the names of ../record.py, computed in float32; the
                         target has the causal mask and its padding is hidden; rows from a row's length on mean nothing
gradients.safetensors    expected_ids, loss and the gradient of every parameter, computed in float64, kept as float32:
                         cross-entropy with label smoothing 0.1, mean over the target tokens that are not padding
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).parent
D_MODEL, N_HEADS, D_FF, N_LAYERS = 16, 4, 20, 2
SOURCE_VOCAB, TARGET_VOCAB = 31, 29
PAD, END = 1, 2
SOURCE_LENGTHS, TARGET_LENGTHS = [6, 4, 1], [5, 3, 4]
MAX_LEN = 64


class Model(nn.Module):
    def __init__(self, norm_first, activation):
        super().__init__()
        self.source_embedding = nn.Embedding(SOURCE_VOCAB, D_MODEL)
        self.target_embedding = nn.Embedding(TARGET_VOCAB, D_MODEL)
        self.transformer = nn.Transformer(
            D_MODEL, N_HEADS, N_LAYERS, N_LAYERS, D_FF, dropout=0.0, activation=activation, batch_first=True,
            norm_first=norm_first,
        )
        self.output = nn.Linear(D_MODEL, TARGET_VOCAB)

    def embed(self, table, ids):
        return table(ids) * math.sqrt(D_MODEL) + positions(ids.shape[1]).to(table.weight.dtype)

    def forward(self, source_ids, source_lengths, target_ids, target_lengths):
        source_hidden, target_hidden = hidden(source_ids, source_lengths), hidden(target_ids, target_lengths)
        length = target_ids.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        state = self.transformer(
            self.embed(self.source_embedding, source_ids), self.embed(self.target_embedding, target_ids),
            tgt_mask=later, src_key_padding_mask=source_hidden, tgt_key_padding_mask=target_hidden,
            memory_key_padding_mask=source_hidden,
        )
        return self.output(state)


def positions(length):
    """length x d_model, interleaved, in float64."""
    angle = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(0, D_MODEL, 2).double() / D_MODEL)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def hidden(ids, lengths):
    return torch.arange(ids.shape[1]) >= lengths[:, None]


@torch.no_grad()
def fill(model):
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.normal_(1.0, 0.2)
        elif name.endswith("bias"):
            parameter.normal_(0.0, 0.2)
        elif "embedding" in name:
            parameter.normal_(0.0, 0.3)
        else:
            parameter.normal_(0.0, 0.35)


def draw_ids(vocab_size, lengths):
    ids = torch.randint(3, vocab_size, (len(lengths), max(lengths)))
    return ids.masked_fill(hidden(ids, torch.tensor(lengths)), PAD)


def watch(model):
    """Hooks that keep what every layer gives."""
    kept = {}

    def keep(name, tensor):
        kept[name] = tensor.detach().contiguous().clone()

    def attention(name, module):
        module.register_forward_pre_hook(
            lambda _, inputs, named: (inputs, {**named, "need_weights": True, "average_attn_weights": False}),
            with_kwargs=True,
        )
        output(name, module, lambda out: out[0])
        output(f"{name}.weights", module, lambda out: out[1])

    def output(name, module, part=lambda out: out):
        module.register_forward_hook(lambda _, inputs, out: keep(name, part(out)))

    for name in ("encoder", "decoder"):
        stack = getattr(model.transformer, name)
        stack.layers[0].register_forward_pre_hook(lambda _, inputs, name=name: keep(f"{name}.embedding", inputs[0]))
        for i, layer in enumerate(stack.layers):
            attention(f"{name}.layers.{i}.self_attention", layer.self_attn)
            if name == "decoder":
                attention(f"{name}.layers.{i}.cross_attention", layer.multihead_attn)
            output(f"{name}.layers.{i}.feed_forward", layer.linear2)
            output(f"{name}.layers.{i}", layer)
        output(name, stack)
    output("logits", model.output)
    return kept


def config(order, activation):
    stack = {"n_layers": N_LAYERS, "n_heads": N_HEADS, "d_ff": D_FF}
    return {
        "model_type": "polyhead_transformer", "layout": "torch", "source_vocab_size": SOURCE_VOCAB,
        "target_vocab_size": TARGET_VOCAB, "d_model": D_MODEL, "encoder": stack, "decoder": stack, "norm_order": order,
        "final_norm": True, "norm_epsilon": 1e-5, "activation": activation,
        "position": {"kind": "sinusoidal", "layout": "interleaved"}, "max_len": MAX_LEN, "tie": "none",
        "scale_embedding": True, "output_bias": True, "pad_id": PAD, "end_id": END, "start_id": END, "dropout": 0.0,
    }


def make(order, activation, seed):
    torch.manual_seed(seed)
    folder = HERE / order
    folder.mkdir(exist_ok=True)
    model = Model(norm_first=order == "pre", activation=activation)
    fill(model)
    source_ids, expected_ids = draw_ids(SOURCE_VOCAB, SOURCE_LENGTHS), draw_ids(TARGET_VOCAB, TARGET_LENGTHS)
    for row, length in enumerate(TARGET_LENGTHS):
        expected_ids[row, length - 1] = END
    target_lengths = torch.tensor(TARGET_LENGTHS)
    target_ids = torch.cat([torch.full((3, 1), END), expected_ids[:, :-1]], 1)
    target_ids = target_ids.masked_fill(hidden(target_ids, target_lengths), PAD)
    ids = {"source_ids": source_ids, "source_lengths": torch.tensor(SOURCE_LENGTHS)}
    ids |= {"target_ids": target_ids, "target_lengths": target_lengths}

    (folder / "config.json").write_text(json.dumps(config(order, activation), indent=1) + "\n")
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")

    kept = watch(model)
    model(**ids)
    reference = ids | kept
    save_file(reference, folder / "reference.safetensors")

    model = model.double()
    logits = model(**ids)
    loss = F.cross_entropy(logits.flatten(0, 1), expected_ids.flatten(), label_smoothing=0.1, ignore_index=PAD)
    loss.backward()
    gradients = {name: parameter.grad.float().contiguous() for name, parameter in model.named_parameters()}
    gradients |= {"expected_ids": expected_ids, "loss": loss.detach().float()}
    save_file(gradients, folder / "gradients.safetensors")
    print(order, "loss", loss.item(), "logits in float32 off by", reference["logits"].sub(logits).abs().max().item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    make("pre", "gelu", 1)
    make("post", "relu", 2)
