#!/usr/bin/env python3
"""The phrase list: check it, print its sources, score translations.

  phrases.py check   phrases.tsv                 validate the file, print the counts
  phrases.py sources phrases.tsv FROM TO         print the source lines of one direction
  phrases.py score   phrases.tsv FROM TO [--misses FILE] < TRANSLATIONS
  phrases.py keys    phrases.tsv                 print every source and every accepted answer

An answer may hold groups: (a|b|c) is one of three, (a|) is optional; groups may nest.
Answers are separated by " | " outside groups.
"""
import argparse
import collections
import itertools
import math
import re
import sys
import unicodedata

COLUMNS = ["category", "from", "to", "source", "accepted"]
CATEGORIES = ["everyday", "interface", "chat", "number", "name", "news", "short"]
OTHERS = ["de", "fr", "tr"]
MAX_EXPANSIONS = 20000
MIN_FROM_ENGLISH, MIN_INTO_ENGLISH = 180, 70
Item = collections.namedtuple("Item", "line category src tgt source accepted")
FOLD = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "–": "-", "—": "-", "‐": "-", "−": "-",
                      **dict.fromkeys('"“”„‟«»‹›‚')})


def norm(text, lang):
    """The form in which two sentences are compared; lang decides what a capital I is."""
    text = unicodedata.normalize("NFKC", text).replace("İ", "i")
    if lang == "tr":
        text = text.replace("I", "ı")
    text = " ".join(text.casefold().translate(FOLD).split())
    text = re.sub(r" +([?!:;%€$£.,])", r"\1", text)
    return re.sub(r"[\s.!?']+$", "", text).lstrip("' ")


def parse(text, pos=0, depth=0):
    """Parse alternatives up to the end or the closing bracket: a list of sequences of str or list."""
    alternatives = [[]]
    while pos < len(text) and text[pos] != ")":
        if text[pos] == "(":
            group, pos = parse(text, pos + 1, depth + 1)
            alternatives[-1].append(group)
        elif text[pos] == "|":
            if depth == 0 and text[pos - 1:pos + 2] != " | ":
                raise ValueError("bar outside a group without spaces around it")
            alternatives.append([])
            pos += 1
        else:
            end = re.compile(r"[()|]|$").search(text, pos).start()
            alternatives[-1].append(text[pos:end])
            pos = end
    if (pos < len(text)) != (depth > 0):
        raise ValueError("unbalanced group")
    return alternatives, pos + 1


def count(alternatives):
    """Number of expansions, without expanding."""
    return sum(math.prod(1 if isinstance(part, str) else count(part) for part in sequence)
               for sequence in alternatives)


def expand(alternatives):
    """Yield the expansions one by one."""
    for sequence in alternatives:
        parts = [[part] if isinstance(part, str) else list(expand(part)) for part in sequence]
        for choice in itertools.product(*parts):
            yield "".join(choice)


def answers(item):
    """Yield every accepted answer of an item, white space tidied."""
    tree = parse(item.accepted)[0]
    if any(count([sequence]) > MAX_EXPANSIONS for sequence in tree):
        raise ValueError(f"an answer has more than {MAX_EXPANSIONS} expansions")
    for answer in expand(tree):
        yield re.sub(r" +([.,])", r"\1", " ".join(answer.split())).replace("..", ".")


