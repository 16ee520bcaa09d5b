"""Random decoder-only models by Hugging Face's transformers: folders, logits, greedy and beam output.

    python make.py [NAME …]            writes the folders beside this file
    python make.py --many DIR N        the same models in f32 and N prompts each, into DIR (see compare.py)

Needs torch and transformers 5. Weights are random and large, so that outputs vary; prompts whose output would change with
rounding are left out.
"""

import gzip
import json
import pathlib
import shutil
import sys

import torch
import transformers
from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen2Config

HERE = pathlib.Path(__file__).parent
VOCABULARY = 96
NEW_TOKENS = 20
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}
GATED = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 44,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# Config, dtype and size of a shard.
MODELS = {
    "gpt2": (
        GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=48,
                   bos_token_id=2, eos_token_id=2),
        torch.float32,
        "5GB",
    ),
    "llama": (LlamaConfig(**GATED, num_key_value_heads=2, rope_parameters=LLAMA3), torch.bfloat16, "20KB"),
    "qwen2": (
        Qwen2Config(**GATED, num_key_value_heads=2, tie_word_embeddings=True, rope_parameters=YARN),
        torch.float16,
        "5GB",
    ),
    "mistral": (
        MistralConfig(**GATED, num_key_value_heads=1, head_dim=6, sliding_window=7,
                      rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}),
        torch.bfloat16,
        "5GB",
    ),
}


def random_model(config, dtype, seed):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "ln_" in name:
                centre = 0.0 if name.endswith("bias") else 1.0
                parameter.copy_(centre + 0.2 * torch.randn_like(parameter))
            elif parameter.dim() == 1:
                parameter.copy_(0.2 * torch.randn_like(parameter))
            else:
                width = 0.35 if "embed" in name or "wte" in name or "lm_head" in name else 0.3
                parameter.copy_(width * torch.randn_like(parameter))
    return model.to(dtype)


def prompts(seed, count):
    generator = torch.Generator().manual_seed(seed)
    for index in range(count):
        length = 1 + (7 * index) % 23
        yield torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()


@torch.no_grad()
def search(model, prompt, **options):
    """New ids and, with beams, the score."""
    ids = torch.tensor([prompt])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
                           pad_token_id=0, return_dict_in_generate=True, output_scores=True, **options)
    rows = found.sequences[:, len(prompt):].tolist()
    rows = [row[: row.index(2) + 1] if 2 in row else row for row in rows]
    scores = found.sequences_scores.tolist() if "num_beams" in options else [None] * len(rows)
    return [{"ids": row, "score": score} for row, score in zip(rows, scores)]


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def steady(folder, prompt, options, expected):
    """Whether rounding cannot change an id."""
    for seed in range(2):
        model = load(folder)
        if seed == 0:
            model = model.double()
        else:
            torch.manual_seed(seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1 + 1e-5 * torch.randn_like(parameter))
        if [row["ids"] for row in search(model, prompt, **options)] != [row["ids"] for row in expected]:
            return False
    return True


BEAMS = [{"num_beams": 4, "num_return_sequences": 3, "length_penalty": 1.0, "early_stopping": False},
         {"num_beams": 3, "num_return_sequences": 1, "length_penalty": 0.6, "early_stopping": True}]


def cases(folder, n_prompts, seed, checks=True):
    model = load(folder)
    result = {"greedy": [], "beam": [{**options, "results": []} for options in BEAMS]}
    for prompt in prompts(seed, n_prompts):
        found = search(model, prompt)
        if not checks or steady(folder, prompt, {}, found):
            result["greedy"].append({"prompt": prompt, "ids": found[0]["ids"]})
        for options, case in zip(BEAMS, result["beam"]):
            found = search(model, prompt, **options)
            if not checks or steady(folder, prompt, options, found):
                case["results"].append({"prompt": prompt, "found": found})
    return result


@torch.no_grad()
def record(folder, name, seed):
    model = load(folder)
    text = next(iter([row for row in prompts(seed + 7, 20) if len(row) == 22]))
    logits = model(torch.tensor([text])).logits[0]
    result = {"transformers": transformers.__version__, "new_tokens": NEW_TOKENS, "text": text}
    result["logits"] = [[float(f"{x:.6g}") for x in row] for row in logits.tolist()]
    result |= cases(folder, 12, seed)
    text = json.dumps(result, separators=(",", ":"))
    (folder / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    print(name, "greedy", len(result["greedy"]), "beams", [len(case["results"]) for case in result["beam"]],
          "different", len({tuple(row["ids"]) for row in result["greedy"]}),
          "ended", sum(2 in row["ids"] for row in result["greedy"]))


def make(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    config, dtype, shard = MODELS[name]
    seed = 11 + list(MODELS).index(name)
    random_model(config, dtype, seed).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    record(folder, name, seed)


def many(target, count):
    for name, (config, _, _) in MODELS.items():
        folder = target / name
        random_model(config, torch.float32, 100 + list(MODELS).index(name)).save_pretrained(folder)
        (folder / "generate.json").write_text(json.dumps(cases(folder, count, 5, checks=False)))
        print(name, count)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if sys.argv[1:2] == ["--many"]:
        many(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        for name in sys.argv[1:] or MODELS:
            make(name)
