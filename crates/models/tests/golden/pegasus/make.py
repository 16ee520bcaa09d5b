"""Writes a small random Pegasus model and what generate() makes of it under many generation settings.

    python make.py

Made with torch 2.5.1, transformers 4.57.6, safetensors. The folder holds config.json, generation_config.json,
model.safetensors and expected.json. The model has an odd d_model, and -inf in final_logits_bias forbids padding.

expected.json: `sources` and `targets` (what enters the decoder) with the `logits` of each target's last position, and
`cases`: the options of generate(), for each source the prefix (decoder_input_ids without the start id), and for each
source alone the ids without padding and, with beams, the sequences_scores, best first. A result is null where it depends on
rounding: computed in float64 its ids are others.
"""

import json
import pathlib

import torch
import transformers
from transformers import GenerationConfig, PegasusConfig, PegasusForConditionalGeneration

HERE = pathlib.Path(__file__).parent
PAD, END, LENGTHS = 0, 1, [3, 12, 6, 9, 5]
SOURCE_LENGTHS = [4, 9, 2, 7, 5]


@torch.no_grad()
def random_model():
    torch.manual_seed(7)
    config = PegasusConfig(
        vocab_size=60, d_model=9, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3,
        decoder_attention_heads=1, encoder_ffn_dim=12, decoder_ffn_dim=16, max_position_embeddings=32, scale_embedding=True,
        activation_function="relu", pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD,
        forced_eos_token_id=None, dropout=0.0,
    )
    model = PegasusForConditionalGeneration(config).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            is_gamma = "layer_norm.weight" in name
            parameter.normal_(1.0 if is_gamma else 0.0, 0.2)
    model.final_logits_bias.normal_(0.0, 0.5)
    model.generation_config = GenerationConfig(
        pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD, num_beams=4, max_length=17)
    return model


def teach(model, sources):
    """A few steps towards random targets, so that outputs are varied and sentences end at different steps."""
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    targets = [torch.randint(2, 60, (n,), generator=generator).tolist() + [END] for n in LENGTHS]
    for _ in range(100):
        loss = sum(
            torch.nn.functional.cross_entropy(
                model(torch.tensor([source]), decoder_input_ids=torch.tensor([[PAD] + target[:-1]])).logits[0],
                torch.tensor(target), label_smoothing=0.2)
            for source, target in zip(sources, targets))
        if loss < 6.5:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def settings():
    """Options of generate(), each with and without beams; `prefix` is the length of the prefixes."""
    keys = [
        {}, dict(forced_bos_token_id=9), dict(max_new_tokens=5), dict(suppress_tokens=[1, 7, 20, 33]),
        dict(begin_suppress_tokens=[1, 11, 17, 23, 31, 54]), dict(forced_bos_token_id=9, begin_suppress_tokens=[17, 18, 28, 29, 36]),
        dict(sequence_bias=[[[11], 2.5], [[7, 12], -3.0], [[30], -4.0], [[5, 6, 7], 9.5]]),
        dict(exponential_decay_length_penalty=[2, 1.15]), dict(eos_token_id=[1, 17, 23, 50]),
        dict(renormalize_logits=True, suppress_tokens=list(range(20, 40))),
        dict(forced_eos_token_id=[23], max_new_tokens=6), dict(min_new_tokens=7),
        dict(eos_token_id=[1, 17, 23], exponential_decay_length_penalty=[1, 1.1], repetition_penalty=1.2,
             sequence_bias=[[[11], 1.5]], no_repeat_ngram_size=2, renormalize_logits=True, bad_words_ids=[[8], [3, 4]],
             max_new_tokens=9, min_new_tokens=2, forced_eos_token_id=1, begin_suppress_tokens=[4]),
    ]
    for number, key in enumerate(keys):
        for prefix in (0, 2):
            beams = dict(num_beams=3, num_return_sequences=2, length_penalty=[1.0, 0.6, 0.0, 1.4][number % 4],
                         early_stopping=[False, "never", True][number % 3])
            yield prefix, beams | key
            if number and prefix == 0:
                yield prefix, dict(num_beams=1, num_return_sequences=1, length_penalty=1.0, early_stopping=False) | key


@torch.no_grad()
def results(model, source, prefix, options):
    output = model.generate(
        input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[PAD] + prefix]), do_sample=False,
        return_dict_in_generate=True, output_scores=True, **options)
    scores = output.sequences_scores.tolist() if options["num_beams"] > 1 else [None]
    ends = options.get("eos_token_id", END)
    ends = ends if isinstance(ends, list) else [ends]
    found = []
    for ids, score in zip(output.sequences.tolist(), scores):
        first = next((place for place, id in enumerate(ids) if place > len(prefix) and id in ends), len(ids) - 1)
        found.append([ids[1 : first + 1], score and float(f"{score:.7g}")])
    return found


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    model = random_model()
    generator = torch.Generator().manual_seed(5)
    sources = [torch.randint(2, 60, (n,), generator=generator).tolist() + [END] for n in SOURCE_LENGTHS]
    teach(model, sources)
    model.final_logits_bias[0, PAD] = -torch.inf
    model.save_pretrained(HERE)
    model = PegasusForConditionalGeneration.from_pretrained(HERE).eval()
    double = PegasusForConditionalGeneration.from_pretrained(HERE).eval().double()
    targets = [[PAD] + torch.randint(2, 60, (n,), generator=generator).tolist() for n in LENGTHS]
    with torch.no_grad():
        logits = [
            model(torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0, -1, 1:].tolist()
            for source, target in zip(sources, targets)]
    lines, left_out = [], 0
    for prefix_length, options in settings():
        prefixes = [target[1 : 1 + prefix_length] for target in targets]
        rows = []
        for source, prefix in zip(sources, prefixes):
            found, exact = [results(one, source, prefix, options) for one in (model, double)]
            is_steady = [row[0] for row in found] == [row[0] for row in exact]
            left_out += not is_steady
            rows.append(found if is_steady else None)
        case = {"options": options, "prefixes": prefixes, "results": rows}
        lines.append("  " + json.dumps(case, separators=(",", ":")))
    short = [[float(f"{value:.6g}") for value in row] for row in logits]
    head = f' "sources": {json.dumps(sources)},\n "targets": {json.dumps(targets)},\n "logits": {json.dumps(short)},\n'
    (HERE / "expected.json").write_text("{\n" + head + ' "cases": [\n' + ",\n".join(lines) + "\n ]\n}\n")
    print(f"{len(lines)} cases of {len(sources)} sources, {left_out} results left out")


if __name__ == "__main__":
    main()
