"""Decoder-only models with random weights by Polyhead and by transformers: greedy text and beams of many prompts, log-probabilities.

    python bench/generate_equal.py POLYHEAD TEXT FOLDER [PROMPTS]        (pip install torch transformers tokenizers)

TEXT is a file of lines: the tokeniser is trained on it, and prompts are the beginnings of its lines. Writes GPT-2, Llama, Qwen2 and
Mistral folders into FOLDER, continues PROMPTS prompts (default: 200) of different lengths by 24 tokens with each, greedily and with
4 beams, and prints how many have the same tokens, and the largest difference of a text's log-probability. Where tokens differ, the
difference of the two texts' log-probabilities says whether it is a tie.
"""

import json
import subprocess
import sys
import warnings

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
NEW_TOKENS = 24
BEAMS = 4


def make_tokenizer(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>")


def folders(vocab_size):
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    gated = {"vocab_size": vocab_size, "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 6,
             "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15, **ends}
    scaling = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 128}
    yield "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, n_embd=96, n_layer=3, n_head=6, n_positions=512,
                                             initializer_range=0.15, **ends))
    yield "llama", LlamaForCausalLM(LlamaConfig(rope_parameters=scaling, **gated))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **gated))
    yield "mistral", MistralForCausalLM(MistralConfig(sliding_window=16, **gated))


def theirs(model, tokenizer, prompts, beams):
    found = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=beams, length_penalty=1.0,
                                 early_stopping=False, max_new_tokens=NEW_TOKENS, pad_token_id=0)
        found.append(out[0, ids.shape[1]:].tolist())
    return found


def log_probability(model, tokenizer, prompt, new):
    prompt = tokenizer(prompt).input_ids
    with torch.no_grad():
        logits = model(torch.tensor([prompt + new])).logits[0].double().log_softmax(-1)
    return sum(logits[len(prompt) - 1 + at, token].item() for at, token in enumerate(new))


def without_end(ids):
    return ids[: ids.index(0)] if 0 in ids else ids


def main(program, text, folder, count):
    with open(text, encoding="utf-8") as file:
        lines = [line.strip() for line in file if len(line.strip()) > 10]
    tokenizer = make_tokenizer(lines)
    step = len(lines) // count
    prompts = [line[: 5 + index % 90] for index, line in enumerate(lines[::step][:count])]
    torch.manual_seed(1)
    for name, model in folders(len(tokenizer)):
        model.eval()
        path = f"{folder}/{name}"
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        for beams in (1, BEAMS):
            options = ["--temperature", "0"] if beams == 1 else ["--beam", str(beams)]
            arguments = [program, "generate", "--model", path, "--format", "jsonl", "--max-new-tokens", str(NEW_TOKENS), *options]
            out = subprocess.run(arguments, input="".join(p + "\n" for p in prompts), text=True, check=True, capture_output=True)
            ours = [json.loads(line) for line in out.stdout.splitlines()]
            expected = theirs(model, tokenizer, prompts, beams)
            equal, worst, ties = 0, 0.0, []
            for prompt, our, their in zip(prompts, ours, expected, strict=True):
                if without_end(our["ids"]) == without_end(their):
                    equal += 1
                    own = log_probability(model, tokenizer, prompt, our["ids"])
                    worst = max(worst, abs(own - our["log_probability"]))
                else:
                    both = [log_probability(model, tokenizer, prompt, ids) for ids in (our["ids"], their)]
                    ties.append(f"{both[0] - both[1]:.1e}")
            kind = "greedy" if beams == 1 else f"{beams} beams"
            print(f"{name:8} {kind:8} {equal} of {len(prompts)} equal; log-probability at most {worst:.1e} apart; others: {ties}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 200)
