"""The table and the plot of the ladder, from the folders that run.sh beside it leaves.

    python3 recipes/ladder/report.py [RUNS …]        default: runs/ladder

Several folders are runs with other seeds: scores are their means, times and pictures those of the first.
Prints a table in Markdown (parameters, training time, BLEU on test_2016_flickr and by the number of words of the source;
then, of the first ALIGNED sentences of the test set with their references, the mean entropy in bits of the weights of a target
token and the agreement of the aligned words with those of the Transformer) and writes two pictures to RUNS: by-length.svg, BLEU
by the length of the source, and alignments.svg, the weights of one sentence from every rung. POLYHEAD names the program if it
is not on the PATH. Nothing but Python's own library is needed.
"""
import base64
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SEEDS = [pathlib.Path(folder) for folder in sys.argv[1:] or ["runs/ladder"]]
RUNS = SEEDS[0]
PROGRAM = os.environ.get("POLYHEAD", "polyhead")
NAMES = {
    "rnn": "RNN, no attention", "gru": "GRU, no attention", "lstm": "LSTM, no attention", "lstm-cosine": "LSTM, cosine",
    "lstm-additive": "LSTM, additive", "lstm-location": "LSTM, location", "lstm-general": "LSTM, general",
    "lstm-dot": "LSTM, dot", "lstm-scaled_dot": "LSTM, scaled dot", "bahdanau": "Bahdanau (GRU)",
    "luong": "Luong (input feeding)", "local-m": "LSTM, local-m", "local-p": "LSTM, local-p", "lstmn": "LSTMN",
    "transformer": "Transformer",
}
ALIGNED = 200
BOUNDS = [0, 8, 10, 12, 14, 17, 100]
COLOURS = ["#888888", "#b8860b", "#c0392b", "#2980b9", "#16a085", "#8e44ad", "#2c3e50"]
PLOTTED = ["rnn", "gru", "lstm", "bahdanau", "luong", "lstmn", "transformer"]


def score(hypotheses, references):
    """BLEU of tokenised text."""
    files = [RUNS / name for name in ("part.de", "part.reference.de")]
    for path, lines in zip(files, (hypotheses, references)):
        path.write_text("".join(line + "\n" for line in lines))
    command = [PROGRAM, "score", "-r", files[1], "--hypothesis", files[0], "--metric", "bleu", "--tokenize", "none",
               "--format", "json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for path in files:
        path.unlink()
    metrics = found["metrics"] if "metrics" in found else found["systems"][0]["metrics"]
    return metrics[0]["score"]


def lines(path):
    return path.read_text().splitlines()


def weights(path):
    """Weights (target × source) of the alignment in a trace, the labels of both sides, and the aligned pairs of words."""
    trace = json.loads(path.read_text())
    site = trace["alignment_site"]
    if not site:
        return None
    entry = next(entry for entry in trace["attention"] if (entry["kind"], entry["layer"]) == (site["kind"], site["layer"]))
    heads, queries, keys = entry["weights"]["shape"]
    data = base64.b64decode(entry["weights"]["base64"])
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    at = lambda head, query, key: numbers[(head * queries + query) * keys + key]
    mean = [[sum(at(head, query, key) for head in range(heads)) / heads for key in range(keys)] for query in range(queries)]
    sides = {side: [token["label"] for token in trace[side]["tokens"]] for side in ("source", "target")}
    return mean, sides, {tuple(pair) for pair in trace["alignment"] or []}


def entropy(rows):
    """Mean entropy of the rows in bits."""
    return sum(-sum(w * math.log2(w) for w in row if w > 0) for row in rows) / max(len(rows), 1)


def agreement(pairs, reference):
    """Share of aligned pairs that both have, of all that one has (F₁), over all sentences."""
    both = sum(len(own & other) for own, other in zip(pairs, reference))
    return 2 * both / max(sum(map(len, pairs)) + sum(map(len, reference)), 1)


def aligned(folder, sources, references):
    """Mean entropy of the weights of a target token, and the aligned pairs of words of each sentence."""
    known = folder / "alignments.json"
    if not known.exists():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda pair: inspected(folder, *pair), zip(sources[:ALIGNED], references)))
        tokens = sum(count for count, *_ in found)
        bits = sum(count * bits for count, bits, _ in found) / tokens
        known.write_text(json.dumps({"entropy": bits, "pairs": [sorted(pairs) for *_, pairs in found]}))
    found = json.loads(known.read_text())
    return found["entropy"], [{tuple(pair) for pair in pairs} for pairs in found["pairs"]]


def inspected(folder, source, target):
    """Target tokens, mean entropy and aligned pairs of one sentence."""
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "trace.json"
        command = [PROGRAM, "--quiet", "inspect", source, "--target", target, "-m", folder / "model", "--out", out]
        subprocess.run(command, check=True)
        rows, _, pairs = weights(out)
    return len(rows), entropy(rows), pairs


