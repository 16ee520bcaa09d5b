"""Compares `polyhead translate` with transformers' generate() under random generation settings and prefixes.

    python bench/generation_settings.py POLYHEAD FOLDER TEXT [RUNS [PART/PARTS]]

FOLDER is a Pegasus folder with tags of target languages (`polyhead export models/default -o FOLDER --layout pegasus
--dtype f32`), TEXT a file of English sentences, plain or gzipped. Each of RUNS (default: 64) runs draws settings, writes
them to generation_config.json, and translates 20 sentences with both programs, half of the runs with a prefix. Of every
sentence all returned hypotheses are compared. A difference is a tie if the hypotheses at that rank have scores that
differ by less than 1e-5. PART/PARTS, such as 0/4, does every fourth run, so that processes can share them.
"""

import gzip
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoTokenizer, PegasusForConditionalGeneration

SENTENCES = 20
TIE = 1e-5
PREFIXES = {
    "de": ["Ich", "Das ist", "Wir haben", "Er sagte, dass"], "fr": ["Je", "C'est", "Nous avons", "Il a"],
    "tr": ["Ben", "Bu", "Onlar", "Tom bana"],
}
TAGS = {"de": ">>deu<<", "fr": ">>fra<<", "tr": ">>tur<<"}


def draw(rng, seen, following, own):
    """Settings over the folder's `own`; ids are tokens that plain outputs have, so that the keys act."""
    some = lambda n: rng.sample(seen, n)
    keys = {
        "max_new_tokens": lambda: rng.randint(4, 12),
        "min_new_tokens": lambda: rng.randint(4, 12),
        "suppress_tokens": lambda: some(6),
        "begin_suppress_tokens": lambda: some(12),
        "sequence_bias": lambda: [[[id], round(rng.uniform(-4, 3), 2)] for id in some(4)]
        + [[pair, round(rng.uniform(-5, 4), 2)] for pair in rng.sample(following, 6)],
        "exponential_decay_length_penalty": lambda: [rng.randint(0, 5), round(rng.uniform(0.9, 1.3), 2)],
        "eos_token_id": lambda: [own["eos_token_id"]] + some(rng.randint(1, 3)),
        "renormalize_logits": lambda: True,
        "forced_bos_token_id": lambda: some(1)[0],
        "forced_eos_token_id": lambda: rng.choice([own["eos_token_id"], some(1)]),
        "repetition_penalty": lambda: round(rng.uniform(0.8, 1.5), 2),
        "no_repeat_ngram_size": lambda: rng.randint(1, 3),
        "bad_words_ids": lambda: own["bad_words_ids"] + [[id] for id in some(3)] + rng.sample(following, 4),
        "min_length": lambda: rng.randint(4, 14),
    }
    chosen = {key: keys[key]() for key in sorted(rng.sample(sorted(keys), rng.randint(1, 4)))}
    if not {"max_new_tokens", "forced_eos_token_id"}.isdisjoint(chosen):
        chosen.setdefault("max_new_tokens", rng.randint(5, 12))
    forbidden = chosen.get("suppress_tokens", [])
    if chosen.get("forced_bos_token_id") in forbidden or set(forbidden) & set(ids(chosen.get("forced_eos_token_id"))):
        del chosen["suppress_tokens"]
    if "min_new_tokens" in chosen or "min_length" in chosen:
        # transformers adds infinity to minus infinity where the end is forbidden, which gives NaN.
        chosen.pop("exponential_decay_length_penalty", None)
    chosen["num_beams"] = rng.choice([1, 2, 3, 4, 5, 6])
    if chosen["num_beams"] > 1:
        chosen["length_penalty"] = rng.choice([0.0, 0.6, 1.0, 1.0, 1.5])
        chosen["early_stopping"] = rng.choice([False, True, "never"])
    return chosen


def ids(value):
    return value if isinstance(value, list) else [] if value is None else [value]


def polyhead(program, folder, language, prefix, n_best, lines, more=()):
    command = [program, "translate", "--model", folder, "--raw", "--from", "en", "--to", language, "--format", "jsonl",
               "--n-best", str(n_best), "--shortlist", "none", "--quiet"] + (["--prefix", prefix] if prefix else []) + [*more]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [[(row["text"], row["score"]) for row in (one.get("n_best") or [one])] for one in found]


