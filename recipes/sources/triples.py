"""Triples of German, French and English sentences, from pairs with English.

    python3 recipes/sources/triples.py EN-DE[,EN-DE...] EN-FR[,EN-FR...] OUT [EXCLUDED.tsv ...]

Pairs are TSV files (English first), plain, .gz or .xz. They are joined on the English sentence, one triple for each; a German or
French sentence occurs once. 1,000 triples each are taken for validation and test by the hash of their English sentence. What is
left is for training, without any triple that shares a sentence of any language (lower-cased) with these, or has an English
sentence of EXCLUDED. OUT/{train,valid,test}.tsv have the columns German, French, English.
"""

import gzip
import hashlib
import lzma
import sys
from pathlib import Path

LONGEST = 14  # words of a sentence: small models learn short sentences in minutes
HELD_OUT = 1000


def lines(paths):
    for path in paths:
        opened = {".gz": gzip.open, ".xz": lzma.open}.get(Path(path).suffix, open)
        with opened(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n").split("\t")


def pairs(paths):
    """The first translation of each English sentence."""
    found = {}
    for english, other, *_ in lines(paths):
        english, other = " ".join(english.split()), " ".join(other.split())
        if 2 <= len(english.split()) <= LONGEST and len(other.split()) <= LONGEST + 2 and other:
            found.setdefault(english, other)
    return found


def main():
    german, french, out, *excluded = sys.argv[1:]
    german, french = pairs(german.split(",")), pairs(french.split(","))
    excluded = {row[0].lower() for row in lines(excluded)}
    seen, triples = [set(), set(), set()], []
    for english in sorted(german.keys() & french.keys(), key=lambda text: hashlib.sha256(text.encode()).digest()):
        triple = (german[english], french[english], english)
        keys = [text.lower() for text in triple]
        if keys[2] in excluded or any(key in known for key, known in zip(keys, seen)):
            continue
        for key, known in zip(keys, seen):
            known.add(key)
        triples.append(triple)
    parts = {"test": triples[:HELD_OUT], "valid": triples[HELD_OUT : 2 * HELD_OUT], "train": triples[2 * HELD_OUT :]}
    Path(out).mkdir(parents=True, exist_ok=True)
    for name, rows in parts.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        Path(out, f"{name}.tsv").write_text(text, encoding="utf-8")
        words = [sum(len(row[side].split()) for row in rows) for side in range(3)]
        print(f"{name}: {len(rows)} triples; words: German {words[0]}, French {words[1]}, English {words[2]}")


main()
