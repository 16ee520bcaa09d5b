#!/usr/bin/env python3
"""Translations by the teacher of all text that prepare.sh prepared: the student learns from them.

    distil.py TEACHER TEXT OUT [--minutes 7.5] [--raw] [--device cuda] [--polyhead polyhead]

TEACHER is a model folder, TEXT the folder of prepare.sh, OUT a folder for these files, all "source TAB target":

    tatoeba.SRC-TGT.tsv   everyday sentences with the teacher's translation (beam 2)
    teacher.SRC-TGT.tsv   all other sentences, monolingual text included, with the teacher's translation (greedy).
                          Pairs of parliament debates that the time did not suffice for stand here as people wrote them.
    back.SRC-TGT.tsv      back-translation: the source is the teacher's, the target is human text

Distillation: Kim & Rush 2016, "Sequence-Level Knowledge Distillation". Back-translation: Sennrich et al. 2016, "Improving
Neural Machine Translation Models with Monolingual Data". All six directions run at once, each as a process that shares the
GPU; each stops reading when the minutes are over, and another call goes on where it stopped. A translation is dropped if
its length, its numbers or a repetition show that it is wrong.
"""

import argparse
import collections
import multiprocessing
import os
import random
import re
import subprocess
import sys
import time

LANGUAGES = ["deu", "fra", "tur"]
DEBATES = ["europarl-own", "europarl-shared"]
# Turkish has no debates of its own; so many English sentences of theirs are translated into it.
DEBATES_INTO_TURKISH = 150_000


def pairs(path):
    """The pairs of a file; none where there is no file."""
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield tuple(line.rstrip("\n").split("\t"))


def lines(path):
    return [line for (line,) in pairs(path)]


def files(text, other, is_wanted):
    """The names of the sets of a language."""
    ending = f".eng-{other}.tsv"
    names = sorted(name[: -len(ending)] for name in os.listdir(text) if name.endswith(ending))
    made = ("valid", "synthetic", "noise", "lines")
    return [f"{text}/{name}{ending}" for name in names if name not in made and is_wanted(name)]


def distinct(*lists):
    """All sentences once, in a fixed random order."""
    found = list(dict.fromkeys(sentence for part in lists for sentence in part))
    random.Random(1).shuffle(found)
    return found


def column(paths, index):
    return [pair[index] for path in paths for pair in pairs(path)]


def sources(text, source, target):
    """What is translated from source into target: everyday sentences, and all others in order of importance."""
    def everyday(name):
        return name.startswith("tatoeba")

    def small(name):
        return not everyday(name) and name not in DEBATES

    def debates(name):
        return name in DEBATES

    other, index = (target, 0) if source == "eng" else (source, 1)
    own = [other] if source != "eng" else LANGUAGES
    first = distinct(*(column(files(text, language, everyday), index) for language in own))
    monolingual = lines(f"{text}/mono.{source}.txt")
    second = distinct(column(files(text, other, small), index), monolingual)
    if target == "tur":
        third = distinct(column(files(text, "deu", debates), 0))[:DEBATES_INTO_TURKISH]
    else:
        third = distinct(column(files(text, other, debates), index))
    known = set(first)
    second = [sentence for sentence in second if sentence not in known]
    known.update(second)
    return first, second + [sentence for sentence in third if sentence not in known]


def is_short(sentence):
    """True if a sentence surely has fewer tokens than the teacher can read: signs and foreign letters are tokens each."""
    letters = sum(letter.isalpha() and letter < "\u0180" or letter == " " for letter in sentence)
    return letters // 3 + 4 * (len(sentence) - letters) < 240


def is_good(source, target):
    """False for translations that are wrong by their length, numbers or repetition."""
    a, b = len(source), len(target)
    if b == 0 or max(a, b) > 3 * min(a, b) + 20 or "\ufffd" in target:
        return False
    words = target.split()
    if len(words) > 95 or (len(words) > 3 and source == target):
        return False
    if any(words[at] == words[at + 1] == words[at + 2] for at in range(len(words) - 2)):
        return False
    def numbers(sentence):
        return collections.Counter(re.sub(r"\D", "", number) for number in re.findall(r"\d[\d.,:\s]*\d", sentence))
    return numbers(source) == numbers(target)


