"""OpenAI's and Hugging Face's own Python clients against `polyhead serve` with models of speech and of images.

    python bench/serve/media_client.py PROGRAM

PROGRAM is `polyhead`. The script saves a Whisper and a ViT with random weights by transformers, starts a server with keys, compares
answers with `polyhead transcribe`, `polyhead classify` and transformers, prints what it did, and exits with 1 if anything differs.
Needs `openai`, `huggingface_hub`, `transformers`, `torch`, `pillow` and `numpy` from PyPI.
"""
import collections
import concurrent.futures
import importlib.metadata
import io
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import wave

import huggingface_hub
import numpy
import openai
import torch
import transformers
from PIL import Image

PROGRAM = sys.argv[1]
WORDS = 200
SMALL = io.BytesIO()
Image.new("RGB", (80, 60), (200, 60, 90)).save(SMALL, "png")
SMALL = SMALL.getvalue()
failed = []


def check(name, is_right, seen=""):
    print(f"{'ok    ' if is_right else 'FAILED'} {name}{': ' + str(seen) if seen != '' else ''}")
    if not is_right:
        failed.append(name)


def refused(name, kind, call, expected):
    try:
        call()
    except kind as error:
        body = error.body or {}
        check(name, expected in body.get("message", ""), f"{error.status_code} {body.get('code')}: {body.get('message')}")
    else:
        check(name, False, "no error")


def save_whisper(folder):
    """A Whisper of windows of 30 s; token i is the word `i`. Languages, tasks and timestamps come last, as in Whisper."""
    end, start, first = WORDS, WORDS + 1, WORDS + 2
    config = transformers.WhisperConfig(
        vocab_size=first + 5 + 1501, num_mel_bins=80, d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_target_positions=64, pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=start,
        begin_suppress_tokens=None, suppress_tokens=None, init_std=0.3,
    )
    torch.manual_seed(1)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=start, eos_token_id=end, pad_token_id=end, bos_token_id=end, max_length=64, is_multilingual=True,
        lang_to_id={"<|en|>": first, "<|de|>": first + 1}, task_to_id={"transcribe": first + 2, "translate": first + 3},
        no_timestamps_token_id=first + 4, begin_suppress_tokens=None,
        suppress_tokens=[start, first, first + 1, first + 2, first + 3, first + 4],
        alignment_heads=[[1, 0], [1, 1]], return_timestamps=False, max_initial_timestamp_index=50,
    )
    model.save_pretrained(folder)
    vocabulary = {f"Ġ{index}": index for index in range(config.vocab_size)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": level,
        "decoder": level, "post_processor": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return model


def save_vit(folder):
    labels = ["cat", "dog", "bird", "fish", "ant", "bee", "owl"]
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, image_size=64, patch_size=8,
        id2label=dict(enumerate(labels)), label2id={label: index for index, label in enumerate(labels)}, initializer_range=0.5,
    )
    torch.manual_seed(2)
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    # The one that Pillow resizes for; the bits of torchvision's differ.
    processor = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 64, "width": 64}, "resample": 2,
                 "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return labels


def vit_scores(folder, image):
    """Probabilities by transformers' model, with the image prepared by Pillow and numpy."""
    model = transformers.ViTForImageClassification.from_pretrained(folder).eval()
    pixels = numpy.asarray(image.resize((64, 64), Image.Resampling.BILINEAR), dtype=numpy.float32) / 255
    with torch.no_grad():
        logits = model(torch.tensor((pixels - 0.5) / 0.5).permute(2, 0, 1)[None]).logits
    return logits.softmax(-1)[0].tolist()


