"""Makes the golden files of this folder with the `subword-nmt` package (0.3.8).

    python make.py DATA

DATA holds latin2nqo/ (bpe.code, dict.roman.txt, dict.nqo.txt, golden.greedy.tsv) and the Tatoeba sample
tatoeba/valid.eng-deu.tsv.gz. The ids are those of fairseq's Dictionary, whose few rules are written out below.
"""

import gzip
import io
import json
import pathlib
import shutil
import sys
from collections import Counter

from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

HERE = pathlib.Path(__file__).parent
NASTY = [
    "", " ", "   ", "a", " a", "a ", "  a  b  ", "a\tb", "a\u00a0b c", "ab\x1dc", "tab\t", "\t", "漢字", "🙂🙂", "e\u0301te\u0301",
    "</w>", "a</w>", "a</w> b", "@@", "a@@ b", "aaaaaaa", "the the", "The theatre there", "\r\nthe\r\n", "ߊ߬ߊ߬ߊ߬ ߊ߫",
]


def fairseq(path):
    ids = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    for line in open(path, encoding="utf-8"):
        ids[line.rstrip().rsplit(" ", 1)[0]] = len(ids)
    return ids


def pack(path, answers):
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(json.dumps(answers, ensure_ascii=False).encode())


def latin2nqo(data):
    shutil.copyfile(data / "bpe.code", HERE / "latin2nqo.codes")
    codes = BPE(open(data / "bpe.code", encoding="utf-8"))
    rows = [line.split("\t") for line in open(data / "golden.greedy.tsv", encoding="utf-8")]
    answers = []
    for language, column in (("roman", 0), ("nqo", 1)):
        name = f"dict.{language}.txt"
        shutil.copyfile(data / name, HERE / f"latin2nqo.{name}")
        ids = fairseq(data / name)
        for text in NASTY + [row[column] for row in rows]:
            pieces = codes.segment(text).split()
            joined = (" ".join(p if p in ids else "<unk>" for p in pieces) + " ").replace("@@ ", "").rstrip()
            answers.append({
                "language": language, "text": text, "pieces": pieces, "ids": [ids.get(p, 3) for p in pieces],
                "decoded": joined,
            })
    pack(HERE / "latin2nqo.json.gz", answers)


def version_1(codes):
    """The same merges for version 0.1, where the end of a word is a symbol that must be merged first."""
    pairs = []
    for pair in (line.split() for line in codes.splitlines()[1:]):
        last = pair[1].removesuffix("</w>")
        if last != pair[1] and len(last) == 1 and (last, "</w>") not in pairs:
            pairs.append((last, "</w>"))
        pairs.append(tuple(pair))
    pairs[7:7] = [pairs[40], ("h", "e</w>"), pairs[40]]
    return "".join(f"{left} {right}\n" for left, right in pairs)


def english(data):
    with gzip.open(data / "valid.eng-deu.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        lines = [line.split("\t")[0] for line in file]
    out = io.StringIO()
    learn_bpe(io.StringIO("\n".join(lines[:1500]) + "\n"), out, 400)
    answers = []
    for version, codes in ((2, out.getvalue()), (1, version_1(out.getvalue()))):
        (HERE / f"english-{version}.codes").write_text(codes, encoding="utf-8")
        plain = BPE(io.StringIO(codes))
        counts = Counter(piece for line in lines for piece in plain.segment(line).split(" "))
        vocabulary = "".join(f"{piece} {count}\n" for piece, count in counts.most_common())
        if version == 2:
            (HERE / "english-2.vocabulary").write_text(vocabulary, encoding="utf-8")
        known = read_vocabulary(io.StringIO(vocabulary), 30)
        filtered = BPE(io.StringIO(codes), vocab=known)
        for text in NASTY + lines[1500:1620]:
            answers.append({
                "version": version, "text": text, "plain": plain.segment(text),
                "filtered": filtered.segment(text) if version == 2 else None,
            })
    pack(HERE / "english.json.gz", answers)


def main():
    data = pathlib.Path(sys.argv[1])
    latin2nqo(data / "latin2nqo")
    english(data / "tatoeba")


main()
