"""Counts the facts that captions have right, from the pictures' facts alone, with code that shares nothing with Polyhead's.

    polyhead caption -m runs/scenes/model --format jsonl data/scenes/test > captions.jsonl
    python facts.py data/scenes/test.jsonl captions.jsonl
"""

import itertools
import json
import re
import sys

SHAPES = "circle square triangle star cross ring".split()
COLOURS = "red green blue yellow purple orange white cyan".split()
WORDS = {"left": "left of", "right": "right of", "above": "above", "over": "above", "below": "below", "under": "below"}
THING = rf"an? (?:(small|large) )?({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})"
LINK = r"(?:to the )?(left|right|above|over|below|under)(?: of)?"


def truths(objects):
    """All true relations, from the centres."""
    found = set()
    for (i, a), (j, b) in itertools.permutations(enumerate(objects), 2):
        for name, far in (("left of", b["x"] - a["x"]), ("right of", a["x"] - b["x"]),
                          ("above", b["y"] - a["y"]), ("below", a["y"] - b["y"])):
            if far >= 120:
                found.add((i, name, j))
    return found


def best(objects, things):
    """The object of each thing, over all assignments: most shapes, then most colours, then most sizes."""
    slots = list(range(len(objects))) + [None] * len(things)
    def value(order):
        pairs = [(objects[at], thing) for at, thing in zip(order, things) if at is not None]
        return [sum(own[key] == thing[index] for own, thing in pairs)
                for index, key in ((2, "shape"), (1, "colour"), (0, "size"))] + [len(pairs)]
    return max(set(itertools.permutations(slots, len(things))), key=value) if things else ()


def main(facts, captions):
    texts = {row["image"].split("/")[-1]: row["caption"] for row in map(json.loads, open(captions))}
    counts = {}
    for row in map(json.loads, open(facts)):
        objects, text = row["objects"], texts[row["image"].split("/")[-1]]
        things = re.findall(THING, text)
        order = best(objects, things)
        most = max(len(objects), len(things))
        pairs = [(objects[at], thing) for at, thing in zip(order, things) if at is not None]
        shapes = sum(own["shape"] == thing[2] for own, thing in pairs)
        colours = sum(own["colour"] == thing[1] for own, thing in pairs)
        # Every link is between the thing before it (or the first one, after "and") and the next.
        links = [(match.start(), WORDS[match.group(1)]) for match in re.finditer(rf"\b{LINK} (?=an? )", text)]
        starts = [match.start() for match in re.finditer(THING, text)]
        right = 0
        for start, name in links:
            after = sum(at < start for at in starts)
            before = 0 if re.search(r"\band (to the )?$", text[:start]) else after - 1
            one, other = (order[at] if at < len(order) else None for at in (before, after))
            right += (one, name, other) in truths(objects)
        needed = max(len(objects) - 1, len(links))
        for key, part, whole in (("objects", shapes, most), ("colours", colours, most), ("relations", right, needed)):
            for name in (key, f"{key} ({row.get('held_out', 'known')})"):
                own = counts.setdefault(name, [0, 0])
                own[0] += part
                own[1] += whole
    for name, (part, whole) in counts.items():
        print(f"{name:28} {100 * part / max(whole, 1):6.2f} % ({part} of {whole})")


main(*sys.argv[1:])