def sound(seconds, rate=16_000, channels=1):
    """A WAV file of a rising tone and some noise."""
    time = numpy.arange(int(seconds * rate)) / rate
    noise = numpy.random.default_rng(3).uniform(-0.1, 0.1, time.shape)
    samples = ((0.5 * numpy.sin(2 * numpy.pi * time * (200 + 40 * time)) + noise) * 32_767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(numpy.repeat(samples, channels).tobytes())
    return file.getvalue(), samples.astype(numpy.float32) / 32_768


def whisper_ids(model, samples):
    """The tokens that transformers writes for a sound of one window."""
    extractor = transformers.WhisperFeatureExtractor(feature_size=80)
    features = extractor(samples, sampling_rate=16_000, return_tensors="pt").input_features
    with torch.no_grad():
        return model.generate(features, language="en", task="transcribe", return_timestamps=True)[0].tolist()


def polyhead(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def transcribed(folder, path, *options):
    return json.loads(polyhead("transcribe", "--quiet", "-m", folder, "--format", "json", *options, path))


def sounds(client, folder, own, temporary):
    (bytes_, samples), path = sound(6.5), temporary / "talk.wav"
    path.write_bytes(bytes_)
    transcriptions = client.audio.transcriptions
    answer = transcriptions.create(model="whisper", file=path)
    expected = transcribed(folder, path, "--words")
    check("transcription, equal to polyhead transcribe", answer.text == expected["text"], f"{answer.text[:50]} …")
    check("usage", (answer.usage.type, answer.usage.seconds) == ("duration", 7), answer.usage)
    answer = transcriptions.create(
        model="whisper", file=("talk.wav", bytes_), response_format="verbose_json", language="en",
        timestamp_granularities=["word", "segment"],
    )
    english = transcribed(folder, path, "--words", "--language", "en")
    words = [(word.word, word.start, word.end) for segment in [answer] for word in segment.words]
    own_words = [(word["word"], word["start"], word["end"]) for segment in english["segments"] for word in segment["words"]]
    check("words with times", words == own_words, words[:3])
    parts = [(part.start, part.end, part.text, part.tokens) for part in answer.segments]
    own_parts = [(part["start"], part["end"], part["text"], part["tokens"]) for part in english["segments"]]
    check("segments", parts == own_parts and answer.language == "english" and answer.duration == 6.5, f"{len(parts)} segments")
    # transformers goes on to read the silence that fills the window.
    ids, found = whisper_ids(own, samples), [token for part in answer.segments for token in part.tokens]
    check("tokens of transformers' generate", ids[: len(found)] == found, f"{len(found)} tokens")
    for kind in ["text", "srt", "vtt"]:
        answer = transcriptions.create(model="whisper", file=path, response_format=kind)
        mine = polyhead("transcribe", "--quiet", "-m", folder, "--format", kind, path)
        check(f"response_format {kind}", answer == mine, repr(answer[:60]))
    answer = transcriptions.create(model="whisper", file=path, temperature=0.8, extra_body={"seed": 5})
    check("temperature and seed", answer.text == transcribed(folder, path, "--temperature", "0.8", "--seed", "5")["text"])
    answer = client.audio.translations.create(model="whisper", file=path)
    check("translations.create", answer.text == transcribed(folder, path, "--translate")["text"], f"{answer.text[:50]} …")
    long, _ = sound(95, rate=22_050, channels=2)
    path = temporary / "long.wav"
    path.write_bytes(long)
    answer = transcriptions.create(model="whisper", file=path)
    check("95 s in stereo at 22,050 Hz", answer.text == transcribed(folder, path)["text"], answer.model_extra.get("notes"))

    refused("wrong key", openai.AuthenticationError, lambda: openai.OpenAI(base_url=client.base_url, api_key="no").audio.transcriptions.create(
        model="whisper", file=path), "unknown API key")
    refused("unknown model", openai.NotFoundError, lambda: transcriptions.create(model="whisper-1", file=path), "no model \"whisper-1\"")
    refused("an image classifier", openai.NotFoundError, lambda: transcriptions.create(model="vit", file=path), "is not a speech recogniser")
    refused("prompt", openai.BadRequestError, lambda: transcriptions.create(model="whisper", file=path, prompt="Names"), "prompt is not supported")
    refused("stream", openai.BadRequestError, lambda: transcriptions.create(model="whisper", file=path, stream=True), "stream is not supported")
    refused("logprobs", openai.BadRequestError, lambda: transcriptions.create(model="whisper", file=path, include=["logprobs"]),
            "include[] is not supported")
    refused("MP3", openai.BadRequestError, lambda: transcriptions.create(model="whisper", file=("a.mp3", b"ID3\3\0\0\0\0")), "an MP3 file, expected WAV")
    refused("more than 25 MiB", openai.APIStatusError, lambda: transcriptions.create(model="whisper", file=("a.wav", bytes(26 << 20))),
            "expected at most 26214400")

    files = [sound(seconds)[0] for seconds in (1, 2, 3, 31)]
    alone = [transcriptions.create(model="whisper", file=("a.wav", file)).text for file in files]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda at: transcriptions.create(model="whisper", file=("a.wav", files[at % 4])).text, range(24)))
    check("12 clients at once: every answer equals the one alone", found == alone * 6, f"{len(found)} requests")


