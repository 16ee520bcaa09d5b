"""Time of scoring: polyhead next to sacreBLEU on the same files, alternating, best of N, whole programs.

    python bench/score.py POLYHEAD N HYPOTHESIS REFERENCE        (pip install sacrebleu)

Prints one JSON line per metric with both times and the largest difference of the scores. Polyhead is timed with text
output, since its JSON always has a bootstrap interval, which sacreBLEU computes only on request.
"""
import json
import os
import subprocess
import sys
import time

METRICS = {"bleu": "bleu", "chrf": "chrf", "ter": "ter", "bleu,chrf,ter": "bleu chrf ter"}


def timed(command):
    start = time.time()
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return time.time() - start, output


def main(polyhead, repeats, hypothesis, reference):
    theirs_tool = os.path.join(os.path.dirname(sys.executable), "sacrebleu")
    for ours_names, theirs_names in METRICS.items():
        base = [polyhead, "score", "--hypothesis", hypothesis, "--reference", reference, "--metric", ours_names]
        theirs = [theirs_tool, reference, "-i", hypothesis, "-m", *theirs_names.split(), "-w", "12"]
        seconds = {"polyhead": [], "sacrebleu": []}
        for _ in range(repeats):
            seconds["polyhead"].append(timed(base)[0])
            taken, output = timed(theirs)
            seconds["sacrebleu"].append(taken)
        their_scores = json.loads(output)
        their_scores = their_scores if isinstance(their_scores, list) else [their_scores]
        our_scores = json.loads(timed(base + ["--format", "json"])[1])["metrics"]
        difference = max(abs(a["score"] - b["score"]) for a, b in zip(our_scores, their_scores))
        best = {tool: min(times) for tool, times in seconds.items()}
        print(json.dumps({
            "bench": "score", "metrics": ours_names, "lines": sum(1 for _ in open(reference, "rb")),
            "polyhead_s": round(best["polyhead"], 3), "sacrebleu_s": round(best["sacrebleu"], 3),
            "polyhead_is_faster": round(best["sacrebleu"] / best["polyhead"], 1),
            "largest_difference": difference, "threads": os.cpu_count(),
        }), flush=True)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
