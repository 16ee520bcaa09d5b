"""Makes expected.json: scores of labels by scikit-learn, and of spans of words by seqeval.

usage: python make.py

Needs: seqeval==1.2.2 scikit-learn==1.9.1
"""

import json
import pathlib
import random
import warnings

from seqeval import metrics as spans
from seqeval.scheme import BILOU, IOB2, IOBES
from sklearn import metrics

HERE = pathlib.Path(__file__).parent
RANDOM = random.Random(7)
TYPES = ["PER", "LOC", "ORG-X"]
PREFIXES = {"bio": "BI", "bioes": "BIES", "bilou": "BILU"}
SCHEMES = {"bio": IOB2, "bioes": IOBES, "bilou": BILOU}


def noise(scheme):
    """Labels in any order, most of them ill-formed."""
    labels = ["O"] + [f"{prefix}-{kind}" for prefix in PREFIXES[scheme] for kind in TYPES]
    return [RANDOM.choice(labels) for _ in range(RANDOM.randint(1, 9))]


def proper(scheme):
    """Labels of random spans."""
    begin, inside, end, single = {"bio": "BIIB", "bioes": "BIES", "bilou": "BILU"}[scheme]
    labels = []
    for _ in range(RANDOM.randint(1, 5)):
        kind, length = RANDOM.choice(TYPES), RANDOM.randint(1, 3)
        word = [begin] + [inside] * (length - 2) + [end] if length > 1 else [single]
        labels += RANDOM.choice([["O"], [f"{prefix}-{kind}" for prefix in word]])
    return labels


def changed(labels, other):
    """The labels with some from another sentence."""
    return [b if RANDOM.random() < 0.2 else a for a, b in zip(labels, (other * 9)[: len(labels)])]


def found_proper(reference, scheme):
    """Well-formed labels of the same length, some of whose spans are those of the reference."""
    while True:
        start = RANDOM.randint(0, len(reference))
        other = reference[:start] + proper(scheme)
        if len(other) >= len(reference):
            other = other[: len(reference)]
            if is_proper(other, scheme):
                return other


def is_proper(labels, scheme):
    """True if both readings agree, as they do on well-formed labels."""
    strict = spans.sequence_labeling.get_entities(labels) if scheme != "bilou" else None
    from seqeval.scheme import Entities

    found = [entity.to_tuple()[1:] for entity in Entities([labels], SCHEMES[scheme]).entities[0]]
    covered = sum(end - start for _, start, end in found)
    whole = covered == sum(label != "O" for label in labels)
    return whole and (strict is None or len(strict) == len(found))


def span_case(name, references, found, **options):
    report = spans.classification_report(references, found, output_dict=True, zero_division=0, **options)
    scores = lambda row: [100 * row["precision"], 100 * row["recall"], 100 * row["f1-score"], int(row["support"])]
    types = {kind: scores(row) for kind, row in report.items() if " avg" not in kind}
    return {"name": name, "references": references, "found": found, "total": scores(report["micro avg"]), "types": types}


def span_cases():
    for scheme in ["bio", "bioes"]:
        references = [noise(scheme) for _ in range(60)]
        found = [changed(labels, noise(scheme)) for labels in references]
        yield span_case(f"{scheme}, ill-formed", references, found)
    for scheme in PREFIXES:
        references = [proper(scheme) for _ in range(60)]
        while not all(is_proper(labels, scheme) for labels in references):
            references = [labels if is_proper(labels, scheme) else proper(scheme) for labels in references]
        found = [found_proper(labels, scheme) for labels in references]
        yield span_case(f"{scheme}, strict", references, found, mode="strict", scheme=SCHEMES[scheme])
    yield span_case("nothing found", [["B-X", "O"]], [["O", "O"]])


def label_case(name, labels, n):
    references = [RANDOM.choice(labels) for _ in range(n)]
    found = [label if RANDOM.random() < 0.6 else RANDOM.choice(labels + ["never right"]) for label in references]
    report = metrics.classification_report(references, found, output_dict=True, zero_division=0)
    row = lambda own: [100 * own["precision"], 100 * own["recall"], 100 * own["f1-score"], int(own["support"])]
    return {
        "name": name,
        "references": references,
        "found": found,
        "accuracy": 100 * metrics.accuracy_score(references, found),
        "macro_f1": 100 * metrics.f1_score(references, found, average="macro", zero_division=0),
        "labels": {label: row(own) for label, own in report.items() if isinstance(own, dict) and " avg" not in label},
    }


warnings.simplefilter("ignore")
cases = {
    "spans": list(span_cases()),
    "labels": [label_case("many", list("abcdefg"), 200), label_case("two", ["no", "yes"], 30), label_case("one", ["x"], 3)],
}
(HERE / "expected.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")
