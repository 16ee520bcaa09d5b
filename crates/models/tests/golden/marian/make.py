"""Writes small random Marian models and what the Hugging Face code makes of them.

    python make.py [NAME...]

Made with torch 2.15.0, transformers 5.22.2, safetensors 0.8.0. Every folder holds config.json, generation_config.json,
model.safetensors (or shards), reference.safetensors (see ../record.py) and generate.json.gz: the outputs of
generate() for eight sources, greedy and with beams. Ids begin with the start id and end with the end id, or at max_new_tokens.

greedy: `log_probability` is the sum over the generated ids of log_softmax(logits), before ids are forced or forbidden.
beam: `score` is the sequences_scores of generate(): the sum of log-probabilities / generated length ^ length_penalty,
where a forced id counts 0 and a forbidden id -inf, without renormalising. Results stand best first. `batched` says
whether the eight sources in one padded batch give what each gives alone; where not, it holds what the batch gives.

The weights are random, then taught random targets for a few steps, so that outputs are varied and end at different
steps. A seed is taken only if the results do not hang on rounding: computed in float64, or with weights changed by 1e-5
of their size, all ids are the same.
"""

import gzip
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

MAX_NEW_TOKENS = 20
FURTHER_LENGTHS = [1, 9, 4, 6, 3]
LENGTHS = [4, 25, 7, 11, 2, 25, 15, 18]  # of what the models are taught, without the end id

# Settings of the config by folder, and how the file is stored.
MODELS = {
    "relu": dict(activation_function="relu", scale_embedding=True, d_model=24),
    "gelu": dict(activation_function="gelu", scale_embedding=False),
    "gelu_new": dict(activation_function="gelu_new", scale_embedding=True, tie_word_embeddings=False),
    "quick_gelu": dict(
        activation_function="quick_gelu", scale_embedding=False, share_encoder_decoder_embeddings=False,
        decoder_vocab_size=83, pad_token_id=82, decoder_start_token_id=82,
    ),
    "silu": dict(activation_function="silu", scale_embedding=True, max_shard_size="22KB"),
    "swish": dict(activation_function="swish", scale_embedding=True, dtype=torch.bfloat16),
    "tanh": dict(activation_function="tanh", scale_embedding=False, dtype=torch.float16),
    "sigmoid": dict(activation_function="sigmoid", scale_embedding=True),
    "opus": dict(
        activation_function="swish", scale_embedding=True, d_model=24, forced_eos_token_id=0, bad_words_ids=[[96]],
        copies=True,
    ),
}


def config(settings):
    base = dict(
        vocab_size=97, d_model=12, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
        decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=36, max_position_embeddings=64,
        pad_token_id=96, decoder_start_token_id=96, eos_token_id=0, forced_eos_token_id=None, dropout=0.0,
        attention_dropout=0.0, activation_dropout=0.0,
    )
    other = {"max_shard_size", "dtype", "bad_words_ids", "copies"}
    return MarianConfig(**{**base, **{key: value for key, value in settings.items() if key not in other}})


def generation_config(config, settings):
    return GenerationConfig(
        pad_token_id=config.pad_token_id, eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id, forced_eos_token_id=config.forced_eos_token_id,
        bad_words_ids=settings.get("bad_words_ids"), num_beams=1, do_sample=False, max_length=64,
    )


@torch.no_grad()
def random_model(settings, seed):
    """Weights far from their usual start: biases, gammas and betas that cannot be left out unnoticed."""
    torch.manual_seed(seed)
    model = MarianMTModel(config(settings)).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" in name:
            continue
        if "layer_norm.weight" in name:
            parameter.normal_(1.0, 0.2)
        elif "bias" in name:
            parameter.normal_(0.0, 0.2)
        else:
            parameter.normal_(0.0, 0.25)
    model.final_logits_bias.normal_(0.0, 1.0)
    model.generation_config = generation_config(model.config, settings)
    return model


