"""Makes python.json.gz: what Python's `tokenizers` does with tokenisers that polyhead trains from sentences.txt.

    python make.py PATH_TO_POLYHEAD        (pip install tokenizers)

For every kind: the ids that Python gives with the file that polyhead wrote, with and without special tokens, its byte
offsets, and the decoded text. For BPE also the merges that Python's own trainer learns from the same text.
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import Tokenizer, models, trainers

HERE = pathlib.Path(__file__).parent
NASTY = [
    "", " ", "  a  b ", "▁x ▁", "ﬁ Ａ１", "e\u0301 ¨", "a\u00a0b\u2003c", "🙂 ok", "don’t—stop", "<0x41> ok",
    "ΑΣ İI ß", "\u3000漢字かな", "x\ty", "l'été, déjà!", "Çok güzel; ığdır.", "1,234.5 %", "a\u2028b\u0085c", "\u0000",
]
KINDS = {
    "bpe": ["--kind", "bpe", "--vocab-size", "500"],
    "bpe-bytes": ["--kind", "bpe", "--vocab-size", "700", "--unknown", "bytes"],
    "unigram": ["--kind", "unigram", "--vocab-size", "500"],
    "unigram-bytes": ["--kind", "unigram", "--vocab-size", "700", "--unknown", "bytes", "--lowercase"],
    "wordpiece": ["--kind", "wordpiece", "--vocab-size", "500"],
    "word": ["--kind", "word", "--vocab-size", "300", "--split", "punctuation"],
    "char-bytes": ["--kind", "char", "--unknown", "bytes", "--normalize", "nfc"],
}


def train(polyhead, kind, folder):
    path = f"{folder}/{kind}.json"
    command = [polyhead, "tokenizer", "train", "--input", str(HERE / "sentences.txt"), "--out", path]
    subprocess.run(command + KINDS[kind] + ["--min-frequency", "1", "--character-coverage", "1"], check=True)
    return Tokenizer.from_file(path)


def byte_offsets(text, offsets):
    starts = [len(text[:i].encode()) for i in range(len(text) + 1)]
    return [[starts[a], starts[b]] for a, b in offsets]


def main(polyhead):
    lines = (HERE / "sentences.txt").read_text(encoding="utf8").split("\n")[:-1]
    texts = NASTY + lines[::11]
    golden = {"version": f"tokenizers {tokenizers.__version__}", "texts": texts, "kinds": {}}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            tokenizer = train(polyhead, kind, folder)
            tokenizer.encode_special_tokens = True
            plain = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            golden["kinds"][kind] = {
                "ids": [encoding.ids for encoding in plain],
                "with_special": [tokenizer.encode(text).ids for text in texts],
                "offsets": [byte_offsets(text, encoding.offsets) for text, encoding in zip(texts, plain)],
                "decoded": [tokenizer.decode(encoding.ids) for encoding in plain],
            }
            if kind == "bpe":
                own = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
                own.normalizer, own.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
                special = ["<pad>", "<s>", "</s>", "<unk>"]
                own.train([str(HERE / "sentences.txt")], trainers.BpeTrainer(
                    vocab_size=500, min_frequency=1, special_tokens=special, show_progress=False))
                golden["merges"] = json.loads(own.to_str())["model"]["merges"]
    text = json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n"
    (HERE / "python.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


main(sys.argv[1])