@torch.no_grad()
def generate(model, tokenizer, language, prefix, n_best, lines, settings, own):
    tag = tokenizer.convert_tokens_to_ids(TAGS[language])
    sources = [torch.tensor([tag] + tokenizer(line).input_ids) for line in lines]
    source = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=own["pad_token_id"])
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(ids) for ids in sources], batch_first=True)
    begin = [own["decoder_start_token_id"]] + tokenizer(prefix, add_special_tokens=False).input_ids
    options = {key: value for key, value in {**own, **settings}.items() if key != "unsure_below"}
    # The model's own settings, so that none of the folder's are merged into them.
    model.generation_config = transformers.GenerationConfig(**options)
    output = model.generate(
        input_ids=source, attention_mask=mask, decoder_input_ids=torch.tensor([begin] * len(lines)), do_sample=False,
        num_return_sequences=n_best, return_dict_in_generate=True, output_scores=True)
    scores = output.sequences_scores.tolist() if settings["num_beams"] > 1 else [None] * len(lines)
    ends, rows = ids(options["eos_token_id"]), []
    for sequence, score in zip(output.sequences.tolist(), scores):
        new = sequence[len(begin):]
        # What follows an end token is padding; end tokens themselves are not written.
        new = new[: next((place for place, id in enumerate(new) if id in ends), len(new))]
        text = tokenizer.decode(begin[1:] + new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        rows.append((text, score, begin[1:] + new))
    return [rows[at : at + n_best] for at in range(0, len(rows), n_best)]


def main():
    program, folder, path = sys.argv[1:4]
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 64
    part, parts = map(int, sys.argv[5].split("/")) if len(sys.argv) > 5 else (0, 1)
    transformers.logging.set_verbosity_error()
    model, tokenizer = PegasusForConditionalGeneration.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    own = json.loads((pathlib.Path(folder) / "generation_config.json").read_text())
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        lines = [line.split("\t")[0].strip() for line in file]
    lines = [line for line in lines if 3 <= len(line.split()) <= 12]
    rng = random.Random(21)
    rng.shuffle(lines)
    plain = {}
    for language in TAGS:
        found = generate(model, tokenizer, language, "", 1, lines[:SENTENCES], {"num_beams": 4}, own)
        plain[language] = [row[0][2] for row in found]
    counts = dict.fromkeys(["sentences", "hypotheses", "with prefix", "by beam search", "equal", "ties", "different"], 0)
    keys, worst, changed = {}, 0.0, 0
    with tempfile.TemporaryDirectory() as temporary:
        copy = pathlib.Path(temporary) / "model"
        shutil.copytree(folder, copy)
        for run in range(runs):
            language = rng.choice(sorted(TAGS))
            prefix = rng.choice(PREFIXES[language]) if run % 2 else ""
            seen = sorted({id for ids in plain[language] for id in ids})
            following = [ids[at : at + 2] for ids in plain[language] for at in range(len(ids) - 1)]
            settings = draw(rng, seen, following, own)
            # The sentences whose plain outputs gave the ids, so that they occur.
            some = lines[:SENTENCES]
            n_best = rng.randint(1, settings["num_beams"])
            if run % parts != part:
                continue
            (copy / "generation_config.json").write_text(json.dumps({**own, **settings}))
            ours = polyhead(program, str(copy), language, prefix, n_best, some)
            theirs = generate(model, tokenizer, language, prefix, n_best, some, settings, own)
            for key in settings:
                keys[key] = keys.get(key, 0) + SENTENCES
            for line, found, expected, before in zip(some, ours, theirs, plain[language]):
                counts["sentences"] += 1
                counts["with prefix"] += bool(prefix)
                counts["by beam search"] += settings["num_beams"] > 1
                changed += expected[0][2] != before
                for (text, score), (other, other_score, _) in zip(found, expected, strict=True):
                    counts["hypotheses"] += 1
                    gap = 0.0 if other_score is None else abs(score - other_score)
                    if text == other and gap < TIE * max(1, abs(score)):
                        counts["equal"] += 1
                        worst = max(worst, gap)
                    elif text != other and other_score is not None and gap < TIE:
                        counts["ties"] += 1
                    else:
                        counts["different"] += 1
                        print(json.dumps(settings), repr(prefix), line, (text, score), (other, other_score), sep="\n  ")
            print(f"run {run + 1}: {language} {prefix!r} {json.dumps(settings)}", file=sys.stderr, flush=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    print(", ".join(f"{key} {value}" for key, value in counts.items()))
    print(f"outputs that differ from those without settings: {changed}; largest difference of equal texts' scores: {worst:.2g}")
    print("sentences by key: " + ", ".join(f"{key} {value}" for key, value in sorted(keys.items())))
    sys.exit(counts["different"] > 0)


if __name__ == "__main__":
    main()