def teach(model, sources, settings, seed):
    """A few steps towards random targets, so that outputs are varied and sentences end at different steps."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    targets = []
    for length in LENGTHS:
        target = (torch.randint(config.decoder_vocab_size - 2, (length,), generator=generator) + 1).tolist()
        targets.append(target + [config.eos_token_id])
    if settings.get("bad_words_ids"):
        for target in targets[1::3]:
            target[2] = config.pad_token_id  # wanted by the model, forbidden by the setting
    source_ids, source_lengths = record.pad(sources, config.pad_token_id)
    labels, _ = record.pad(targets, -100)
    inputs = model.prepare_decoder_input_ids_from_labels(labels)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(1000):
        logits = model(source_ids, attention_mask=record.mask(source_lengths), decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.2)
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        if plain < 0.7:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def save(model, settings, folder):
    shutil.rmtree(folder, ignore_errors=True)
    if "dtype" in settings:
        model = model.to(settings["dtype"])
    model.save_pretrained(folder, max_shard_size=settings.get("max_shard_size", "5GB"))
    if settings.get("copies"):
        # As in files converted from older ones: positions and every copy of a tied matrix are stored too.
        tensors = load_file(folder / "model.safetensors")
        for stack in ("encoder", "decoder"):
            positions = getattr(model.model, stack).embed_positions.weight
            tensors[f"model.{stack}.embed_positions.weight"] = positions.detach().clone()
            tensors[f"model.{stack}.embed_tokens.weight"] = tensors["model.shared.weight"].clone()
        tensors["lm_head.weight"] = tensors["model.shared.weight"].clone()
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def cut(ids, end_id):
    """The ids up to the end id: what follows is padding."""
    return ids[: ids.index(end_id) + 1] if end_id in ids else ids


def generate(model, sources, **options):
    ids, lengths = record.pad(sources, model.config.pad_token_id)
    with torch.no_grad():
        return model.generate(
            input_ids=ids, attention_mask=record.mask(lengths), max_new_tokens=MAX_NEW_TOKENS, do_sample=False,
            return_dict_in_generate=True, output_scores=True, output_logits=True, **options,
        )


def greedy(model, sources):
    output = generate(model, sources, num_beams=1)
    log_probabilities = torch.stack(output.logits, 1).double().log_softmax(-1)
    found = []
    for row, sequence in enumerate(output.sequences.tolist()):
        ids = cut(sequence, model.config.eos_token_id)
        total = sum(log_probabilities[row, step, id].item() for step, id in enumerate(ids[1:]))
        found.append({"ids": ids, "log_probability": float(f"{total:.8g}")})
    return found


def beam(model, sources, **options):
    output = generate(model, sources, **options)
    n = options["num_return_sequences"]
    rows = [
        {"ids": cut(ids, model.config.eos_token_id), "score": float(f"{score:.8g}")}
        for ids, score in zip(output.sequences.tolist(), output.sequences_scores.tolist())
    ]
    return [rows[i : i + n] for i in range(0, len(rows), n)]


def settings_of_beams():
    for num_beams, num_return_sequences in [(4, 1), (4, 4), (5, 1)]:
        for length_penalty in (1.0, 0.6, 0.0):
            for early_stopping in (False, True):
                yield dict(
                    num_beams=num_beams, num_return_sequences=num_return_sequences, length_penalty=length_penalty,
                    early_stopping=early_stopping,
                )


def only_ids(results):
    if isinstance(results, dict):
        return results["ids"]
    return [only_ids(result) for result in results]


def all_batched(model, sources):
    return [greedy(model, sources)] + [beam(model, sources, **options) for options in settings_of_beams()]


def varied(rows):
    """Some sentences end early, at different steps, and some do not end."""
    lengths = [len(row["ids"]) - 1 for row in rows]
    ended = {n for row, n in zip(rows, lengths) if row["ids"][-1] == 0 and 3 <= n < MAX_NEW_TOKENS}
    open_ = sum(n == MAX_NEW_TOKENS for n in lengths)
    words = [len(set(row["ids"])) for row in rows]
    return len(ended) >= 3 and 1 <= open_ <= 4 and min(lengths) >= 2 and sum(words) >= 40


@torch.no_grad()
def steady(folder, sources, expected):
    """Whether rounding cannot change an id."""
    for seed in range(3):
        model = record.load(folder)
        if seed == 0:
            model = model.double()
        else:
            torch.manual_seed(seed)
            for parameter in model.parameters():
                parameter.mul_(1 + 1e-5 * torch.randn_like(parameter))
        if only_ids(all_batched(model, sources)) != expected:
            return False
    return True


def same(alone, batched):
    """True, or what the batch gives where it is not the same (scores may differ by rounding)."""
    def close(a, b):
        keys = ("score", "log_probability")
        return all(abs(a[key] - b[key]) <= 1e-5 * (1 + abs(a[key])) for key in keys if key in a)

    flat = lambda results: results if isinstance(results[0], dict) else [row for rows in results for row in rows]
    equal = only_ids(alone) == only_ids(batched) and all(close(a, b) for a, b in zip(flat(alone), flat(batched)))
    return "same" if equal else batched


def write_reference(name, folder, sources, targets):
    """What every layer gives: of three texts, for all but one model of the beginnings of two, since files are to be small."""
    if name != "relu":
        sources, targets = [sources[0][:4], sources[1][:2]], [targets[0][:3], targets[1][:2]]
    save_file(record.record(folder, sources[:3], targets), folder / "reference.safetensors")


def write_generate(folder, model, sources):
    generation = model.generation_config
    file = {
        "transformers": transformers.__version__,
        "max_new_tokens": MAX_NEW_TOKENS,
        "forced_eos_token_id": generation.forced_eos_token_id,
        "bad_words_ids": generation.bad_words_ids,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in file.items()]
    lines.append(' "sources": [\n' + ",\n".join(f"  {json.dumps(ids)}" for ids in sources) + "\n ]")
    alone = [greedy(model, [source])[0] for source in sources]
    lines.append(' "greedy": ' + case({}, alone, same(alone, greedy(model, sources)), " "))
    cases = []
    for options in settings_of_beams():
        alone = [beam(model, [source], **options)[0] for source in sources]
        cases.append("  " + case(options, alone, same(alone, beam(model, sources, **options)), "  "))
    lines.append(' "beam": [\n' + ",\n".join(cases) + "\n ]")
    write_packed(folder / "generate.json.gz", "{\n" + ",\n".join(lines) + "\n}\n")


def write_packed(path, text):
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def case(options, alone, batched, indent):
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in options.items())
    rows = ",\n".join(f"{indent} {json.dumps(row)}" for row in alone)
    return f'{{{head}"results": [\n{rows}\n{indent}], "batched": {json.dumps(batched)}}}'


def make(name, settings):
    folder = HERE / name
    start = 100 * list(MODELS).index(name)
    for seed in range(start, start + 100):
        model = random_model(settings, seed)
        sources, targets = record.draw(model.config, seed)
        sources += record.draw(model.config, seed + 50000, FURTHER_LENGTHS, [])[0]
        teach(model, sources, settings, seed + 100000)
        save(model, settings, folder)
        model = record.load(folder)
        if varied(greedy(model, sources)) and steady(folder, sources, only_ids(all_batched(model, sources))):
            break
    else:
        sys.exit(f"{name}: no seed gives varied and steady outputs")
    write_reference(name, folder, sources, targets)
    write_generate(folder, model, sources)
    print(f"{name}: seed {seed}, lengths", [len(row["ids"]) - 1 for row in greedy(model, sources)])


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or MODELS:
        make(name, MODELS[name])
