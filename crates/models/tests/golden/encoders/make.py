"""Random-weight encoders of Hugging Face's transformers: states, attention weights and heads (encoders.json.gz).

    python make.py

Weights are not stored: element i of a tensor is a function of i and the CRC-32 of its name, which the test computes too.
Made with transformers 5.23.0 and torch 2.15.0.
"""

import gzip
import json
import zlib
from pathlib import Path

import torch
from transformers import (AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification,
                          AutoModelForTokenClassification, BertConfig, DistilBertConfig, ModernBertConfig,
                          MPNetConfig, RobertaConfig, XLMRobertaConfig)

VOCAB = 24
# The second text is longer than ModernBERT's window and than the distances with buckets of their own in MPNet.
TEXTS = [[3, 7, 9, 15, 4], [3, 11, 12, 5, 5, 13, 23, 8, 10, 6, 17, 18, 19, 20, 4]]
TYPES = [0, 0, 0, 1, 1]
COMMON = dict(vocab_size=VOCAB, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
              attn_implementation="eager")
LABELS = dict(id2label={0: "no", 1: "perhaps", 2: "yes"}, label2id={"no": 0, "perhaps": 1, "yes": 2})
CONFIGS = {
    "bert": BertConfig(**COMMON, **LABELS, max_position_embeddings=16, hidden_act="gelu_new"),
    "roberta": RobertaConfig(**COMMON, **LABELS, max_position_embeddings=18, type_vocab_size=1, layer_norm_eps=1e-5),
    "xlm-roberta": XLMRobertaConfig(**COMMON, **LABELS, max_position_embeddings=18, type_vocab_size=1),
    "distilbert": DistilBertConfig(vocab_size=VOCAB, dim=8, n_layers=2, n_heads=2, hidden_dim=12, **LABELS,
                                   max_position_embeddings=16, attn_implementation="eager"),
    "mpnet": MPNetConfig(**COMMON, **LABELS, max_position_embeddings=18),
    "modernbert": ModernBertConfig(**{**COMMON, "num_hidden_layers": 4}, **LABELS, max_position_embeddings=16,
                                   local_attention=6, pad_token_id=0, bos_token_id=3, eos_token_id=4, cls_token_id=3,
                                   sep_token_id=4),
}


def weight(name, shape):
    count = int(torch.tensor(shape).prod())
    start = zlib.crc32(name.encode())
    values = [((start + i * 2654435761) % 2**32 >> 8) / 2**24 - 0.5 for i in range(count)]
    values = torch.tensor(values, dtype=torch.float64)
    # Norms multiply by numbers around 1.
    is_norm = len(shape) == 1 and name.endswith(".weight")
    return (values * 0.8 + (1 if is_norm else 0)).to(torch.float32).reshape(shape)


def rounded(tensor):
    return [float(f"{value:.6g}") for value in tensor.detach().flatten().tolist()]


def fill(model):
    names = []
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            names.append([name, list(tensor.shape)])
    # Tied tensors share memory: the first name decides, and the others are not part of the file.
    seen, kept = set(), []
    state = model.state_dict()
    for name, shape in names:
        if state[name].data_ptr() not in seen:
            seen.add(state[name].data_ptr())
            with torch.no_grad():
                state[name].copy_(weight(name, shape))
            kept.append([name, shape])
    return kept


def run(family, auto):
    torch.manual_seed(0)
    model = auto.from_config(CONFIGS[family], attn_implementation="eager").eval()
    tensors = fill(model)
    config = json.loads(model.config.to_json_string(use_diff=False))
    config["architectures"] = [type(model).__name__]
    return model, tensors, config


def main():
    found = {}
    for family in CONFIGS:
        # Only BERT has more than one token type here.
        types = {"token_type_ids": torch.tensor([TYPES])} if family == "bert" else {}
        texts = [torch.tensor([text]) for text in TEXTS]
        cases = []
        model, tensors, config = run(family, AutoModel)
        out = model(texts[0], **types, output_hidden_states=True, output_attentions=True)
        long = model(texts[1], output_attentions=True)
        case = {"config": config, "tensors": tensors, "states": rounded(out.last_hidden_state),
                "layers": [rounded(layer) for layer in out.hidden_states[1:]],
                "attention": [rounded(layer) for layer in out.attentions],
                "long_states": rounded(long.last_hidden_state),
                "long_attention": [rounded(layer[:, :, ::5]) for layer in long.attentions]}
        if getattr(out, "pooler_output", None) is not None:
            case["pooled"] = rounded(out.pooler_output)
        cases.append(case)
        for head, auto in [("classes", AutoModelForSequenceClassification), ("token_classes", AutoModelForTokenClassification),
                           ("words", AutoModelForMaskedLM)]:
            model, tensors, config = run(family, auto)
            logits = model(texts[0], **types).logits
            cases.append({"config": config, "tensors": tensors, head: rounded(logits)})
        found[family] = cases
    text = json.dumps({"texts": TEXTS, "types": TYPES, "models": found}, separators=(",", ":"))
    path = Path(__file__).with_name("encoders.json.gz")
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(path.stat().st_size, "bytes")


main()
