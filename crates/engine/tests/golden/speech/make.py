"""A random-weight Whisper of Hugging Face's transformers: log-mel frames, logits, cross-attention, and generated tokens with
its rules, language detection, long sounds and times of tokens (speech.json.gz).

    python make.py

Neither sounds nor weights are stored: both are functions of their index, which the tests compute too.
Made with transformers 5.23.0 and torch 2.15.0.
"""

import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import torch
from transformers.utils import logging as reports
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

RATE = 16_000
# Text tokens 0 to 39, end 40, start 41, languages 42 to 44, tasks 45 and 46, previous text 47, no speech 48, no timestamps
# 49, then timestamps 0.00 to 2.00 s.
END, START, NO_TIMESTAMPS, N_TIMESTAMPS = 40, 41, 49, 101
VOCAB = 50 + N_TIMESTAMPS
SECONDS = 2
CONFIG = WhisperConfig(
    vocab_size=VOCAB, num_mel_bins=20, d_model=16, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=24,
    decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=28, max_source_positions=50 * SECONDS,
    max_target_positions=64, pad_token_id=END, bos_token_id=END, eos_token_id=END, decoder_start_token_id=START,
    suppress_tokens=None, begin_suppress_tokens=None, attn_implementation="eager")
GENERATION = dict(
    decoder_start_token_id=START, bos_token_id=END, eos_token_id=END, pad_token_id=END, max_length=64,
    is_multilingual=True, lang_to_id={"<|en|>": 42, "<|de|>": 43, "<|fr|>": 44},
    task_to_id={"transcribe": 46, "translate": 45}, no_timestamps_token_id=NO_TIMESTAMPS, prev_sot_token_id=47,
    max_initial_timestamp_index=50, suppress_tokens=[3, 11, 41, 42, 43, 44, 45, 46, 47, 48],
    begin_suppress_tokens=[7, END], alignment_heads=[[0, 1], [1, 0], [1, 1]])
# Samples of each sound, with the number of a formula.
SOUNDS = [(1, 0), (2, 1), (159, 1), (160, 1), (161, 2), (199, 1), (200, 1), (400, 2), (401, 1), (1_000, 1), (7_777, 2),
          (16_000, 1), (16_000, 0), (16_001, 3), (31_999, 1), (32_000, 2), (32_001, 3), (100_003, 1), (480_000, 2),
          (500_000, 1)]


