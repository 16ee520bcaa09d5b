"""Loads a folder that Polyhead saved in the Marian layout with transformers and prints logits, for use by hand.

    python check_saved.py FOLDER [OTHER]

Prints what the loading found missing or unexpected (nothing, if all is well), the dtype, and some logits for fixed ids.
With OTHER, a folder of the same model, it also prints the largest difference of logits and whether ids differ.
"""

import sys

import torch
from transformers import MarianMTModel


def load(folder):
    model, report = MarianMTModel.from_pretrained(folder, output_loading_info=True)
    print(folder, {key: sorted(map(str, value)) for key, value in report.items() if value}, model.dtype)
    # Settings that are no part of the model; folders may differ in them.
    model.generation_config.forced_eos_token_id = None
    model.generation_config.bad_words_ids = None
    return model.eval()


@torch.no_grad()
def logits(model):
    config = model.config
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(1, config.vocab_size - 1, (3, 7), generator=generator)
    target = torch.randint(1, config.decoder_vocab_size - 1, (3, 5), generator=generator)
    source[:, -1] = config.eos_token_id
    target[:, 0] = config.decoder_start_token_id
    result = model(input_ids=source, decoder_input_ids=target).logits
    return result, model.generate(source, max_new_tokens=12, num_beams=1, do_sample=False)


def main():
    found, ids = logits(load(sys.argv[1]))
    print(found[:, -1, :5])
    print(ids.tolist())
    if len(sys.argv) > 2:
        expected, other_ids = logits(load(sys.argv[2]))
        print("largest difference of logits:", (found - expected).abs().max().item())
        print("same ids generated:", ids.tolist() == other_ids.tolist())


main()
