"""Sentences spoken by espeak-ng, as WAV files with a list for training: several voices, speeds and pitches.

    apt-get install espeak-ng
    python synthesise.py SENTENCES.txt OUT --count 20000 --seed 1

SENTENCES.txt has a sentence on each line. The first 500 sentences of at most 12 words are for testing, the next 500 for
validation, the others for training; the texts are in lower case, without punctuation. Voices of the test set are in the training
set too. OUT gets train.tsv, valid.tsv, test.tsv and the folder wav/. The same sentences and seed give the same files.
"""

import argparse
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VOICES = ["en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd"]
VARIANTS = ["", "+m1", "+m3", "+m5", "+m7", "+f1", "+f2", "+f3", "+f4", "+f5"]


def plain(sentence):
    return " ".join(re.sub(r"[^a-z' ]", " ", sentence.lower().replace("’", "'")).split())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sentences", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts, seen = [], set()
    for line in options.sentences.read_text(encoding="utf-8").splitlines():
        text = plain(line)
        # Digits are read as words, which the text does not have.
        if 3 <= len(text.split()) <= 12 and not re.search(r"\d", line) and text not in seen:
            seen.add(text)
            texts.append(text)
    chance = random.Random(options.seed)
    chance.shuffle(texts)
    texts = texts[:options.count]
    folder = options.out / "wav"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = []
    for number, text in enumerate(texts):
        voice = chance.choice(VOICES) + chance.choice(VARIANTS)
        speed, pitch = chance.randint(130, 200), chance.randint(30, 70)
        path = folder / f"{number:06}.wav"
        jobs.append((["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path), text], path, text))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda job: subprocess.run(job[0], check=True), jobs))
    parts = {"test": jobs[:500], "valid": jobs[500:1000], "train": jobs[1000:]}
    for name, part in parts.items():
        lines = [f"wav/{path.name}\t{text}\n" for _, path, text in part]
        (options.out / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        print(name, len(lines))


main()
