#!/usr/bin/env python3
"""Sentences with invented names, English to German, to measure copying.

    python names.py make FOLDER                     writes train, valid and test .en and .de
    python names.py score SOURCE REFERENCE OUTPUT   share of names that are right, and of whole sentences

Every name is drawn from 64,000 spellings, so a vocabulary of the 83 most frequent words has none. Some sentences change the
order of their names, some repeat one. A name is right if the output has it where the reference has it.
"""
import random
import sys
from pathlib import Path

NOUNS = [("teacher", "lehrer"), ("doctor", "arzt"), ("farmer", "bauer"), ("baker", "bäcker"), ("painter", "maler")]
THINGS = [("book", "buch"), ("horse", "pferd"), ("house", "haus"), ("picture", "bild"), ("boat", "boot")]
COLOURS = [("red", "rote"), ("green", "grüne"), ("old", "alte"), ("small", "kleine"), ("white", "weiße")]
DAYS = [("yesterday", "gestern"), ("today", "heute"), ("on monday", "am montag"), ("in may", "im mai")]
FRAMES = [
    ("A knows the N .", "A kennt den N ."),
    ("the N from A met B D .", "D traf der N aus A B ."),
    ("A sold the C T to B D .", "D kaufte B das C T von A ."),
    ("D A wrote to B and E .", "A schrieb D an B und E ."),
    ("A , B and E saw the C T in F .", "das C T in F sahen A , B und E ."),
    ("B of A asked the N about E .", "der N wurde von B aus A nach E gefragt ."),
    ("A said that A likes B .", "A sagte , dass A B mag ."),
    ("does the C T belong to A or to B ?", "gehört das C T A oder B ?"),
]
SYLLABLES = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ["", "l", "n", "r"]][:253]


def name(draw):
    return "".join(draw.choice(SYLLABLES) for _ in range(2)).capitalize()


def pair(draw):
    source, target = draw.choice(FRAMES)
    filled = {slot: (own, own) for slot in "ABEF" for own in [name(draw)]}
    filled |= {"N": draw.choice(NOUNS), "T": draw.choice(THINGS), "C": draw.choice(COLOURS), "D": draw.choice(DAYS)}
    return [" ".join(filled[word][side] if word in filled else word for word in frame.split())
            for side, frame in enumerate([source, target])]


def make(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, count) in enumerate([("train", 6000), ("valid", 200), ("test", 500)]):
        draw = random.Random(seed)
        pairs = [pair(draw) for _ in range(count)]
        for side, ending in enumerate(["en", "de"]):
            (folder / f"{part}.{ending}").write_text("".join(own[side] + "\n" for own in pairs), encoding="utf-8")


def score(source, reference, output):
    names = right = whole = 0
    lines = [Path(path).read_text(encoding="utf-8").splitlines() for path in (source, reference, output)]
    for read, expected, found in zip(*lines, strict=True):
        found = found.split()
        own = [(at, word) for at, word in enumerate(expected.split()) if word in read.split() and word[0].isupper()]
        names += len(own)
        right += sum(at < len(found) and found[at] == word for at, word in own)
        whole += found == expected.split()
    print(f"names right: {right} of {names} ({100 * right / names:.1f} %), "
          f"sentences right: {whole} of {len(lines[0])} ({100 * whole / len(lines[0]):.1f} %)")


if __name__ == "__main__":
    {"make": lambda folder: make(Path(folder)), "score": score}[sys.argv[1]](*sys.argv[2:])
