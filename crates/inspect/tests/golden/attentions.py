"""Writes the attention weights that Hugging Face's code has for two small Marian models.

    python attentions.py

Made with torch 2.15.0, transformers 5.22.2, safetensors 0.8.0.

The models lie under crates/models/tests/golden: `opus` has tokenisers, `marian/relu` is random. For each case
attentions.json holds the folder, the text (or none), the ids of the source and of the target as written, the end id
included (opus: what generate() gives with beams; relu: any ids); attentions.safetensors.gz holds by case, as
CASE.encoder, CASE.decoder and CASE.cross, what output_attentions=True gives in one pass with the start id before the
target: layers × heads × queries × keys.
"""

import gzip
import json
import pathlib

import torch
from safetensors.torch import save
from transformers import MarianMTModel, MarianTokenizer

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[2] / "models/tests/golden"

TEXTS = ["The teacher reads a book today.", "Mr. Çelik paid 250 lira at 10:45.", "Ayşe"]
RANDOM = [([3, 14, 15, 92, 65, 35, 0], [8, 9, 79, 32, 38, 0]), ([5, 0], [46, 26, 43, 38, 32, 79, 50, 28, 0])]


def load(name):
    return MarianMTModel.from_pretrained(MODELS / name, attn_implementation="eager").eval()


@torch.no_grad()
def attentions(model, source, target):
    read = [model.config.decoder_start_token_id, *target[:-1]]
    found = model(
        input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([read]), output_attentions=True, use_cache=False,
    )
    kinds = {"encoder": found.encoder_attentions, "decoder": found.decoder_attentions, "cross": found.cross_attentions}
    return {kind: torch.cat(layers).contiguous() for kind, layers in kinds.items()}


def main():
    cases, arrays = [], {}
    opus, tokenizer = load("opus"), MarianTokenizer.from_pretrained(MODELS / "opus")
    for text in TEXTS:
        source = tokenizer(text).input_ids
        target = opus.generate(torch.tensor([source]))[0].tolist()[1:]
        cases.append(dict(folder="opus", text=text, source=source, target=target))
    for source, target in RANDOM:
        cases.append(dict(folder="marian/relu", text=None, source=source, target=target))
    models = {"opus": opus, "marian/relu": load("marian/relu")}
    for index, case in enumerate(cases):
        for kind, weights in attentions(models[case["folder"]], case["source"], case["target"]).items():
            arrays[f"{index}.{kind}"] = weights
    (HERE / "attentions.safetensors.gz").write_bytes(gzip.compress(save(arrays), mtime=0))
    (HERE / "attentions.json").write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")


main()
