"""`polyhead transcribe` next to transformers: a minute of sound, Whisper-tiny with random weights, 100 tokens in each window of 30 s.

    python bench/speech.py target/release/polyhead FOLDER [ROUNDS]

FOLDER gets the model and the sound. Both compute log-mel frames, encoder and greedy search on two threads; the time of polyhead is that of
the whole process, the loading of the model included, that of transformers begins after loading. Rounds alternate.
"""

import json
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

THREADS, TOKENS, SECONDS, RATE = 2, 100, 60, 16_000


def model_in(folder):
    torch.manual_seed(0)
    ids = dict(pad_token_id=50257, bos_token_id=50257, eos_token_id=50257, decoder_start_token_id=50258)
    model = WhisperForConditionalGeneration(WhisperConfig(**ids, suppress_tokens=None, begin_suppress_tokens=None)).eval()
    model.generation_config = GenerationConfig(
        **ids, is_multilingual=True, lang_to_id={"<|en|>": 50259}, task_to_id={"transcribe": 50359, "translate": 50358},
        no_timestamps_token_id=50363, max_length=448)
    model.save_pretrained(folder)
    vocabulary = {f"Ġ{number}": number for number in range(51865)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=level,
                     post_processor=None, decoder=level,
                     model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                                end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, vocab=vocabulary, merges=[]))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return model


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(THREADS)
    transformers.utils.logging.set_verbosity_error()
    model = model_in(folder)
    time_of = np.arange(SECONDS * RATE) / RATE
    noise = np.random.default_rng(0).normal(size=SECONDS * RATE)
    samples = 0.3 * np.sin(2 * np.pi * (200 + 40 * time_of) * time_of) * (time_of % 1 < 0.7) + 0.02 * noise
    samples = (samples * 32767).astype(np.int16)
    path = folder / "minute.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(RATE), out.writeframes(samples.tobytes())
    command = [program, "transcribe", "-m", str(folder), "--language", "en", "--no-timestamps", "--min-tokens", str(TOKENS),
               "--max-tokens", str(TOKENS), "--threads", str(THREADS), "--format", "json", str(path)]
    extractor = WhisperFeatureExtractor()

    def ours(dtype):
        start = time.perf_counter()
        out = subprocess.run([*command, "--dtype", dtype], check=True, capture_output=True, text=True).stdout
        seconds = time.perf_counter() - start
        return seconds, [segment["tokens"] for segment in json.loads(out)["segments"]]

    def theirs():
        start = time.perf_counter()
        sound, tokens = samples.astype(np.float32) / 32768, []
        for first in range(0, len(sound), 30 * RATE):
            inputs = extractor(sound[first:first + 30 * RATE], sampling_rate=RATE, return_tensors="pt").input_features
            with torch.no_grad():
                ids = model.generate(inputs, language="en", task="transcribe", min_new_tokens=TOKENS, max_new_tokens=TOKENS,
                                     suppress_tokens=list(range(50364, 51865)))
            tokens.append(ids[0].tolist()[-TOKENS:])
        return time.perf_counter() - start, tokens

    found = {"polyhead f32": [], "polyhead int8": [], "transformers f32": []}
    for _ in range(rounds):
        (a, own), (b, _), (c, other) = ours("f32"), ours("int8"), theirs()
        same = [len(x) == TOKENS and x == y for x, y in zip(own, other)]
        for name, seconds in zip(found, (a, b, c)):
            found[name].append(seconds)
        print(f"f32 {a:.2f} s, int8 {b:.2f} s, transformers {c:.2f} s", flush=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {THREADS} threads, {rounds} rounds")
    print(f"same tokens in each window: {same}")
    reference = np.median(found["transformers f32"])
    for name, seconds in found.items():
        print(f"{name:18} median {np.median(seconds):6.2f} s  best {min(seconds):6.2f}  worst {max(seconds):6.2f}  "
              f"speed {reference / np.median(seconds):5.2f} of transformers")


main()