def translate(options, source, target, kind, sentences, deadline):
    """The sentences that were reached before the deadline, with their translations.

    Translations are appended to a file of their own; what it has already is not translated again. After a failure the
    translator goes on with smaller batches.
    """
    path = f"{options.out}/raw/{source}-{target}.{kind}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    command = [options.polyhead, "translate", "--model", options.teacher, "--device", options.device, "--quiet"]
    command += ["--from", source, "--to", target, "--raw", "--max-length", "120"]
    command += ["--beam", "2" if kind == "everyday" else "1"]
    for batch_tokens, dtype in ((32768, "bf16"), (16384, "bf16"), (16384, "f32"), (4096, "f32")):
        done = complete_lines(path)
        if done >= len(sentences) or time.time() > deadline:
            break
        own = command + (["--batch-tokens", str(batch_tokens), "--dtype", dtype] if options.device == "cuda" else [])
        if run(own, sentences[done:], path, deadline) == 0:
            break
        print(f"{source}-{target}: stopped after {complete_lines(path):,} of {len(sentences):,} {kind} sentences", flush=True)
    complete_lines(path)
    with open(path, encoding="utf-8", newline="\n") as file:
        return list(zip(sentences, (line.rstrip("\n") for line in file)))


def run(command, sentences, path, deadline):
    """Feeds a translator until the deadline and appends what it writes; returns its exit status."""
    with open(path, "a", encoding="utf-8") as written:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=written)
        try:
            for start in range(0, len(sentences), 512):
                if time.time() > deadline:
                    break
                process.stdin.write("".join(s + "\n" for s in sentences[start : start + 512]).encode())
            process.stdin.close()
        except BrokenPipeError:
            pass
        return process.wait()


def complete_lines(path):
    """The number of lines of a file, after removing a last one without its end."""
    with open(path, "a+b") as file:
        file.seek(0)
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
        return data.count(b"\n")


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in rows)


def direction(options, source, target, deadline):
    """All files of one direction, and those of back-translation of the other."""
    started = time.time()
    first, second = sources(options.text, source, target)
    first, second = ([s for s in part if is_short(s)] for part in (first, second))
    everyday = translate(options, source, target, "everyday", first, deadline)
    others = translate(options, source, target, "others", second, deadline)
    if options.raw:
        return
    good = [[pair for pair in part if is_good(*pair)] for part in (everyday, others)]
    write(f"{options.out}/tatoeba.{source}-{target}.tsv", good[0])
    reached = {sentence for sentence, _ in others}
    other, order = (target, 1) if source == "eng" else (source, -1)
    debates = (pair[::order] for path in files(options.text, other, lambda name: name in DEBATES) for pair in pairs(path))
    rest = [pair for pair in debates if pair[0] not in reached]
    write(f"{options.out}/teacher.{source}-{target}.tsv", good[1] + rest)
    # Human text as the target: monolingual text; for Turkish everything that was not Turkish text's own other side.
    human = set(lines(f"{options.text}/mono.{source}.txt"))
    if target == "tur":
        own = set(column(files(options.text, "tur", lambda name: True), 0))
        human.update(sentence for part in (first, second) for sentence in part if sentence not in own)
    back = [(b, a) for part in good for a, b in part if a in human]
    write(f"{options.out}/back.{target}-{source}.tsv", back)
    counts = [len(first), len(everyday), len(good[0]), len(second), len(others), len(good[1]), len(rest), len(back)]
    print(f"{source}-{target}  " + "".join(f"{count:11,}" for count in counts) + f"  {time.time() - started:6.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher")
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, default=7.5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--raw", action="store_true", help="translate only, into OUT/raw; a later call goes on from there")
    parser.add_argument("--polyhead", default=os.environ.get("POLYHEAD", "polyhead"))
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    deadline = time.time() + 60 * options.minutes
    print("           everyday    reached       kept     others    reached       kept      human       back", flush=True)
    ways = [way for other in LANGUAGES for way in (("eng", other), (other, "eng"))]
    running = [multiprocessing.Process(target=direction, args=(options, *way, deadline)) for way in ways]
    for process in running:
        process.start()
    for process in running:
        process.join()
    if any(process.exitcode for process in running):
        sys.exit("a direction failed")


if __name__ == "__main__":
    main()