def load(path):
    """Read the items; stop with a message on a line that has not five columns."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines or lines[0].split("\t") != COLUMNS:
        sys.exit(f"{path}:1: header must be: {' '.join(COLUMNS)} (tab separated)")
    for number, line in enumerate(lines[1:], 2):
        if line.count("\t") != len(COLUMNS) - 1:
            sys.exit(f"{path}:{number}: {len(COLUMNS)} columns expected")
    return [Item(number, *line.split("\t")) for number, line in enumerate(lines[1:], 2)]


def problems(items):
    """Yield (line, message) for everything wrong in the list."""
    seen, targets, totals = {}, collections.defaultdict(set), collections.Counter()
    for item in items:
        if item.category not in CATEGORIES:
            yield item.line, f"unknown category '{item.category}'"
        if not (item.src == "en" and item.tgt in OTHERS or item.src in OTHERS and item.tgt == "en"):
            yield item.line, f"unknown direction {item.src}-{item.tgt}"
        if not item.source.strip() or not item.accepted.strip():
            yield item.line, "empty source or answer"
            continue
        key = (item.src, item.tgt, norm(item.source, item.src))
        if key in seen:
            yield item.line, f"same source as line {seen[key]}"
        seen.setdefault(key, item.line)
        totals[item.src, item.tgt] += 1
        if item.src == "en":
            targets[item.source].add(item.tgt)
        try:
            for answer in answers(item):
                if not norm(answer, item.tgt):
                    yield item.line, "empty answer"
                elif item.category not in ("name", "short") and norm(answer, "en") == norm(item.source, "en"):
                    yield item.line, f"answer equals the source: {answer}"
        except ValueError as error:
            yield item.line, str(error)
    for source, found in targets.items():
        if len(found) < len(OTHERS):
            yield 0, f"'{source}' has only {' '.join(sorted(found))}"
    for other in OTHERS:
        for pair, least in ((("en", other), MIN_FROM_ENGLISH), ((other, "en"), MIN_INTO_ENGLISH)):
            if totals[pair] < least:
                yield 0, f"{pair[0]}-{pair[1]} has {totals[pair]} items, at least {least} needed"


def check(path, items):
    """Print the counts; exit with the list of problems when there are any."""
    wrong = [f"{path}:{line}: {message}" for line, message in problems(items)]
    pairs = [("en", other) for other in OTHERS] + [(other, "en") for other in OTHERS]
    print(f"{'category':10}", *(f"{src}-{tgt}" for src, tgt in pairs))
    for name in CATEGORIES + ["all"]:
        row = [sum((i.src, i.tgt) == p and name in (i.category, "all") for i in items) for p in pairs]
        print(f"{name:10}", *(f"{value:5}" for value in row))
    if wrong:
        sys.exit("\n".join(wrong))


def score(items, args):
    """Compare the translations on standard input with the accepted answers, line by line."""
    lines = sys.stdin.buffer.read().decode("utf-8", "replace").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    if len(lines) != len(items):
        sys.exit(f"{len(lines)} translations for {len(items)} sources")
    misses = []
    for item, line in zip(items, lines):
        accepted = list(answers(item))
        if norm(line, item.tgt) not in {norm(answer, item.tgt) for answer in accepted}:
            misses.append((item.source, line.strip().replace("\t", " "), accepted[0]))
    good = len(items) - len(misses)
    print(f"phrases {args.src}-{args.tgt} accepted {good} of {len(items)} ({100 * good / len(items):.1f} %)")
    if args.misses:
        with open(args.misses, "w", encoding="utf-8") as file:
            file.writelines("\t".join(row) + "\n" for row in [("source", "output", "accepted")] + misses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "sources", "score", "keys"])
    parser.add_argument("file")
    parser.add_argument("src", nargs="?", metavar="FROM")
    parser.add_argument("tgt", nargs="?", metavar="TO")
    parser.add_argument("--misses", metavar="FILE")
    args = parser.parse_args()
    items = load(args.file)
    if args.command == "check":
        return check(args.file, items)
    if args.command == "keys":
        texts = (text for item in items for text in itertools.chain([item.source], answers(item)))
        return print("\n".join(dict.fromkeys(texts)))
    items = [item for item in items if (item.src, item.tgt) == (args.src, args.tgt)]
    if not items:
        sys.exit(f"no items for {args.src}-{args.tgt}")
    if args.command == "sources":
        return print("\n".join(item.source for item in items))
    return score(items, args)


if __name__ == "__main__":
    main()
