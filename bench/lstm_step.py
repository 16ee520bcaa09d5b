"""Training step of an LSTM with attention: polyhead next to the same model in PyTorch, alternating, best of N.

    python bench/lstm_step.py POLYHEAD N [cpu|cuda]

The workload is that of `polyhead bench train --workload lstm`: 2 + 2 LSTM layers of width 512, additive attention after the
cell without input feeding, dropout 0.1, label smoothing 0.1, tied target and output table of 8,000 tokens, 64 × (24 + 24)
tokens, AdamW. PyTorch uses nn.LSTM: on the CPU with and without oneDNN, on a GPU cuDNN's, in bf16 by autocast. Every step
computes loss, all gradients and the update. Prints JSON lines: target tokens a second (best and median of the runs) of both, and the ratio of the best.
"""
import json
import statistics
import subprocess
import sys
import time

D, VOCAB, ROWS, LENGTH, LAYERS, DROPOUT = 512, 8000, 64, 24, 2, 0.1


def peer(device, threads, steps, kernels="default"):
    """Seconds of each step of the model in PyTorch; `kernels` plain: without oneDNN, whose LSTM can be the slower one."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    if device == "cpu":
        torch.set_num_threads(threads)
        torch.backends.mkldnn.set_flags(kernels == "default")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = (nn.Embedding(VOCAB, D) for _ in range(2))
            for table in (self.source, self.target):
                nn.init.normal_(table.weight, std=D ** -0.5)
            self.encoder, self.decoder = (nn.LSTM(D, D, LAYERS, batch_first=True, dropout=DROPOUT) for _ in range(2))
            self.query, self.key = (nn.Linear(D, D, bias=False) for _ in range(2))
            self.vector = nn.Linear(D, 1, bias=False)
            self.combine = nn.Linear(2 * D, D)
            self.bias = nn.Parameter(torch.zeros(VOCAB))
            self.dropout = nn.Dropout(DROPOUT)

        def forward(self, source, target):
            states, last = self.encoder(self.dropout(self.source(source) * D ** 0.5))
            h, _ = self.decoder(self.dropout(self.target(target) * D ** 0.5), last)
            pairs = torch.tanh(self.query(h)[:, :, None] + self.key(states)[:, None])
            weights = torch.softmax(self.vector(pairs).squeeze(-1), -1)
            y = torch.tanh(self.combine(torch.cat([weights @ states, h], -1)))
            return nn.functional.linear(self.dropout(y), self.target.weight, self.bias)

    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    source, target, expected = (torch.randint(VOCAB, (ROWS, LENGTH), device=device) for _ in range(3))
    seconds = []
    warm_up = 3 if device == "cuda" else 1
    for step in range(steps + warm_up):
        begin = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(source, target)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), expected.flatten(), label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        if step >= warm_up:
            seconds.append(time.perf_counter() - begin)
    return seconds


def main(polyhead, repeats, device="cpu"):
    steps = "100" if device == "cuda" else "10"
    counts = (2,) if device == "cpu" else (1,)
    found = {}
    for _ in range(repeats):
        for threads in counts:
            more = ["--dtype", "bf16"] if device == "cuda" else ["--threads", str(threads)]
            command = [polyhead, "bench", "train", "--workload", "lstm", "--device", device, "--steps", steps, "--format",
                       "jsonl", *more]
            output = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            found.setdefault(("polyhead", threads), []).append(output["tokens_per_s_best"])
            for kernels in ("default", "plain") if device == "cpu" else ("default",):
                count = "2" if device == "cpu" else steps
                command = [sys.executable, __file__, "peer", device, str(threads), count, kernels]
                seconds = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                found.setdefault((f"torch, {kernels} kernels", threads), []).append(ROWS * LENGTH / min(seconds))
    for (tool, threads), speeds in found.items():
        print(json.dumps({"bench": "lstm_step", "tool": tool, "device": device, "threads": threads,
                          "tokens_per_s_best": round(max(speeds)), "tokens_per_s_median_of_bests":
                          round(statistics.median(speeds)), "runs": [round(speed) for speed in speeds]}))
    of = lambda tool: [speed for (name, _), speeds in found.items() if name.startswith(tool) for speed in speeds]
    best = {tool: max(of(tool)) for tool in ("polyhead", "torch")}
    print(json.dumps({"bench": "lstm_step", "device": device, "ratio_of_bests": round(best["polyhead"] / best["torch"], 3)}))


if sys.argv[1] == "peer":
    print(json.dumps(peer(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])))
else:
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
