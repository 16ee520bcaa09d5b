"""Models in one file: GGUF written with PyPI gguf, and llama2.c's format with a NumPy implementation of it.

    python files.py                    writes files/ beside this file
    python files.py --stories FILE OUT writes greedy ids and logits of a real llama2.c file to OUT (JSON)

Needs torch, transformers 5, gguf and numpy.
"""

import gzip
import json
import pathlib
import struct
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Q
from transformers import LlamaConfig

from make import GATED, HERE, VOCABULARY, load, random_model

FOLDER = HERE / "files"
TEXT = [1, 44, 7, 90, 12, 3, 3, 65, 31, 8, 77, 20]
ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}


def permute(weight, heads):
    """llama.cpp's order of rows: neighbouring rotary pairs."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def unpermute(weight, heads):
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


class Writer:
    """Writes a tensor as Q8_0 where its width allows that, else as F16 or, a vector, F32; remembers what a reader gets."""

    def __init__(self, name, architecture):
        self.path = FOLDER / name
        self.writer = gguf.GGUFWriter(self.path, architecture)
        self.read = {}

    def add(self, name, weight):
        kind = Q.F32 if weight.ndim == 1 else Q.Q8_0 if weight.shape[1] % 32 == 0 else Q.F16
        data = gguf.quants.quantize(weight.astype(np.float32), kind)
        self.writer.add_tensor(name, data, raw_dtype=kind)
        self.read[name] = gguf.quants.dequantize(data, kind).astype(np.float32).reshape(weight.shape)
        return self.read[name]

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


@torch.no_grad()
def logits(model):
    rows = model(torch.tensor([TEXT])).logits[0].tolist()
    return [[float(f"{x:.6g}") for x in row] for row in rows]


def tokens(writer, count):
    writer.add_token_list([f"t{index}" for index in range(count)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def llama():
    config = LlamaConfig(**GATED, num_key_value_heads=2, rope_parameters=ROPE)
    model = random_model(config, torch.float32, 71).eval()
    out = Writer("llama.gguf", "llama")
    out.writer.add_context_length(config.max_position_embeddings)
    out.writer.add_embedding_length(config.hidden_size)
    out.writer.add_block_count(config.num_hidden_layers)
    out.writer.add_feed_forward_length(config.intermediate_size)
    out.writer.add_head_count(config.num_attention_heads)
    out.writer.add_head_count_kv(config.num_key_value_heads)
    out.writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.writer.add_rope_dimension_count(config.head_dim)
    out.writer.add_rope_freq_base(500000.0)
    tokens(out.writer, VOCABULARY)
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for layer in range(config.num_hidden_layers):
        names |= {f"model.layers.{layer}.{theirs}": f"blk.{layer}.{ours}" for theirs, ours in parts.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            module, ending = name.rsplit(".", 1)
            weight = parameter.numpy().copy()
            heads = {"q_proj": 4, "k_proj": 2}.get(module.rsplit(".", 1)[-1])
            read = out.add(f"{names[module]}.{ending}", permute(weight, heads) if heads else weight)
            parameter.copy_(torch.from_numpy((unpermute(read, heads) if heads else read).copy()))
    speeds = 1 / 500000.0 ** (np.arange(0, config.head_dim, 2) / config.head_dim)
    out.writer.add_tensor("rope_freqs.weight", (speeds / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    out.close()
    return {"logits": logits(model), "embedding": out.read["token_embd.weight"][:2].reshape(-1).tolist()}


def gpt2():
    model = load(HERE / "gpt2")
    config = model.config
    out = Writer("gpt2.gguf", "gpt2")
    out.writer.add_context_length(config.n_positions)
    out.writer.add_embedding_length(config.n_embd)
    out.writer.add_block_count(config.n_layer)
    out.writer.add_feed_forward_length(config.n_inner)
    out.writer.add_head_count(config.n_head)
    out.writer.add_layer_norm_eps(config.layer_norm_epsilon)
    tokens(out.writer, VOCABULARY)
    names = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}
    parts = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for layer in range(config.n_layer):
        names |= {f"transformer.h.{layer}.{theirs}": f"blk.{layer}.{ours}" for theirs, ours in parts.items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            module, ending = name.rsplit(".", 1)
            weight = parameter.numpy().copy()
            turn = weight.ndim == 2 and "c_" in module
            read = out.add(f"{names[module]}.{ending}", np.ascontiguousarray(weight.T) if turn else weight)
            parameter.copy_(torch.from_numpy((read.T if turn else read).copy()))
    out.close()
    return {"logits": logits(model), "embedding": out.read["token_embd.weight"][:2].reshape(-1).tolist()}


class Llama2c:
    """llama2.c's forward pass in NumPy, token by token, from the published format."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        d, ff, layers, heads, key_heads, vocabulary, length = struct.unpack("<7i", data[:28])
        values, at = np.frombuffer(data[28:], np.float32), 0

        def take(*shape):
            nonlocal at
            size = int(np.prod(shape))
            at += size
            return values[at - size:at].reshape(shape)

        self.heads, self.key_heads, self.d_head, shared = heads, key_heads, d // heads, vocabulary > 0
        vocabulary, keys = abs(vocabulary), d // heads * key_heads
        self.embedding = take(vocabulary, d)
        self.attention_norm, self.query = take(layers, d), take(layers, d, d)
        self.key, self.value = take(layers, keys, d), take(layers, keys, d)
        self.output, self.inner_norm = take(layers, d, d), take(layers, d)
        self.gate, self.down, self.up = take(layers, ff, d), take(layers, d, ff), take(layers, ff, d)
        self.norm = take(d)
        take(length, self.d_head)
        self.classes = self.embedding if shared else take(vocabulary, d)
        assert at == len(values)
        self.cache = [([], []) for _ in range(layers)]

    def normalise(self, x, gain):
        return x / np.sqrt((x * x).mean() + 1e-5) * gain

    def turn(self, x, position):
        pairs = x.reshape(-1, self.d_head // 2, 2)
        angle = position / 10000.0 ** (np.arange(0, self.d_head, 2) / self.d_head)
        a, b, cosine, sine = pairs[..., 0], pairs[..., 1], np.cos(angle), np.sin(angle)
        return np.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(-1, self.d_head)

    def step(self, token):
        x = self.embedding[token].astype(np.float64)
        for layer, (keys, values) in enumerate(self.cache):
            h = self.normalise(x, self.attention_norm[layer])
            query = self.turn(self.query[layer] @ h, len(keys))
            keys.append(self.turn(self.key[layer] @ h, len(keys)))
            values.append((self.value[layer] @ h).reshape(self.key_heads, self.d_head))
            mixed = []
            for head in range(self.heads):
                own = head // (self.heads // self.key_heads)
                scores = np.array([key[own] @ query[head] for key in keys]) / np.sqrt(self.d_head)
                weights = np.exp(scores - scores.max())
                mixed.append(sum(w * value[own] for w, value in zip(weights / weights.sum(), values)))
            x = x + self.output[layer] @ np.concatenate(mixed)
            h = self.normalise(x, self.inner_norm[layer])
            gate = self.gate[layer] @ h
            x = x + self.down[layer] @ (gate / (1 + np.exp(-gate)) * (self.up[layer] @ h))
        return self.classes @ self.normalise(x, self.norm)


def run(path, text, new_tokens):
    """Logits after each token of the text, and the tokens that follow greedily."""
    model, found, ids = Llama2c(path), [], list(text)
    for position in range(len(text) + new_tokens):
        row = model.step(ids[position])
        if position < len(text):
            found.append([float(f"{x:.6g}") for x in row])
        if position >= len(text) - 1:
            ids.append(int(row.argmax()))
    return {"text": text, "logits": found, "ids": ids[len(text):len(text) + new_tokens]}


def llama2c(name, vocabulary):
    """A random file; a negative vocabulary has an output layer of its own."""
    d, ff, layers, heads, key_heads, length = 16, 20, 2, 4, 2, 48
    generator = np.random.default_rng(5)
    draw = lambda *shape: (0.4 * generator.standard_normal(shape)).astype(np.float32)
    keys = d // heads * key_heads
    parts = [draw(abs(vocabulary), d), 1 + draw(layers, d), draw(layers, d, d), draw(layers, keys, d), draw(layers, keys, d),
             draw(layers, d, d), 1 + draw(layers, d), draw(layers, ff, d), draw(layers, d, ff), draw(layers, ff, d),
             1 + draw(d), np.zeros((length, d // heads), np.float32)]
    if vocabulary < 0:
        parts.append(draw(-vocabulary, d))
    head = struct.pack("<7i", d, ff, layers, heads, key_heads, vocabulary, length)
    (FOLDER / name).write_bytes(head + b"".join(part.tobytes() for part in parts))
    return run(FOLDER / name, [1, 9, 30, 2, 17, 5], 16)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--stories"]:
        texts = [[1], [1, 403, 407, 261], [1, 300, 40, 7, 99], [1] + list(range(100, 140))]
        pathlib.Path(sys.argv[3]).write_text(json.dumps([run(sys.argv[2], text, 60) for text in texts]))
    else:
        FOLDER.mkdir(exist_ok=True)
        result = {"text": TEXT, "llama.gguf": llama(), "gpt2.gguf": gpt2(), "shared.bin": llama2c("shared.bin", 40),
                  "own.bin": llama2c("own.bin", -40)}
        text = json.dumps(result, separators=(",", ":"))
        (FOLDER / "expected.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
