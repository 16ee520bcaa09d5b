"""Generation by GPT-2 (124 million parameters, random weights) on the CPU: polyhead next to llama.cpp (Q8_0) and PyTorch (f32).

    python bench/generate.py POLYHEAD THREADS [ROUNDS]

Needs torch, gguf and llama-cpp-python. Polyhead's int8 and llama.cpp read one and the same GGUF file. Each program reads prompts of
128 tokens and generates 128 more greedily; the programs alternate, each in a process of its own, and the best round counts. Prefill
and decoding are timed apart. llama.cpp has f16 keys and values and as many threads as the others. Prints JSON lines, then a table.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

LAYERS, D, HEADS, VOCAB, CONTEXT, PROMPT, NEW = 12, 768, 12, 50304, 1024, 128, 128


def write_gguf(path):
    """A GPT-2 with random weights in the layout of llama.cpp: matrices in Q8_0, vectors and positions in f32."""
    import gguf
    import numpy as np

    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(D)
    writer.add_feed_forward_length(4 * D)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    letters = bytes_to_letters()
    tokens = letters + [f"{a}{b}" for a in letters for b in letters][: VOCAB - len(letters) - 1] + ["<|endoftext|>"]
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCAB - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges([f"{token[0]} {token[1]}" for token in tokens[len(letters) : -1]])
    writer.add_bos_token_id(VOCAB - 1)
    writer.add_eos_token_id(VOCAB - 1)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(D, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(D, np.float32))

    matrix("token_embd.weight", VOCAB, D)
    writer.add_tensor("position_embd.weight", random.standard_normal((CONTEXT, D), dtype=np.float32) * np.float32(0.02))
    norm("output_norm")
    for layer in range(LAYERS):
        norm(f"blk.{layer}.attn_norm")
        norm(f"blk.{layer}.ffn_norm")
        for name, rows, columns in [("attn_qkv", 3 * D, D), ("attn_output", D, D), ("ffn_up", 4 * D, D), ("ffn_down", D, 4 * D)]:
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
            writer.add_tensor(f"blk.{layer}.{name}.bias", np.zeros(rows, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def bytes_to_letters():
    """The 256 letters by which byte-level BPE writes bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(256 - len(plain))]


def llama(path, threads, batch):
    """Seconds of the prefill and of decoding, and peak memory, of llama.cpp."""
    import ctypes

    import llama_cpp as cpp
    import numpy as np

    cpp.llama_log_set(QUIET, ctypes.c_void_p())
    cpp.llama_backend_init()
    model = cpp.llama_model_load_from_file(path.encode(), cpp.llama_model_default_params())
    options = cpp.llama_context_default_params()
    options.n_ctx = (PROMPT + NEW) * batch
    options.n_batch = options.n_ubatch = max(512, PROMPT * batch)
    options.n_seq_max = batch
    options.n_threads = options.n_threads_batch = threads
    context = cpp.llama_init_from_model(model, options)
    prompts = np.random.default_rng(2).integers(VOCAB, size=(batch, PROMPT))
    room = cpp.llama_batch_init(PROMPT * batch, 0, 1)

    def decode(tokens, at):
        room.n_tokens = tokens.size
        for row in range(batch):
            for i, token in enumerate(tokens[row]):
                to = row * tokens.shape[1] + i
                room.token[to], room.pos[to], room.n_seq_id[to] = int(token), at + i, 1
                room.seq_id[to][0], room.logits[to] = row, i + 1 == tokens.shape[1]
        if cpp.llama_decode(context, room):
            raise SystemExit("llama.cpp could not decode")
        ends = [(row + 1) * tokens.shape[1] - 1 for row in range(batch)]
        best = [np.ctypeslib.as_array(cpp.llama_get_logits_ith(context, end), (VOCAB,)).argmax() for end in ends]
        return np.array(best)[:, None]

    found = []
    for _ in range(2):
        cpp.llama_memory_clear(cpp.llama_get_memory(context), True)
        start = time.perf_counter()
        tokens = decode(prompts, 0)
        prefill = time.perf_counter() - start
        for step in range(NEW - 1):
            tokens = decode(tokens, PROMPT + step)
        found.append((prefill, time.perf_counter() - start - prefill))
    return min(found, key=sum)


