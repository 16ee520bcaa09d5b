"""Tokenisers as GGUF holds them, with the ids of the programs that made them: PyPI tokenizers and sentencepiece.

    python tokenizers.py      writes files/tokenizers.json.gz beside this file
"""

import gzip
import io
import json
import pathlib
import sys

sys.path.pop(0)  # this file has the name of a package that it needs
import sentencepiece
import tokenizers

HERE = pathlib.Path(__file__).parent
CORPUS = (HERE / "files.py").read_text().splitlines() + ["the cat ate the mouse", "a dog saw the cat", "été à Paris", "123 4567 89"] * 20
TEXTS = ["the cat ate the dog", "  two  spaces, été! 12345", "I'm here\n\nnot there", "日本 emoji 🙂", "", " x", "def take(*shape):"]


def byte_level():
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=420, min_frequency=2, special_tokens=["<|endoftext|>"])
    content = json.loads(tokenizer.to_str())
    vocabulary = content["model"]["vocab"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    return {"model": "gpt2", "splitting": "gpt-2", "tokens": sorted(vocabulary, key=vocabulary.get), "scores": [],
            "kinds": [3] + [1] * (len(vocabulary) - 1), "merges": merges, "start": None, "adds_start": False,
            "cases": [[text, tokenizer.encode(text).ids] for text in TEXTS]}


def sentencepiece_bpe():
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=out, vocab_size=420, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    kind = lambda id: 2 if model.is_unknown(id) else 3 if model.is_control(id) else 6 if model.is_byte(id) else 1
    ids = range(model.vocab_size())
    return {"model": "llama", "splitting": "", "tokens": [model.id_to_piece(id) for id in ids],
            "scores": [model.get_score(id) for id in ids], "kinds": [kind(id) for id in ids], "merges": [], "start": 1,
            "adds_start": True, "cases": [[text, model.encode(text)] for text in TEXTS if text]}


if __name__ == "__main__":
    text = json.dumps([byte_level(), sentencepiece_bpe()], separators=(",", ":"))
    (HERE / "files" / "tokenizers.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