def images(address, key, folder, labels, temporary):
    noise = numpy.random.default_rng(4).integers(0, 256, (50, 80, 3), dtype=numpy.uint8)
    image, path = Image.fromarray(noise).resize((160, 100)), temporary / "noise.png"
    image.save(path)
    for name, url in [("/classify", f"{address}/classify"), ("base URL", f"{address}/")]:
        client = huggingface_hub.InferenceClient(model=url, token=key)
        answer = client.image_classification(path)
        mine = json.loads(polyhead("classify", "--quiet", "-m", folder, "--format", "jsonl", "--image", path))
        own = [(found["label"], found["probability"]) for found in mine["classes"]][:5]
        found = [(element.label, element.score) for element in answer]
        check(f"InferenceClient.image_classification at {name}, equal to polyhead classify", found == own, found[0])
        answer = client.image_classification(path.read_bytes(), top_k=7, function_to_apply="softmax")
        expected = dict(zip(labels, vit_scores(folder, image)))
        difference = max(abs(expected[element.label] - element.score) for element in answer)
        check("all classes, those of transformers", len(answer) == 7 and difference < 1e-5, f"largest difference {difference:.1e}")
    try:
        client.image_classification(path, function_to_apply="sigmoid")
        check("sigmoid", False, "no error")
    except huggingface_hub.errors.HfHubHTTPError as error:
        check("sigmoid is refused", error.response.status_code == 400, error.response.json()["error"])
    client = huggingface_hub.InferenceClient(model=f"{address}/classify", token=key)
    whole = client.image_classification(path)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: client.image_classification(path), range(48)))
    check("12 clients at once", all(answer == whole for answer in found), f"{len(found)} requests")


def memory(whisper, vit):
    """Long sounds and large images of many clients at once, with a memory limit."""
    limit = 700
    command = [PROGRAM, "serve", "--quiet", "--listen", "127.0.0.1:0", "--max-memory", f"{limit}M", "--model", f"whisper={whisper}",
               "--model", f"vit={vit}", "--deadline", "60"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip().rstrip("/")
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=900)
        longest = io.BytesIO()
        with wave.open(longest, "wb") as out:
            out.setnchannels(1)
            out.setsampwidth(1)
            out.setframerate(8_000)
            out.writeframes(numpy.random.default_rng(5).integers(0, 256, 8_000 * 1_200, dtype=numpy.uint8).tobytes())
        large = io.BytesIO()
        Image.new("RGB", (3_600, 3_600), (30, 60, 90)).save(large, "png")

        def ask(at):
            """The status of a long sound, of a large image, or of small ones."""
            try:
                if at % 4 == 0:
                    client.audio.transcriptions.create(model="whisper", file=("long.wav", longest.getvalue()))
                elif at % 4 == 1:
                    client.audio.transcriptions.create(model="whisper", file=("short.wav", sound(40)[0]))
                else:
                    image = large.getvalue() if at % 4 == 2 else SMALL
                    huggingface_hub.InferenceClient(model=f"{address}/classify", timeout=900).image_classification(image)
                return at % 4, 200
            except openai.APIStatusError as error:
                return at % 4, error.status_code
            except huggingface_hub.errors.HfHubHTTPError as error:
                return at % 4, error.response.status_code

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = collections.Counter(pool.map(ask, range(64)))
        peak = next(line for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        peak = int(peak.split()[1]) >> 10
        check(f"16 clients with long sounds and large images, --max-memory {limit}M: at most {limit} MiB",
              peak <= limit and {status for _, status in found} <= {200, 413, 429, 503}, f"{peak} MiB; (kind, status): {dict(found)}")
        answer = client.audio.transcriptions.create(model="whisper", file=("short.wav", sound(2)[0]))
        check("the server goes on", answer.text)
    finally:
        server.terminate()
        server.wait()


def main():
    versions = {name: importlib.metadata.version(name) for name in ["openai", "huggingface_hub", "transformers"]}
    print(", ".join(f"{name} {version}" for name, version in versions.items()) + f", Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        whisper, vit, keys = temporary / "whisper", temporary / "vit", temporary / "keys"
        own, labels = save_whisper(whisper), save_vit(vit)
        key = polyhead("keys", "add", keys, "test").split()[-1]
        command = [PROGRAM, "serve", "--quiet", "--listen", "127.0.0.1:0", "--keys", keys, "--require-key",
                   "--model", f"whisper={whisper}", "--model", f"vit={vit}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = server.stdout.readline().strip().rstrip("/")
            client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0)
            check("models", [model.id for model in client.models.list()] == ["whisper", "vit"])
            sounds(client, whisper, own, temporary)
            images(address, key, vit, labels, temporary)
        finally:
            server.terminate()
            server.wait()
        memory(whisper, vit)
    print(f"{len(failed)} failed")
    sys.exit(bool(failed))


main()