def torch_seconds(threads, batch):
    """Seconds of the prefill and of decoding of the model in PyTorch, f32."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    norm = lambda: torch.nn.LayerNorm(D)
    parts = lambda: [norm(), norm()] + [torch.nn.Linear(*sizes) for sizes in [(D, 3 * D), (D, D), (D, 4 * D), (4 * D, D)]]
    layers, table, last = [parts() for _ in range(LAYERS)], torch.randn(VOCAB, D) * 0.02, norm()
    positions = torch.randn(CONTEXT, D) * 0.02

    def step(tokens, at, caches):
        x = table[tokens] + positions[at : at + tokens.shape[1]]
        for (first, second, qkv, out, up, down), (keys, values) in zip(layers, caches):
            q, k, v = qkv(first(x)).view(batch, -1, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
            end = at + tokens.shape[1]
            keys[:, :, at:end], values[:, :, at:end] = k, v
            mixed = F.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], is_causal=tokens.shape[1] > 1)
            x = x + out(mixed.transpose(1, 2).reshape(batch, -1, D))
            x = x + down(F.gelu(up(second(x)), approximate="tanh"))
        return (last(x[:, -1]) @ table.T).argmax(-1, keepdim=True)

    prompts = torch.randint(VOCAB, (batch, PROMPT))
    found = []
    with torch.no_grad():
        for _ in range(2):
            caches = [[torch.zeros(batch, HEADS, PROMPT + NEW, D // HEADS) for _ in range(2)] for _ in range(LAYERS)]
            start = time.perf_counter()
            tokens = step(prompts, 0, caches)
            prefill = time.perf_counter() - start
            for at in range(NEW - 1):
                tokens = step(tokens, PROMPT + at, caches)
            found.append((prefill, time.perf_counter() - start - prefill))
    return min(found, key=sum)


def peer(name, path, threads, batch):
    import resource

    prefill, decoding = llama(path, threads, batch) if name == "llama.cpp" else torch_seconds(threads, batch)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = {"program": name, "batch": batch, "threads": threads, "prefill_tokens_per_s": batch * PROMPT / prefill}
    # The first new token belongs to the prefill.
    print(json.dumps(line | {"decode_tokens_per_s": batch * (NEW - 1) / decoding, "peak_memory_bytes": peak}), flush=True)


def polyhead(program, path, dtype, threads, batch):
    command = [program, "bench", "generate", "--batch", str(batch), "--dtype", dtype, "--threads", str(threads), "--repeats", "2"]
    command += ["--prompt", str(PROMPT), "--new-tokens", str(NEW), "--format", "jsonl"] + (["--model", path] if dtype == "int8" else [])
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    keys = ["batch", "threads", "prefill_tokens_per_s", "decode_tokens_per_s", "peak_memory_bytes"]
    print(json.dumps({"program": f"polyhead {dtype}"} | {key: found[key] for key in keys}), flush=True)


def main():
    program, threads, rounds = sys.argv[1], int(sys.argv[2]), int((sys.argv + ["3"])[3])
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gpt2.gguf")
        write_gguf(path)
        for _ in range(rounds):
            for batch in (1, 16):
                for name in ("polyhead int8", "llama.cpp", "polyhead f32", "torch"):
                    command = [sys.executable, __file__, "one", name, program, path, str(threads), str(batch)]
                    line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                    print(line, end="", flush=True)
                    found = json.loads(line)
                    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "peak_memory_bytes"):
                        choose = min if key == "peak_memory_bytes" else max
                        at = (batch, name, key)
                        best[at] = choose(best.get(at, found[key]), found[key])
    print(f"{threads} threads, best of {rounds} rounds; tokens/s; MB of memory at most")
    print("batch program        prefill  decode  memory")
    for batch in (1, 16):
        for ours, other in (("polyhead int8", "llama.cpp"), ("polyhead f32", "torch")):
            rows = [[best[batch, name, key] for key in ("prefill_tokens_per_s", "decode_tokens_per_s")] for name in (ours, other)]
            for name, row in zip((ours, other), rows):
                print(f"{batch:5} {name:14} {row[0]:7.0f} {row[1]:7.1f} {best[batch, name, 'peak_memory_bytes'] / 1e6:7.0f}")
            print(f"      ratio          {rows[0][0] / rows[1][0]:7.2f} {rows[0][1] / rows[1][1]:7.2f}")


if sys.argv[1] == "one":
    name, program, path, threads, batch = sys.argv[2:]
    if name.startswith("polyhead"):
        polyhead(program, path, name.split()[1], int(threads), int(batch))
    else:
        if name == "llama.cpp":
            import llama_cpp

            QUIET = llama_cpp.llama_log_callback(lambda *_: None)
        peer(name, path, int(threads), int(batch))
else:
    main()
