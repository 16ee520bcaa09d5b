"""Training step of workload T-small: polyhead next to a PyTorch script for the same work, alternating, best of N.

    python bench/train_step.py POLYHEAD N PEER_SCRIPT

PEER_SCRIPT is called as `python PEER_SCRIPT cpu T --threads THREADS` and prints `median X best Y … tgt tok/s`. Prints
JSON lines: tokens a second (best and median of the runs) and peak memory for both, and the ratio of the best.
"""
import json
import re
import statistics
import subprocess
import sys


def run(command):
    """Standard output and peak memory of a program, by way of a child that does nothing else."""
    child = ("import resource,subprocess,sys; p=subprocess.run(sys.argv[1:],capture_output=True,text=True);"
             "print(p.stdout); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024)")
    lines = subprocess.run([sys.executable, "-c", child, *command], capture_output=True, text=True).stdout.split("\n")
    return "\n".join(lines[:-2]), int(lines[-2])


def main(polyhead, repeats, peer):
    tools = {f"polyhead, {t} threads": [polyhead, "bench", "train", "--workload", "small", "--threads", str(t),
                                      "--format", "jsonl"]
             for t in (1, 2)}
    tools |= {f"torch, {t} threads": [sys.executable, peer, "cpu", "T", "--threads", str(t)] for t in (1, 2)}
    best = {name: [] for name in tools}
    memory = dict.fromkeys(tools, 0)
    for _ in range(repeats):
        for name, command in tools.items():
            output, peak = run(command)
            if name.startswith("polyhead"):
                speed = json.loads(output)["tokens_per_s_best"]
            else:
                speed = float(re.search(r"best (\d+)", output).group(1))
            best[name].append(speed)
            memory[name] = max(memory[name], peak)
    for name in tools:
        print(json.dumps({
            "bench": "train_step", "workload": "T-small", "tool": name, "tokens_per_s_best": round(max(best[name])),
            "tokens_per_s_median_of_bests": round(statistics.median(best[name])),
            "runs": [round(speed) for speed in best[name]], "peak_memory_bytes": memory[name],
        }), flush=True)
    ours = max(max(best[name]) for name in tools if name.startswith("polyhead"))
    theirs = max(max(best[name]) for name in tools if name.startswith("torch"))
    print(json.dumps({"bench": "train_step", "ratio_of_bests": round(ours / theirs, 3)}))


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
