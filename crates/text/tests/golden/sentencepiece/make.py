"""Makes the golden files of this folder with the `sentencepiece` package (0.2.2).

    python make.py DATA

DATA holds the Tatoeba sample: tatoeba/valid.eng-{deu,fra,tur}.tsv.gz. Each model is trained on 1,200 of its sentences;
the answers are pieces, ids, spans in bytes, the decoded text and the normalised text.
"""

import gzip
import io
import json
import pathlib
import random
import sys

import sentencepiece as spm

HERE = pathlib.Path(__file__).parent
SYMBOLS = ["<sym>", "[SEP]", "▁of▁", "sun", "漢字", "s"]
VARIANTS = {
    "unigram": dict(model_type="unigram"),
    "unigram-nfkc": dict(model_type="unigram", normalization_rule_name="nmt_nfkc", user_defined_symbols=SYMBOLS, pad_id=3),
    "unigram-bytes": dict(model_type="unigram", byte_fallback=True),
    "unigram-suffix": dict(model_type="unigram", treat_whitespace_as_suffix=True),
    "unigram-symbols": dict(model_type="unigram", user_defined_symbols=SYMBOLS, unk_surface="?"),
    "bpe": dict(model_type="bpe"),
    "bpe-nfkc-cf": dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", byte_fallback=True),
    "bpe-bytes": dict(model_type="bpe", byte_fallback=True, control_symbols=["<mask>"]),
    "bpe-symbols": dict(model_type="bpe", user_defined_symbols=SYMBOLS, remove_extra_whitespaces=False),
    "bpe-no-dummy": dict(model_type="bpe", add_dummy_prefix=False),
    "bpe-as-is": dict(model_type="bpe", add_dummy_prefix=False, remove_extra_whitespaces=False, byte_fallback=True),
    "char": dict(model_type="char", vocab_size=90, user_defined_symbols=SYMBOLS),
    "word": dict(model_type="word"),
}
NASTY = [
    "", " ", "   ", "\t", "\n", " \t ", "▁", "▁▁", " ▁ ", "a", " a", "a ", "  a  b  ", "a\tb", "a\nb", "a  b   c",
    "a▁b", "▁a▁", "ﬁ ﬂ ﬀ", "kﬀﬂi", "ＡＢＣ　ａｂｃ", "ｶﾞｷﾞ", "①②½™…", "ﷺ", "ŉǅ", "e\u0301 e\u0308u\u0308", "\u0301",
    "a\u0327\u0301", "İstanbul ISTANBUL ı", "Straße STRASSE", "🙂", "👍🏽 👨‍👩‍👧", "漢字", "漢字かな交じり文", "한국어 각", "русский",
    "\u00a0a\u00a0b\u00a0", "\u200b\u200d\ufeff", "\x00", "a\x00b", "\x01\x07\x1b\x7f", "\u0085\u2028\u2029", "\ufffd",
    "\U0010ffff", "𝔘𝟙", "<unk>", "<s> </s>", "<0x41>", "<pad><mask>", "⁇", " ⁇ ", "<sym>", "<sym><sym>", "a<sym>b",
    "<sym> [SEP]", "[SEP][SEP", "sunsun", "the sun of the sun", "cup of of tea", " of ", "sss", "漢字漢", "xyzxyz",
    "aaaaaaaaaaaaaaaa", "Tom's \"books\" – «livres»", "1 000 000", "!!!???...", "ß" * 30,
]


def sentences(data):
    lines = []
    for pair in ("eng-deu", "eng-fra", "eng-tur"):
        with gzip.open(data / "tatoeba" / f"valid.{pair}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                lines += line.rstrip("\n").split("\t")[:2]
    return lines


def case(model, text):
    found = model.encode(text.encode(), return_type="offset_mapping", return_bytes=True)
    return {
        "text": text,
        "ids": found["ids"],
        "pieces": [piece.decode() for piece in found["pieces"]],
        "offsets": found["offsets"],
        "decoded": model.decode(found["ids"]),
        "normalized": model.normalize(text),
    }


def sequences(model, draw):
    """Ids that no text gives: control pieces, lone bytes, unknown pieces, spaces in odd places."""
    size = model.get_piece_size()
    rows = [[draw.randrange(size) for _ in range(draw.randint(0, 9))] for _ in range(40)]
    low = min(size, 280)
    rows += [[draw.randrange(low) for _ in range(draw.randint(1, 9))] for _ in range(60)]
    if model.piece_to_id("<0xE2>") != model.unk_id():
        for text in ("é", "漢", "🙂", "\ufffd"):
            ids = [model.piece_to_id(f"<0x{byte:02X}>") for byte in text.encode()]
            rows += [ids, ids[:-1], ids[1:], ids + ids[:1] + ids, ids[:1] * 3]
    return [{"ids": row, "decoded": model.decode(row)} for row in rows]


def pack(path, data):
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)


def main():
    lines = sentences(pathlib.Path(sys.argv[1]))
    train, test = lines[::10], lines[5::119][:100]
    for name, options in VARIANTS.items():
        options = dict(vocab_size=600, normalization_rule_name="identity") | options
        writer = io.BytesIO()
        # From memory, so that no path gets into the model.
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(train), model_writer=writer, num_threads=1, minloglevel=2, **options
        )
        data = writer.getvalue()
        model = spm.SentencePieceProcessor(model_proto=data)
        draw = random.Random(name)
        answers = {
            "vocab_size": model.get_piece_size(),
            "special": [model.unk_id(), model.bos_id(), model.eos_id(), model.pad_id()],
            "cases": [case(model, text) for text in NASTY + test],
            "sequences": sequences(model, draw),
        }
        pack(HERE / f"{name}.model.gz", data)
        pack(HERE / f"{name}.json.gz", json.dumps(answers, ensure_ascii=False).encode())


main()