def by_length_picture(curves, labels):
    width, height, left, bottom = 720, 380, 50, 40
    low, high = 0, 50
    x = lambda i: left + (width - left - 190) * i / (len(labels) - 1)
    y = lambda bleu: height - bottom - (height - bottom - 20) * (bleu - low) / (high - low)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="#fff"/>']
    for bleu in range(low, high + 1, 10):
        parts.append(f'<line x1="{left}" x2="{x(len(labels) - 1)}" y1="{y(bleu):.1f}" y2="{y(bleu):.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(bleu) + 4:.1f}" text-anchor="end">{bleu}</text>')
    for i, label in enumerate(labels):
        parts.append(f'<text x="{x(i):.1f}" y="{height - bottom + 18}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{x((len(labels) - 1) / 2):.1f}" y="{height - 6}" text-anchor="middle">words of the source</text>'
                 f'<text x="{left - 36}" y="14">BLEU</text>')
    ends = sorted((curve[-1], name) for name, curve in curves.items())
    at, placed = height, {}
    for bleu, name in ends:
        at = min(y(bleu), at - 14)
        placed[name] = at
    for colour, (name, curve) in zip(COLOURS, curves.items()):
        points = " ".join(f"{x(i):.1f},{y(bleu):.1f}" for i, bleu in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
                     f'<text x="{x(len(curve) - 1) + 8:.1f}" y="{placed[name] + 4:.1f}" fill="{colour}">{NAMES[name]}</text>')
    return "".join(parts) + "</svg>\n"


def alignments_picture(tables):
    cell, gap, columns = 13, 70, 3
    block = max(len(sides["source"]) for _, sides, _ in tables.values()) * cell + gap + 20
    tall = max(len(rows) for rows, *_ in tables.values()) * cell + 90
    n_rows = -(-len(tables) // columns)
    escape = lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * block} {n_rows * tall}" '
             'font-family="sans-serif" font-size="9"><rect width="100%" height="100%" fill="#fff"/>']
    for index, (name, (rows, sides, _)) in enumerate(tables.items()):
        left, top = index % columns * block + gap, index // columns * tall + 75
        parts.append(f'<text x="{left}" y="{top - 60}" font-size="12">{NAMES[name]}</text><g fill="#1f4e8c">')
        for i, token in enumerate(sides["source"]):
            at = left + i * cell + cell / 2
            parts.append(f'<text transform="translate({at + 3:.1f},{top - 4}) rotate(-60)" fill="#000">{escape(token)}</text>')
        for j, row in enumerate(rows):
            token = sides["target"][j] if j < len(sides["target"]) else ""
            parts.append(f'<text x="{left - 4}" y="{top + j * cell + 10}" text-anchor="end" fill="#000">{escape(token)}</text>')
            for i, weight in enumerate(row):
                if weight >= 0.02:
                    at = f"M{left + i * cell} {top + j * cell}h{cell}v{cell}h-{cell}z"
                    parts.append(f'<path d="{at}" opacity="{weight:.2f}"/>')
        parts.append(f'</g><rect x="{left}" y="{top}" width="{len(rows[0]) * cell}" height="{len(rows) * cell}" fill="none" '
                     'stroke="#999"/>')
    return "".join(parts) + "</svg>\n"


def main():
    sources, references = lines(RUNS / "test.en"), lines(RUNS / "test.de")
    groups = [[i for i, line in enumerate(sources) if low < len(line.split()) <= high]
              for low, high in zip(BOUNDS, BOUNDS[1:])]
    labels = [f"{low + 1}–{high}" if high < 100 else f"over {low}" for low, high in zip(BOUNDS, BOUNDS[1:])]
    curves, tables = {}, {}
    print(f"| model | parameters | training | BLEU | {' | '.join(labels)} | entropy | agreement |")
    print("|---|---:|---:|---:|" + "---:|" * (len(labels) + 2))
    best = RUNS / "transformer"
    reference = aligned(best, sources, references)[1] if best.exists() else None
    for name, title in NAMES.items():
        folder = RUNS / name
        if not (folder / "test.de").exists():
            continue
        curve, scores = by_length(name, groups, references)
        if name in PLOTTED:
            curves[name] = curve
        attention = weights(folder / "alignment.json") if (folder / "alignment.json").exists() else None
        if attention:
            tables[name] = attention
        bits, pairs = aligned(folder, sources, references) if attention else (None, None)
        spread = f"{bits:.2f}" if attention else "–"
        same = f"{agreement(pairs, reference):.0%}" if attention and reference else "–"
        whole = f"{sum(scores) / len(scores):.1f}"
        if len(scores) > 1:
            whole += f" ({min(scores):.1f}–{max(scores):.1f})"
        count, seconds = size_and_time(folder)
        parts = " | ".join(f"{bleu:.1f}" for bleu in curve)
        print(f"| {title} | {count / 1e6:.1f} M | {seconds:.0f} s | {whole} | {parts} | {spread} | {same} |")
    (RUNS / "by-length.svg").write_text(by_length_picture(curves, labels))
    if tables:
        (RUNS / "alignments.svg").write_text(alignments_picture(tables))


def by_length(name, groups, references):
    """BLEU of each group of sentences, mean over the seeds, and BLEU of all sentences for each seed."""
    curves, scores = [], []
    for folder in (seed / name for seed in SEEDS):
        if not (folder / "test.de").exists():
            continue
        found = lines(folder / "test.de")
        curves.append([score([found[i] for i in group], [references[i] for i in group]) for group in groups])
        scores.append(json.loads((folder / "test.json").read_text())["metrics"][0]["score"])
    return [sum(column) / len(column) for column in zip(*curves)], scores


def size_and_time(folder):
    """Number of parameters, from the header of the weights, and seconds of training, from the last line of metrics."""
    with open(folder / "model" / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    count = sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    metrics = [json.loads(line) for line in lines(folder / "metrics.jsonl")]
    return count, max(line.get("seconds", 0) for line in metrics)


main()
