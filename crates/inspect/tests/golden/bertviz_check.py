"""Shows the arrays that `polyhead inspect --out trace.npz` writes in bertviz, and says whether it takes them.

    polyhead inspect --model DIR --out trace.npz 'The cat ate the mouse.'
    python bertviz_check.py trace.npz [page.html]

Run with bertviz 1.4.1, torch 2.15.0, numpy 2.4.6: head_view and model_view take all three kinds of attention, together for
a model of 2 + 2 layers (crates/models/tests/golden/opus), one after the other for one of 6 + 3.
"""

import sys

import numpy
import torch
from bertviz import head_view, model_view


def main(path, page=None):
    arrays = numpy.load(path)

    def layers(kind):
        """bertviz wants a list with a tensor for each layer: batch × heads × queries × keys."""
        return [torch.from_numpy(layer)[None] for layer in arrays[kind]]

    kinds = {
        "encoder": dict(encoder_attention=layers("encoder")),
        "decoder": dict(decoder_attention=layers("decoder")),
        "cross": dict(cross_attention=layers("cross")),
    }
    tokens = {
        "encoder": dict(encoder_tokens=arrays["source_tokens"].tolist()),
        "decoder": dict(decoder_tokens=arrays["target_tokens"].tolist()),
    }
    tokens["cross"] = {**tokens["encoder"], **tokens["decoder"]}
    views = {kind: {**kinds[kind], **tokens[kind]} for kind in kinds}
    # bertviz counts layers once for all kinds, so it takes them together only where encoder and decoder are equally deep.
    if len(arrays["encoder"]) == len(arrays["decoder"]):
        views = {"all": {**kinds["encoder"], **kinds["decoder"], **kinds["cross"], **tokens["cross"]}}
    for name, given in views.items():
        for view in (head_view, model_view):
            html = view(**given, html_action="return")
            print(f"{view.__name__}, {name}: {len(html.data)} characters of HTML")
            if page and view is head_view:
                with open(page, "w") as file:
                    file.write(html.data)
    for kind in ("encoder", "decoder", "cross"):
        sums = arrays[kind].sum(-1)
        print(f"{kind}: {arrays[kind].shape}, rows sum to {sums.min():.6f}–{sums.max():.6f}")


main(*sys.argv[1:])
