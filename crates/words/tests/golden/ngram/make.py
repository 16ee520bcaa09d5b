"""Makes the golden files of n-gram models: ARPA files by KenLM's lmplz (0.3.0) and its scores of held-out lines.

    lmplz -S 200M -o 3 --discount_fallback < text.txt > order3.arpa
    lmplz -S 200M -o 4 --prune 0 0 1 --discount_fallback < text.txt > order4-pruned.arpa
    python make.py order3.arpa order4-pruned.arpa
    gzip -9 -n order3.arpa order4-pruned.arpa

text.txt and held-out.txt are lines of Shakespeare's Coriolanus (public domain), in lower case, punctuation apart.
"""

import json
import pathlib
import sys

import kenlm

lines = pathlib.Path("held-out.txt").read_text().splitlines()
scores = {}
for name in sys.argv[1:]:
    model = kenlm.Model(name)
    scores[pathlib.Path(name).stem] = [
        [[round(p, 6), n, oov] for p, n, oov in model.full_scores(line)] for line in lines
    ]
pathlib.Path("scores.json").write_text(json.dumps(scores, separators=(",", ":")) + "\n")
