"""What transformers and sentence-transformers compute from texts with small encoders (encoders.json.gz).

    python encoders.py

Weights are those of crates/models/tests/golden/encoders/make.py: a function of a tensor's name. Made with transformers 5.23.0,
sentence-transformers and torch 2.15.0.
"""

import gzip
import json
import tempfile
import zlib
from pathlib import Path

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer, models
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, BertForTokenClassification, BertModel,
                          BertTokenizerFast, pipeline)

transformers.logging.set_verbosity_error()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada", "##m", "lives", "in", "lon", "##don", "the", "bank", "of",
              "a", "river", "and", ",", ".", "x", "##x", "dog", "barks", "cat"]
TEXTS = ["Ada lives in London.", "the bank of a river", "a dog barks, and a cat", "", "adamxx in the BANK of London",
         "zebra the dog . . a a a a a a"]
LONG = "a dog " * 40
MASKED = ["the [MASK] of a river", "a dog [MASK], and a [MASK]"]
LABELS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
CONFIG = dict(vocab_size=24, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
              max_position_embeddings=24)


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    values = torch.tensor(values, dtype=torch.float64)
    is_norm = len(shape) == 1 and name.endswith(".weight")
    return (values * 0.8 + (1 if is_norm else 0)).to(torch.float32).reshape(shape)


def fill(model):
    state, seen, kept = model.state_dict(), set(), []
    for name, tensor in state.items():
        if tensor.is_floating_point() and tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            with torch.no_grad():
                tensor.copy_(weight(name, list(tensor.shape)))
            kept.append([name, list(tensor.shape)])
    return kept


def made(cls, **options):
    model = cls(BertConfig(**CONFIG, **options)).eval()
    tensors = fill(model)
    config = json.loads(model.config.to_json_string(use_diff=False))
    config["architectures"] = [cls.__name__]
    return model, {"config": config, "tensors": tensors}


def main():
    folder = Path(tempfile.mkdtemp())
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    tokenizer = BertTokenizerFast(vocab={token: id for id, token in enumerate(VOCABULARY)}, model_max_length=24)
    found = {"vocabulary": VOCABULARY, "texts": TEXTS, "long": LONG, "masked": MASKED}

    model, found["encoder"] = made(BertModel)
    model.save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    transformer = models.Transformer(str(folder / "bert"), max_seq_length=16)
    pooling = models.Pooling(8, pooling_mode="mean")
    dense = models.Dense(8, 5)
    fill(dense)
    with torch.no_grad():
        dense.linear.weight.copy_(weight("linear.weight", [5, 8]))
        dense.linear.bias.copy_(weight("linear.bias", [5]))
    whole = SentenceTransformer(modules=[transformer, pooling, dense, models.Normalize()], device="cpu")
    found["vectors"] = whole.encode(TEXTS).tolist()
    found["long_vector"] = whole.encode([LONG]).tolist()[0]
    whole.save(str(folder / "sentence"))
    found["modules"] = json.loads((folder / "sentence/modules.json").read_text())
    found["module_files"] = {str(path.relative_to(folder / "sentence")): json.loads(path.read_text())
                             for path in sorted((folder / "sentence").glob("*/config.json"))}
    found["token_vectors"] = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0].tolist()

    model, found["tagger"] = made(BertForTokenClassification, id2label=LABELS, label2id={v: k for k, v in LABELS.items()})
    tagged = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="first", device="cpu")
    found["entities"] = [[{"label": e["entity_group"], "start": e["start"], "end": e["end"], "score": float(e["score"])}
                          for e in tagged(text)] for text in TEXTS if text]

    model, found["filler"] = made(BertForMaskedLM)
    filled = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=3, device="cpu")
    answers = [filled(text) for text in MASKED]
    answers = [answer if isinstance(answer[0], list) else [answer] for answer in answers]
    found["words"] = [[[{"word": w["token_str"], "score": float(w["score"])} for w in mask] for mask in text] for text in answers]

    model, found["reranker"] = made(BertForSequenceClassification, num_labels=1)
    pairs = tokenizer([TEXTS[1]] * len(TEXTS), TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        found["scores"] = model(**pairs).logits.flatten().tolist()
    labels = {0: "bad", 1: "good", 2: "neither"}
    for name, kind in [("classifier", None), ("multi", "multi_label_classification")]:
        model, found[name] = made(BertForSequenceClassification, id2label=labels, problem_type=kind,
                                  label2id={v: k for k, v in labels.items()})
        with torch.no_grad():
            logits = model(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
        found[f"{name}_probabilities"] = (logits.sigmoid() if kind else logits.softmax(-1)).tolist()
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    path = Path(__file__).with_name("encoders.json.gz")
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(path.stat().st_size, "bytes", sentence_transformers.__version__)
    print(found["entities"], found["words"], found["modules"], found["module_files"], sep="\n")


main()
