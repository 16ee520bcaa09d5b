"""Tokenisers of encoders as transformers reads them from files other than tokenizer.json (encoders.json.gz).

    python encoders.py

WordPiece from vocab.txt, byte-level BPE from vocab.json and merges.txt, and XLM-RoBERTa's sentencepiece.bpe.model, which is the
SentencePiece model unigram-nfkc of the folder beside this one. Made with transformers 5.23.0 and
sentencepiece 0.2.3.
"""

import gzip
import json
from pathlib import Path

import sentencepiece
from tokenizers.pre_tokenizers import ByteLevel
from transformers import BertTokenizer, MPNetTokenizer, RobertaTokenizer

HERE = Path(__file__).parent
TEXTS = [
    "The quick brown fox doesn't jump over the lazy dogs.",
    "Unbelievable: naïve façades, Zürich's ÇEKİRDEK & İstanbul!",
    "  spaces\tand \u00a0 tabs\n line breaks ",
    "中文 words 日本語 mixed",
    "[MASK] and [SEP] or <mask> and </s> are text here",
    "e\u0301tude coöperate don't-stop 3.14 1,000 $5",
    "\u200bzero\u200dwidth \x00 \ufffd control\x07",
    "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3,
    "🙂 emoji and ½ ﬁ ligatures",
    "",
    "a",
]
PAIRS = [("how do dogs jump", "The fox."), ("", "over")]


def word_pieces():
    words = ["the", "quick", "brown", "fox", "jump", "over", "lazy", "dog", "##s", "do", "##es", "and", "text", "here",
             "un", "##believ", "##able", "naive", "naïve", "The", "Un", "ci", "##ty", "中", "文", "日", "words", "##n", "'", "t"]
    letters = sorted({char for text in TEXTS for char in text + text.lower() if not char.isspace()})
    # Some letters are left out, so that there are unknown words.
    letters = [char for char in letters if char not in "xz本🙂\x00\x07\ufffd\u200b\u200d"]
    return words + letters + [f"##{char}" for char in letters if char.isalnum()]


def unique(tokens):
    return list(dict.fromkeys(tokens))


def answers(tokenizer):
    def encode(*texts):
        found = tokenizer(*texts, split_special_tokens=True)
        return {"ids": found["input_ids"], "types": list(found.get("token_type_ids", [0] * len(found["input_ids"])))}

    return {"texts": [encode(text)["ids"] for text in TEXTS], "pairs": [encode(*pair) for pair in PAIRS]}


def xlm_roberta():
    """By the definition of fairseq: the ids of sentencepiece plus one, unknown pieces 3."""
    model = gzip.decompress((HERE / "../sentencepiece/unigram-nfkc.model.gz").read_bytes())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)

    def encode(text):
        return [3 if id == pieces.unk_id() else id + 1 for id in pieces.encode(text)]

    # Spellings of special tokens become unknown here, and letters there.
    texts = [None if "<mask>" in text else [0] + encode(text) + [2] for text in TEXTS]
    pairs = [[0] + encode(a) + [2, 2] + encode(b) + [2] for a, b in PAIRS]
    return {"size": len(pieces) + 2, "texts": texts,
            "pairs": [{"ids": pair, "types": [0] * len(pair)} for pair in pairs]}


def main():
    found = {"texts": TEXTS, "pairs": PAIRS}
    bert = unique(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + word_pieces())
    mpnet = unique(["<s>", "<pad>", "</s>", "[UNK]"] + word_pieces() + ["<mask>"])
    found["vocabularies"] = {"bert": bert, "mpnet": mpnet}
    found["wordpiece"] = []
    for name, cls, vocabulary, options in [
        ("bert", BertTokenizer, bert, {}),
        ("bert", BertTokenizer, bert, {"do_lower_case": False}),
        ("bert", BertTokenizer, bert, {"do_lower_case": True, "strip_accents": False}),
        ("bert", BertTokenizer, bert, {"do_lower_case": False, "tokenize_chinese_chars": False}),
        ("mpnet", MPNetTokenizer, mpnet, {}),
    ]:
        tokenizer = cls(vocab={token: id for id, token in enumerate(vocabulary)}, **options)
        found["wordpiece"].append({"vocabulary": name, "options": options, **answers(tokenizer)})
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("o", "r"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("q", "u")]
    tokens = unique(["<s>", "<pad>", "</s>", "<unk>"] + sorted(ByteLevel.alphabet()) + [a + b for a, b in merges] + ["<mask>"])
    vocabulary = {token: id for id, token in enumerate(tokens)}
    byte = RobertaTokenizer(vocab=vocabulary, merges=merges)
    found["byte_level"] = {"vocabulary": vocabulary, "merges": [" ".join(pair) for pair in merges], **answers(byte)}
    found["xlm_roberta"] = xlm_roberta()
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    path = HERE / "encoders.json.gz"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(path.stat().st_size, "bytes")
    for name in ("byte_level", "xlm_roberta"):
        print(name, found[name]["texts"][0], found[name]["pairs"])
    print(found["wordpiece"][0]["texts"][4], found["wordpiece"][0]["pairs"])


main()
