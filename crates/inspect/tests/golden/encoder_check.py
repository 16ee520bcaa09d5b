"""Compares what `polyhead inspect --out trace.npz` writes for an encoder with transformers.

    python encoder_check.py POLYHEAD FOLDER

Run with transformers 5.23.0, torch 2.15.0 on all-MiniLM-L6-v2: attention weights and hidden states of three sentences differ
by 3.4e-6 at most, and the cosines of the two *bank* after each layer are those of `--compare bank`.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = [
    "I bank only at my local bank.",
    "The animal didn't cross the street because it was too tired.",
    "Öztürk's naïve café: 3,5 % of résumés 東京 – unbelievable!",
]


def main(program, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def inspect(out, *arguments):
        subprocess.run([program, "--quiet", "inspect", "--model", folder, "--out", out, *arguments], check=True)

    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch)
        for text in TEXTS:
            inspect(out / "trace.npz", text)
            found = numpy.load(out / "trace.npz")
            with torch.no_grad():
                theirs = model(**tokenizer(text, return_tensors="pt"), output_attentions=True, output_hidden_states=True)
            for name, layers in (("encoder", theirs.attentions), ("hidden_states", theirs.hidden_states)):
                expected = torch.cat(layers).numpy()
                print(f"{name} {expected.shape}: {abs(found[name] - expected).max():.1e}  {text}")
                assert abs(found[name] - expected).max() < 1e-4
        inspect(out / "bank.json", "--compare", "bank", TEXTS[0])
        own = json.loads((out / "bank.json").read_text())
        ids = tokenizer(TEXTS[0], return_tensors="pt")
        places = (ids.input_ids[0] == tokenizer.convert_tokens_to_ids("bank")).nonzero()[:, 0]
        with torch.no_grad():
            states = model(**ids, output_hidden_states=True).hidden_states
        for layer, state in zip(own["layers"], states, strict=True):
            expected = torch.cosine_similarity(*state[0, places], dim=0).item()
            print(f"{layer['layer']}: {layer['similarities'][0][1]:.4f}")
            assert abs(layer["similarities"][0][1] - expected) < 1e-4


main(*sys.argv[1:])
