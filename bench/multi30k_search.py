"""Settings of a small Transformer on Multi30k, tried in PyTorch on a GPU: which is worth a recipe?

One run trains one setting and prints one line: validation BLEU (greedy, tokenised) of the last weights and of the mean of
the last 8 epochs, validation loss, and `epoch:training loss/validation loss` on the way. The test sets are not touched.

    polyhead tokenizer train --source train.en --target train.de --vocab-size 10000 --normalize none \\
        --character-coverage 1.0 --out tok10000.json
    polyhead tokenizer encode -t tok10000.json --format ids train.en | gzip > train10000.en.gz    # train, val; en, de
    python3 multi30k_search.py FOLDER NAME norm=pre lr=0.003 d=256 ff=512 drop=0.4 rdrop=1 sched=cos epochs=38

FOLDER holds these files and val.ref, the German validation text. With bpedrop=1 also drop1.en.gz … drop8.de.gz, the
training text cut with `--dropout 0.1` and eight seeds. `gain` multiplies the first query, key and value weights.
"""
import collections, gzip, json, math, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

folder, name = sys.argv[1:3]
settings = dict(norm='post', lr=5e-3, warm=2000, drop=0.3, adrop=0.0, vocab=10000, rdrop=0.0, bpedrop=0, gain=1.0,
                epochs=35, d=128, ff=256, h=4, L=4, seed=1, ls=0.1, tokens=4096, sched='isqrt')
for pair in sys.argv[3:]:
    key, value = pair.split('=')
    settings[key] = value if isinstance(settings[key], str) else type(settings[key])(float(value))
C = type('C', (), settings)
torch.manual_seed(C.seed)
torch.backends.cuda.matmul.allow_tf32 = True
dev, PAD, END, d, V = 'cuda', 0, 2, C.d, C.vocab


def read(part):
    sides = [gzip.open(f'{folder}/{part}.{side}.gz', 'rt') for side in ('en', 'de')]
    return [tuple([*map(int, line.split()), END] for line in pair) for pair in zip(*sides)]


train, val = read(f'train{V}'), read(f'val{V}')
cuts = [read(f'drop{k}') for k in range(1, 9)] if C.bpedrop else None
piece = {i: p for p, i in json.load(open(f'{folder}/tok{V}.json'))['model']['vocab'].items()}
references = [line.split() for line in open(f'{folder}/val.ref')]


def batches(data, tokens, generator):
    """Like lengths together, within a budget of padded tokens on the wider side, in random order."""
    order = torch.randperm(len(data), generator=generator).tolist()
    order.sort(key=lambda i: (max(map(len, data[i])), min(map(len, data[i]))))
    found, batch, widest = [], [], 0
    for i in order:
        length = max(map(len, data[i]))
        if batch and (len(batch) + 1) * max(widest, length) > tokens:
            found.append(batch)
            batch, widest = [], 0
        batch.append(i)
        widest = max(widest, length)
    found.append(batch)
    return [found[i] for i in torch.randperm(len(found), generator=generator).tolist()]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows]).to(dev, non_blocking=True)


def linear(d_in, d_out, gain=1.0):
    layer = nn.Linear(d_in, d_out)
    nn.init.xavier_uniform_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


angles = torch.arange(512)[:, None] / 10000 ** (2 * torch.arange(d // 2)[None] / d)
positions = torch.cat([angles.sin(), angles.cos()], 1).to(dev)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (linear(d, d, C.gain) for _ in range(3))
        self.o = linear(d, d)

    def forward(self, x, y, mask):
        heads = lambda layer, z: layer(z).view(z.shape[0], z.shape[1], C.h, d // C.h).transpose(1, 2)
        context = F.scaled_dot_product_attention(heads(self.q, x), heads(self.k, y), heads(self.v, y), attn_mask=mask,
                                                 dropout_p=C.adrop if self.training else 0.0)
        return self.o(context.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, is_decoder):
        super().__init__()
        self.self_attention, self.cross = Attention(), Attention() if is_decoder else None
        self.inner, self.outer = linear(d, C.ff), linear(C.ff, d)
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if is_decoder else 2)])

    def residual(self, x, index, work):
        if C.norm == 'post':
            return self.norms[index](x + F.dropout(work(x), C.drop, self.training))
        return x + F.dropout(work(self.norms[index](x)), C.drop, self.training)

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.residual(x, 0, lambda z: self.self_attention(z, z, mask))
        if memory is not None:
            x = self.residual(x, 1, lambda z: self.cross(z, memory, memory_mask))
        work = lambda z: self.outer(F.dropout(F.relu(self.inner(z)), C.adrop, self.training))
        return self.residual(x, len(self.norms) - 1, work)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(V, d)
        nn.init.normal_(self.table.weight, 0, d ** -0.5)
        self.encoder = nn.ModuleList([Layer(False) for _ in range(C.L)])
        self.decoder = nn.ModuleList([Layer(True) for _ in range(C.L)])
        self.last = nn.ModuleList([nn.LayerNorm(d) if C.norm == 'pre' else nn.Identity() for _ in range(2)])

    def embed(self, ids):
        return F.dropout(self.table(ids) * d ** 0.5 + positions[:ids.shape[1]], C.drop, self.training)

    def encode(self, source):
        mask, x = (source != PAD)[:, None, None], self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.last[0](x), mask

    def decode(self, memory, memory_mask, target):
        n = target.shape[1]
        causal, x = torch.ones(n, n, dtype=torch.bool, device=dev).tril()[None, None], self.embed(target)
        for layer in self.decoder:
            x = layer(x, causal, memory, memory_mask)
        return F.linear(self.last[1](x), self.table.weight)