def sound(samples, kind):
    """0: silence, 1: a rising tone, 2: noise, 3: one impulse and a quiet tone."""
    at = np.arange(samples, dtype=np.int64)
    noise = ((at * 2654435761 + 12345) % 2**32 >> 8).astype(np.float64) / 2**24 - 0.5
    # Triangles, which need no sine: both sides compute the same bits.
    phase = (at * (200 + at // 40)) % 16_000 / 16_000
    triangle = 4 * np.abs(phase - 0.5) - 1
    found = [np.zeros(samples), 0.5 * triangle, 0.8 * noise, 0.001 * triangle + (at == samples // 2)][kind]
    return found.astype(np.float32)


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    values = torch.tensor(values, dtype=torch.float64)
    is_norm = len(shape) == 1 and name.endswith(".weight")
    # Large enough that texts depend on the sound.
    scale = 2.4 if "proj" in name or "fc" in name else 0.8
    return (values * scale + (1 if is_norm else 0)).to(torch.float32).reshape(shape)


def fill(model):
    kept, seen = [], set()
    state = model.state_dict()
    for name, tensor in state.items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            with torch.no_grad():
                tensor.copy_(weight(name, list(tensor.shape)))
            kept.append([name, list(tensor.shape)])
    return kept


def rounded(values, digits=6):
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, dtype=np.float64).flatten().tolist()]


def features():
    """Of each sound some frames: the first, the last, and some between."""
    found = []
    for n_mels, chunk in [(80, 30), (128, 30), (20, SECONDS)]:
        extractor = WhisperFeatureExtractor(feature_size=n_mels, chunk_length=chunk)
        for samples, kind in SOUNDS if n_mels == 80 else SOUNDS[5:12]:
            all_frames = extractor(sound(samples, kind), sampling_rate=RATE, return_tensors="np").input_features[0].T
            last = len(all_frames) - 1
            inside = min(samples // 160, last)
            at = sorted({0, 1, inside // 2, max(inside - 1, 0), inside, min(inside + 2, last), last})
            bands = list(range(0, n_mels, 7))
            found.append(dict(samples=samples, kind=kind, n_mels=n_mels, chunk=chunk, frames=at,
                              values=rounded(all_frames[at][:, bands]), sum=float(all_frames.astype(np.float64).sum())))
    return found


def segments_of(out):
    return [dict(start=float(own["start"]), end=float(own["end"]), ids=own["tokens"].tolist())
            for own in out["segments"][0]]


def main():
    reports.set_verbosity_error()
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(CONFIG).eval()
    tensors = fill(model)
    model.generation_config = GenerationConfig(**GENERATION)
    extractor = WhisperFeatureExtractor(feature_size=20, chunk_length=SECONDS)

    def frames(samples, kind, **options):
        return extractor(sound(samples, kind), sampling_rate=RATE, return_tensors="pt", **options)

    passes = []
    for samples, kind, ids in [(20_000, 2, [START, 42, 46, 49, 1, 2, 3, 30, 12]), (9_000, 1, [START, 43, 45, 50, 9])]:
        with torch.no_grad():
            out = model(frames(samples, kind).input_features, decoder_input_ids=torch.tensor([ids]),
                        output_attentions=True)
        passes.append(dict(samples=samples, kind=kind, ids=ids, logits=rounded(out.logits.numpy()),
                           encoder=rounded(out.encoder_last_hidden_state[0, ::10].numpy()),
                           cross=[rounded(cross[0, :, :, ::9].numpy(), 5) for cross in out.cross_attentions]))

    generated = []
    # A whole window each, since for shorter sounds padding would be read as a part of the sound.
    for samples, kind in [(32_000, 2), (32_000, 1), (32_000, 3), (32_000, 0)]:
        inputs = frames(samples, kind).input_features
        languages = model.detect_language(inputs).tolist()
        for options in [dict(language="en", task="transcribe"), dict(task="transcribe"),
                        dict(language="de", task="translate"), dict(language="en", return_timestamps=True),
                        dict(task="transcribe", return_timestamps=True),
                        dict(language="fr", task="transcribe", num_beams=3)]:
            # Without timestamps, none may be written, as a trained model would not.
            suppressed = [] if options.get("return_timestamps") else list(range(NO_TIMESTAMPS + 1, VOCAB))
            suppressed = GENERATION["suppress_tokens"] + suppressed
            with torch.no_grad():
                out = model.generate(inputs, max_new_tokens=40, suppress_tokens=suppressed, return_segments=True, **options)
            generated.append(dict(samples=samples, kind=kind, options=options, detected=languages[0],
                                  segments=segments_of(out)))

    # Longer than a window: the frames of the whole sound, and windows by timestamps.
    long = []
    for samples, kind in [(112_000, 1), (80_000, 2)]:
        whole = frames(samples, kind, truncation=False, padding="longest", return_attention_mask=True)
        with torch.no_grad():
            out = model.generate(whole.input_features, attention_mask=whole.attention_mask, language="en",
                                 task="transcribe", return_timestamps=True, return_segments=True, max_new_tokens=40)
        long.append(dict(samples=samples, kind=kind, segments=segments_of(out)))

    # Times of tokens by dynamic time warping over matrices.
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter
    times = []
    for heads, tokens, positions in [(1, 3, 9), (3, 5, 40), (2, 12, 30), (4, 1, 20), (2, 4, 3)]:
        values = weight(f"times {tokens}", [1, heads, tokens, positions]) + 1
        weights = values / values.sum(-1, keepdim=True)
        std = torch.std(weights, dim=-2, keepdim=True, unbiased=False)
        normal = torch.nan_to_num((weights - weights.mean(dim=-2, keepdim=True)) / std)
        matrix = _median_filter(normal, 7).mean(dim=1)[0]
        text, time = _dynamic_time_warping(-matrix.double().numpy())
        jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
        times.append(dict(shape=[heads, tokens, positions], weights=rounded(weights.numpy(), 9),
                          starts=time[jumps].tolist()))

    found = dict(config=json.loads(model.config.to_json_string(use_diff=False)), generation=GENERATION, tensors=tensors,
                 features=features(), passes=passes, generated=generated, long=long, times=times)
    text = json.dumps(found, separators=(",", ":"))
    path = Path(__file__).with_name("speech.json.gz")
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(path.stat().st_size)
    for own in generated[:6]:
        print(own["options"], own["segments"][:2])
    for own in long:
        print([(s["start"], s["end"], len(s["ids"])) for s in own["segments"]])


main()
