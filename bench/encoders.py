"""Vectors of a sentence-transformers folder by Polyhead and by sentence-transformers: how much they differ, and how fast they are.

    python bench/encoders.py equal POLYHEAD FOLDER TEXT [LINES]
    python bench/encoders.py speed POLYHEAD FOLDER TEXT [LINES [ROUNDS]]

TEXT is a file of sentences, plain or gzipped; of a TSV file the first column. `equal` embeds LINES lines (default: 200), alone and
together, and prints the largest difference of a number, and which sentences are the nearest of each. `speed` embeds LINES lines
(default: 2000) in turn with both programs, ROUNDS times (default: 5), on two threads, and with onnxruntime if it is installed. All
sort by length; loading is not measured, Polyhead's by a run with one line.
"""

import gzip
import os
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from sentence_transformers import SentenceTransformer

THREADS = 2
BATCH = 32


def read(path, count):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        lines = dict.fromkeys(line.split("\t")[0].strip() for line in file)
    return [line for line in lines if line][:count]


def polyhead(program, folder, lines, *options):
    """The vectors, and the seconds of the whole program."""
    with tempfile.TemporaryDirectory() as temporary:
        text, out = f"{temporary}/text", f"{temporary}/vectors.npy"
        with open(text, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
        arguments = [program, "embed", "--model", folder, "--file", text, "--format", "npy", "--out", out, "--quiet",
                     "--threads", str(THREADS), *options]
        start = time.perf_counter()
        subprocess.run(arguments, check=True)
        return numpy.load(out), time.perf_counter() - start


def equal(program, folder, lines):
    model = SentenceTransformer(folder, device="cpu")
    ours, _ = polyhead(program, folder, lines)
    theirs = model.encode(lines, batch_size=BATCH)
    alone = numpy.stack([model.encode([line])[0] for line in lines])
    print(f"{len(lines)} sentences, vectors of {ours.shape[1]} numbers")
    print(f"largest difference from sentence-transformers in batches: {abs(ours - theirs).max():.2g}")
    print(f"largest difference from sentence-transformers one by one: {abs(ours - alone).max():.2g}")
    print(f"largest difference of theirs in batches and one by one:   {abs(theirs - alone).max():.2g}")
    one_by_one = numpy.concatenate([polyhead(program, folder, [line])[0] for line in lines[:20]])
    print(f"ours in one batch and alone (20 sentences): {'same bits' if (one_by_one == ours[:20]).all() else 'DIFFERENT'}")
    int8, _ = polyhead(program, folder, lines, "--dtype", "int8")
    print(f"int8: cosine with f32 {(int8 * ours).sum(1).min():.4f} at least, {(int8 * ours).sum(1).mean():.4f} on average")
    nearest = [(vectors @ vectors.T - 2 * numpy.eye(len(lines))).argmax(1) for vectors in (ours, theirs, int8)]
    print(f"nearest of the other sentences: {(nearest[0] == nearest[1]).sum()} of {len(lines)} the same as theirs, "
          f"int8 {(nearest[2] == nearest[1]).sum()}")


def pieces(model, lines):
    """Sentences in batches of similar length."""
    order = sorted(range(len(lines)), key=lambda index: -len(lines[index]))
    return [[lines[index] for index in order[at : at + BATCH]] for at in range(0, len(order), BATCH)]


def speed(program, folder, lines, rounds):
    torch.set_num_threads(THREADS)
    model = SentenceTransformer(folder, device="cpu")
    tokens = sum(len(ids) for ids in model.tokenizer(lines)["input_ids"])
    print(f"{len(lines)} sentences, {tokens} tokens, load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    runs = {"polyhead f32": lambda: polyhead(program, folder, lines)[1] - polyhead(program, folder, lines[:1])[1],
            "polyhead int8": lambda: polyhead(program, folder, lines, "--dtype", "int8")[1]
            - polyhead(program, folder, lines[:1], "--dtype", "int8")[1]}

    def torch_run():
        start = time.perf_counter()
        model.encode(lines, batch_size=BATCH)
        return time.perf_counter() - start

    runs["sentence-transformers (PyTorch f32)"] = torch_run
    try:
        runs.update(onnx(model, lines))
    except ImportError as error:
        print(f"without onnxruntime: {error}")
    best = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            best[name].append(run())
    for name, seconds in best.items():
        seconds.sort()
        median = seconds[len(seconds) // 2]
        print(f"{name:36} {len(lines) / median:7.0f} sentences/s (median), {len(lines) / seconds[0]:7.0f} at best; "
              f"{tokens / median:8.0f} tokens/s")


def onnx(model, lines):
    """Runs of the same model in onnxruntime, f32 and dynamically quantised to int8."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder = tempfile.mkdtemp()
    inner = model[0].model if hasattr(model[0], "model") else model[0].auto_model
    example = model.tokenizer(lines[:2], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "rows", 1: "length"} for name in names + ["states"]}

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, ids, mask, types):
            return self.inner(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    torch.onnx.export(States().eval(), tuple(example[name] for name in names), f"{folder}/model.onnx", input_names=names,
                      output_names=["states"], dynamic_axes=axes, opset_version=17, dynamo=False)
    quantize_dynamic(f"{folder}/model.onnx", f"{folder}/int8.onnx", weight_type=QuantType.QInt8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    found = {}
    for name, file in [("onnxruntime f32", "model.onnx"), ("onnxruntime int8", "int8.onnx")]:
        session = onnxruntime.InferenceSession(f"{folder}/{file}", options, providers=["CPUExecutionProvider"])

        def run(session=session):
            start = time.perf_counter()
            for batch in pieces(model, lines):
                own = model.tokenizer(batch, padding=True, truncation=True, return_tensors="np")
                states = session.run(["states"], {name: own[name] for name in names})[0]
                mask = own["attention_mask"][..., None]
                vectors = (states * mask).sum(1) / mask.sum(1)
                vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
            return time.perf_counter() - start

        found[name] = run
    return found


if __name__ == "__main__":
    what, program, folder, path = sys.argv[1:5]
    count = int(sys.argv[5]) if len(sys.argv) > 5 else {"equal": 200, "speed": 2000}[what]
    if what == "equal":
        equal(program, folder, read(path, count))
    else:
        speed(program, folder, read(path, count), int(sys.argv[6]) if len(sys.argv) > 6 else 5)
