"""Attention alone on a GPU, forward + backward, next to PyTorch's scaled_dot_product_attention: bf16, 8 heads of 64, 32,768
tokens, lengths 512 to 8,192, full and causal.

    python3 bench/attention_cuda.py POLYHEAD

Needs PyTorch with CUDA. The two programs alternate; the best of two rounds counts. TFLOP/s count seven products, half of
them in causal attention. About a minute; the table comes last.
"""

import json
import subprocess
import sys

import torch
import torch.nn.functional as F


def sdpa(length, causal):
    batch = max(1, 32768 // length)
    q, k, v = (
        torch.randn(batch, 8, length, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    )
    gradient = q.detach().clone()

    def step():
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(gradient)
        q.grad = k.grad = v.grad = None

    for _ in range(3):
        step()
    best = float("inf")
    for _ in range(3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            step()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / 10)
    return 14 * batch * 8 * length * length * 64 / (2 if causal else 1) / best / 1e9


def main():
    polyhead = sys.argv[1]
    best = {}
    for _ in range(2):
        for length in (512, 1024, 2048, 4096, 8192):
            command = [polyhead, "bench", "attention", "--device", "cuda", "--length", str(length), "--format", "jsonl"]
            for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
                print(line, flush=True)
                found = json.loads(line)
                key = (length, found["causal"], found["kernels"])
                best[key] = max(best.get(key, 0), found["tflops"])
            for causal in (False, True):
                key = (length, causal, "sdpa")
                best[key] = max(best.get(key, 0), sdpa(length, causal))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; TFLOP/s, forward + backward")
    print("length mask   untiled portable fastest    sdpa  fastest/untiled fastest/sdpa")
    for length in (512, 1024, 2048, 4096, 8192):
        for causal in (False, True):
            old, portable, new, peer = (best[length, causal, name] for name in ("untiled", "portable", "fastest", "sdpa"))
            mask = "causal" if causal else "full"
            print(f"{length:6} {mask:6} {old:7.1f} {portable:8.1f} {new:7.1f} {peer:7.1f} {new / old:16.2f} {new / peer:12.2f}")


main()
