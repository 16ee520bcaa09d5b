"""Writes attention, logit lens and contributions that PyTorch computes for the tiny language models of the crate `engine`.

    python language_models.py

Made with torch 2.15.0, transformers 5.23.0.

The folders are crates/engine/tests/golden/gpt2 and llama. language_models.json.gz has for each the ids of a text;
`attentions` (output_attentions=True: layers × heads × queries × keys); `lens`, log-probabilities of every STEP-th id at
every position after each of output_hidden_states, through the final norm and the output layer; `following`,
log-probability and rank of the next token; and `contributions`: for the tokens of `targets`, the logit and what each part
(embedding, then attention and feed-forward of each layer, then the bias of the final norm) adds to it, by hooks in the
model and a final norm whose statistics are those of the whole sum.
"""

import gzip
import json
import pathlib

import torch
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
FOLDERS = HERE.parents[2] / "engine/tests/golden"
STEP = 23
TEXT_IDS = {"gpt2": [301, 262, 283, 84, 299, 266, 16, 301, 262, 283], "llama": [1, 265, 300, 271, 33, 290, 265, 300, 271]}


def rounded(tensor, digits=6):
    if tensor.dim() == 0:
        return round(tensor.item(), digits)
    return [rounded(part, digits) for part in tensor]


def parts_of(model, ids, name):
    """The vectors that are added to the residual stream, in order, each length × d_model."""
    found, hooks = [], []

    def keep(_module, _input, output):
        found.append((output[0] if isinstance(output, tuple) else output)[0].double())

    if name == "gpt2":
        base, norm = model.transformer, model.transformer.ln_f
        layers = [part for layer in base.h for part in (layer.attn, layer.mlp)]
        first = base.drop
    else:
        base, norm = model.model, model.model.norm
        layers = [part for layer in base.layers for part in (layer.self_attn, layer.mlp)]
        first = base.embed_tokens
    for module in [first, *layers]:
        hooks.append(module.register_forward_hook(keep))
    logits = model(input_ids=ids).logits[0].double()
    for hook in hooks:
        hook.remove()
    return found, norm, logits


@torch.no_grad()
def record(name):
    model = AutoModelForCausalLM.from_pretrained(FOLDERS / name, attn_implementation="eager", dtype=torch.float32).eval()
    ids = torch.tensor([TEXT_IDS[name]])
    out = model(input_ids=ids, output_attentions=True, output_hidden_states=True)
    norm = model.transformer.ln_f if name == "gpt2" else model.model.norm
    head = model.lm_head
    # The last hidden state has passed the final norm already.
    states = [norm(state) for state in out.hidden_states[:-1]] + [out.hidden_states[-1]]
    lens = torch.stack([head(state)[0].double().log_softmax(-1) for state in states])
    last = lens[-1]
    following = [
        [round(last[at, token].item(), 6), 1 + int((last[at] > last[at, token]).sum())]
        for at, token in enumerate(TEXT_IDS[name][1:])
    ]
    parts, norm, logits = parts_of(model, ids, name)
    targets = [[3, TEXT_IDS[name][4]], [len(TEXT_IDS[name]) - 1, int(last[-1].argmax())], [0, 7]]
    contributions = []
    for at, token in targets:
        x = sum(part[at] for part in parts)
        row = head.weight[token].double()
        gamma = norm.weight.double()
        if name == "gpt2":
            scale = (x.var(unbiased=False) + norm.eps).rsqrt()
            values = [((part[at] - part[at].mean()) * scale * gamma) @ row for part in parts] + [norm.bias.double() @ row]
        else:
            scale = (x.pow(2).mean() + norm.variance_epsilon).rsqrt()
            values = [(part[at] * scale * gamma) @ row for part in parts] + [torch.tensor(0.0)]
        assert abs(sum(values) - logits[at, token]) < 1e-4
        norms = [part[at].norm() for part in parts]
        contributions.append(
            dict(
                position=at,
                token=token,
                logit=round(logits[at, token].item(), 6),
                values=[round(float(value), 6) for value in values],
                norms=[round(float(value), 6) for value in norms],
            )
        )
    return dict(
        ids=TEXT_IDS[name],
        step=STEP,
        attentions=rounded(torch.cat(out.attentions)),
        lens=rounded(lens[:, :, ::STEP]),
        following=following,
        contributions=contributions,
    )


answers = json.dumps({name: record(name) for name in TEXT_IDS}, separators=(",", ":"))
(HERE / "language_models.json.gz").write_bytes(gzip.compress(answers.encode(), mtime=0))