model = Transformer().to(dev)
adam = torch.optim.Adam(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-9, fused=True)
val_batches = batches(val, 8000, torch.Generator().manual_seed(0))
shifted = lambda target: torch.cat([torch.full_like(target[:, :1], PAD), target[:, :-1]], 1)


@torch.no_grad()
def val_loss():
    model.eval()
    total = count = 0
    for batch in val_batches:
        source, target = (padded([val[i][side] for i in batch]) for side in (0, 1))
        logits = model.decode(*model.encode(source), shifted(target))
        total += F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction='sum').item()
        count += (target != PAD).sum().item()
    model.train()
    return total / count


def bleu(hypotheses):
    matches, totals = [0] * 4, [0] * 4
    for a, b in zip(hypotheses, references):
        for k in range(4):
            grams = [collections.Counter(tuple(x[i:i + k + 1]) for i in range(len(x) - k)) for x in (a, b)]
            matches[k] += sum((grams[0] & grams[1]).values())
            totals[k] += max(0, len(a) - k)
    if min(matches) == 0:
        return 0.0
    ratio = sum(map(len, references)) / sum(map(len, hypotheses))
    return 100 * min(1, math.exp(1 - ratio)) * math.exp(sum(math.log(m / t) for m, t in zip(matches, totals)) / 4)


@torch.no_grad()
def greedy():
    model.eval()
    found = [None] * len(val)
    for batch in val_batches:
        encoded = model.encode(padded([val[i][0] for i in batch]))
        ids = torch.full((len(batch), 1), PAD, device=dev)
        done = torch.zeros(len(batch), dtype=torch.bool, device=dev)
        for _ in range(60):
            following = model.decode(*encoded, ids)[:, -1].argmax(-1)
            following[done] = END
            ids, done = torch.cat([ids, following[:, None]], 1), done | (following == END)
            if done.all():
                break
        for i, row in zip(batch, ids[:, 1:].tolist()):
            row = row[:row.index(END)] if END in row else row
            found[i] = ''.join(piece[id] for id in row).replace('\u2581', ' ').split()
    model.train()
    return bleu(found)


generator, step, log, kept, started, total = torch.Generator().manual_seed(C.seed), 0, [], [], time.time(), None
for epoch in range(C.epochs):
    data = cuts[epoch % 8] if cuts else train
    order = batches(data, C.tokens, generator)
    total = total or len(order) * C.epochs
    for batch in order:
        step += 1
        fall = (C.warm / step) ** 0.5 if C.sched == 'isqrt' else \
            0.5 * (1 + math.cos(math.pi * max(0, step - C.warm) / (total - C.warm)))
        adam.param_groups[0]['lr'] = C.lr * min(step / C.warm, fall)
        rows = batch + batch if C.rdrop > 0 else batch
        source, target = (padded([data[i][side] for i in rows]) for side in (0, 1))
        logits = model.decode(*model.encode(source), shifted(target))
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=C.ls)
        if C.rdrop > 0:
            p, q = F.log_softmax(logits, -1).chunk(2)
            counts = target.chunk(2)[0] != PAD
            loss = loss + C.rdrop * (((p.exp() - q.exp()) * (p - q)).sum(-1) / 2 * counts).sum() / counts.sum()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
    if epoch % 5 == 4 or epoch < 3:
        log.append(f'{epoch + 1}:{loss.item():.2f}/{val_loss():.3f}')
    if epoch >= C.epochs - 8:
        kept.append({key: value.detach().clone() for key, value in model.state_dict().items()})
last = greedy()
model.load_state_dict({key: sum(weights[key] for weights in kept) / len(kept) for key in kept[0]})
print(f'{name:24s} last greedy {last:.2f}  averaged {greedy():.2f} loss {val_loss():.3f}  epochs {C.epochs} '
      f'{time.time() - started:.0f}s  {" ".join(log)}')
