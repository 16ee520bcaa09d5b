"""Workload G, decoding with random weights: polyhead next to CTranslate2 and PyTorch, alternating, at equal cores.

    python bench/translate.py POLYHEAD ROUNDS CT2_SCRIPT [TORCH_SCRIPT]

CT2_SCRIPT is called as `python CT2_SCRIPT THREADS WORKERS DTYPE` in a scratch folder and prints lines `… batch B beam M:
median X best Y tok/s`; TORCH_SCRIPT as `python TORCH_SCRIPT cpu G --threads T` and prints `… batch B median X best Y
tok/s`. With T cores CTranslate2 runs T workers of one thread, its best setting, and polyhead T batches side by side.
Prints JSON lines: the best of all rounds for each cell and tool, ratios, and the peak memory of whole processes.
"""
import json
import re
import subprocess
import sys
import tempfile

SETTINGS = [(batch, beam) for batch in (1, 16) for beam in (1, 4)]


def run(command, folder):
    """Standard output and peak memory of a program, by way of a child that does nothing else."""
    child = ("import resource,subprocess,sys; p=subprocess.run(sys.argv[1:],capture_output=True,text=True);"
             "print(p.stdout); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024)")
    done = subprocess.run([sys.executable, "-c", child, *command], capture_output=True, text=True, cwd=folder)
    lines = done.stdout.split("\n")
    return "\n".join(lines[:-2]), int(lines[-2])


def main(polyhead, rounds, ct2, torch=None):
    folder = tempfile.mkdtemp(prefix="polyhead-bench-")
    models = {}
    for dtype in ("int8", "f32"):
        models[dtype] = f"{folder}/{dtype}"
        run([polyhead, "bench", "translate", "--out", models[dtype], "--dtype", dtype, "--repeats", "1"], folder)
    speed, memory = {}, {}

    def note(tool, cell, value, peak):
        speed[tool, cell] = max(value, speed.get((tool, cell), 0))
        memory[tool, cell] = max(peak, memory.get((tool, cell), 0))

    for _ in range(rounds):
        for cores in (1, 2):
            for dtype, ct2_dtype in (("int8", "int8"), ("f32", "float32")):
                output, peak = run([sys.executable, ct2, "1", str(cores), ct2_dtype], folder)
                for batch, beam, best in re.findall(r"batch (\d+) beam (\d+): median [\d.]+ best ([\d.]+)", output):
                    note("ctranslate2", (cores, dtype, int(batch), int(beam)), float(best), peak)
                for batch, beam in SETTINGS:
                    command = [polyhead, "bench", "translate", "--model", models[dtype], "--dtype", dtype, "--batch",
                               str(batch), "--beam", str(beam), "--threads", str(cores), "--repeats", "5",
                               "--format", "jsonl"]
                    output, peak = run(command, folder)
                    note("polyhead", (cores, dtype, batch, beam), json.loads(output)["tokens_per_s_best"], peak)
            if torch:
                output, peak = run([sys.executable, torch, "cpu", "G", "--threads", str(cores)], folder)
                for batch, best in re.findall(r"batch (\d+) median [\d.]+ best ([\d.]+)", output):
                    note("torch", (cores, "f32", int(batch), 1), float(best), peak)
    cells = sorted({cell for _, cell in speed})
    for cell in cells:
        cores, dtype, batch, beam = cell
        line = {"bench": "translate", "workload": "G", "cores": cores, "dtype": dtype, "batch": batch, "beam": beam}
        for tool in ("polyhead", "ctranslate2", "torch"):
            if (tool, cell) in speed:
                line[f"{tool}_tokens_per_s"] = round(speed[tool, cell], 1)
                line[f"{tool}_peak_memory_mb"] = round(memory[tool, cell] / 1e6)
        for peer in ("ctranslate2", "torch"):
            if (peer, cell) in speed:
                line[f"times_{peer}"] = round(speed["polyhead", cell] / speed[peer, cell], 2)
        print(json.dumps(line), flush=True)


main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
