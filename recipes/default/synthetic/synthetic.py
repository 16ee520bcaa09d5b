#!/usr/bin/env python3
"""Synthetic sentence pairs and noised copies of pairs, for training.

synthetic.py pairs OUTDIR [--count N] [--keys FILE] [--seed S]
    writes OUTDIR/synthetic.eng-deu.tsv, synthetic.eng-fra.tsv and synthetic.eng-tur.tsv: N distinct lines each
    (English TAB other language), expanded from templates.tsv, web.tsv, vocabulary.tsv and names.tsv beside this file
    (the slots: see fillers.py): amounts, dates, times, numbers, names, list items, labels, greetings, single words,
    strings of web sites and everyday sentences. FILE holds keys (see `key`) of sentences that must not be written.
synthetic.py noise IN.tsv OUT.tsv [--share 0.15] [--seed 1] [--languages eng,deu]
    writes a share of the pairs (source TAB target) with a noised source: lower case, capitals (on both sides), without
    final punctuation, without accents, with typing errors, odd spaces, other quotes.
synthetic.py lines IN.tsv OUT.tsv [--share 0.1] [--seed 1]
    joins two or three short pairs into one line; the number of lines is the share of the number of pairs read.

Examples:
    python3 synthetic.py pairs out --count 1000
    python3 synthetic.py noise out/synthetic.eng-tur.tsv noised.tsv --share 0.2 --languages eng,tur
    python3 synthetic.py lines out/synthetic.eng-fra.tsv joined.tsv

Templates: a slot is {name} or {name:form}; a digit after the name makes a second value of the same kind ({f2}).
The forms are those of the language: Turkish suffixes (i e de den in le), German and French articles, elision.
"""
import argparse
import os
import random
import re
import sys
import unicodedata

from fillers import (DAYS, DIGITS, LANGUAGES, MONTHS, TENS, Values, capital, english_noun, french_noun, german_noun, table,
                     turkish_lower)


def key(sentence):
    """What two copies of one sentence have in common (the same as in prepare.sh)."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", sentence).lower().replace("ı", "i"))


# ---------------------------------------------------------------- expansion

SLOT = re.compile(r"\{([a-z]+[0-9]?)(?::([a-z]+))?\}")


class Template:
    """A sentence in the four languages; "-" stands for a language without it."""

    def __init__(self, texts):
        self.texts = dict(zip(LANGUAGES, texts))
        self.slots = sorted({slot for text in texts for slot, _ in SLOT.findall(text)})
        self.parts = {}
        for language, text in self.texts.items():
            pieces, end = [], 0
            for match in SLOT.finditer(text):
                pieces += [text[end:match.start()], (match[1], match[2])]
                end = match.end()
            self.parts[language] = pieces + [text[end:]]
        self.sentence = texts[0][-1] in ".?!" or texts[0][0].isupper()

    def expand(self, values):
        """The texts of the four languages with new values in the slots."""
        drawn = {}
        for slot in self.slots:
            drawn[slot] = values.draw(slot)
            first = slot[:-1] if slot[-1].isdigit() and slot[:-1] in drawn else None
            while first and not drawn[slot].follows(drawn[first]):
                drawn[first], drawn[slot] = values.draw(first), values.draw(slot)
        texts = []
        for language in LANGUAGES:
            text = "".join(part if isinstance(part, str) else drawn[part[0]].form(language, part[1])
                           for part in self.parts[language]).replace(".m..", ".m.")
            texts.append(capital(text, language) if self.sentence else text)
        return texts


def bare(kind, texts):
    """All ways to write an entry of the vocabulary."""
    english, german, french, turkish = texts
    turkish = turkish.partition("=")[0].rstrip("+")
    found = []
    if kind in "ntpbdlm":
        word = french.split(" ", 1)[1] if " " in french and not french.startswith("l'") else french.removeprefix("l'")
        forms = [(english, german.split(" ", 1)[1], word, turkish)]
        definite = french if kind == "m" else french_noun(french, "le")
        forms.append(("the " + english, german, definite, turkish))
        if kind != "m":
            forms.append((english_noun(english, "a"), german_noun(german, "ein"), french, "bir " + turkish))
    elif kind == "v":
        forms = [(english, german, french, turkish), ("to " + english, german, french, turkish)]
    else:
        forms = [(english, german, french, turkish)]
    for form in forms:
        found.append(form)
        found.append(tuple(capital(text, language) for text, language in zip(form, LANGUAGES)))
    return found


def counted():
    """The words for the numbers from 0 to 100."""
    english = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
               "seventeen eighteen nineteen").split()
    english_tens = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
    german = ("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
              "siebzehn achtzehn neunzehn").split()
    german_tens = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
    french = ("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
              "dix-huit dix-neuf").split()
    french_tens = "- - vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()
    rows = []
    for number in range(100):
        ten, one = divmod(number, 10)
        turkish = " ".join(word for word in (TENS[ten] if ten else "", DIGITS[one] if one else "") if word) or "sıfır"
        if number < 20:
            rows.append((english[number], german[number], french[number], turkish))
            continue
        unit = "ein" if one == 1 else german[one]
        rest = number - 60 if 60 <= number < 80 else number - 80 if number >= 80 else one
        joint = " et " if rest in (1, 11) and number < 80 else "-"
        plural = "s" if number == 80 else ""
        rows.append((english_tens[ten] + (f"-{english[one]}" if one else ""),
                     (f"{unit}und" if one else "") + german_tens[ten],
                     french_tens[ten] + plural + (joint + french[rest] if rest else ""), turkish))
    return rows + [("one hundred", "einhundert", "cent", "yüz"), ("one thousand", "eintausend", "mille", "bin"),
                   ("one million", "eine Million", "un million", "bir milyon")]


def listed():
    """Countries and languages, bare."""
    return [[re.sub("^(la |le |l'|die )| f$", "", text) for text in row[1:5]]
            for row in table("names.tsv") if row[0] in ("country", "language")]


# The share of each group of templates among the lines that are drawn.
WEIGHTS = (("number", 22), ("name", 24), ("say", 22), ("web", 10), ("label", 6), ("greet", 3), ("words", 6), ("item", 7))


def pairs(arguments):
    rng = random.Random(arguments.seed)
    values = Values(rng)
    held = set()
    if arguments.keys:
        with open(arguments.keys, encoding="utf-8") as file:
            held = {line.rstrip("\n") for line in file}
    groups, fixed, nouns = {}, [], []
    for row in table("templates.tsv") + table("web.tsv"):
        template = Template(row[1:5])
        if template.slots:
            groups.setdefault(row[0], []).append(template)
        else:
            texts = template.expand(values)
            fixed.append(texts)
    for row in counted() + DAYS + MONTHS + listed():
        fixed += bare("o", row)
    for row in table("vocabulary.tsv"):
        fixed += bare(row[0], row[1:5])
        if row[0] in "ntpbdlm":
            nouns.append(bare(row[0], row[1:5])[0])
    everything = [template for name in ("name", "say", "web", "number") for template in groups[name]]
    names, weights = [name for name, _ in WEIGHTS], [weight for _, weight in WEIGHTS]

    def drawn():
        name = rng.choices(names, weights)[0]
        if name == "words":
            return words(rng, nouns)
        if name == "item":
            texts = rng.choice(everything).expand(values)
            mark = rng.choice(("- ", "• ", "* ", f"{rng.randint(1, 20)}. ", f"{rng.randint(1, 9)}) ", "– ", "– "))
            return ["-" if text == "-" else mark + text for text in texts]
        return rng.choice(groups[name]).expand(values)

    written = {language: {} for language in LANGUAGES[1:]}
    skipped = dict.fromkeys(written, 0)
    known = {}

    def is_held(text):
        if text not in known:
            known[text] = key(text) in held
        return known[text]

    def keep(texts):
        for place, language in enumerate(LANGUAGES[1:], 1):
            line = texts[0] + "\t" + texts[place]
            if texts[place] == "-" or line in written[language] or len(written[language]) >= arguments.count:
                continue
            if held and (is_held(texts[0]) or is_held(texts[place])):
                skipped[language] += 1
                continue
            written[language][line] = None

    rng.shuffle(fixed)
    for texts in fixed:
        keep(texts)
    for _ in range(arguments.count * 10):
        if all(len(lines) >= arguments.count for lines in written.values()):
            break
        keep(drawn())
    os.makedirs(arguments.out, exist_ok=True)
    for language, lines in written.items():
        lines = list(lines)
        rng.shuffle(lines)
        path = os.path.join(arguments.out, f"synthetic.eng-{language}.tsv")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(line + "\n" for line in lines)
        print(f"{os.path.basename(path)}: {len(lines)} lines, {skipped[language]} skipped by their keys")


def words(rng, nouns):
    """An enumeration of two to four bare nouns."""
    chosen = rng.sample(nouns, rng.randint(2, 4))
    last = rng.choice((("and", "und", "et", "ve"), ("or", "oder", "ou", "veya"), (",",) * 4, (",",) * 4))
    texts = []
    for place in range(4):
        row = [noun[place] for noun in chosen]
        joint = ", " if last[0] == "," else f" {last[place]} "
        texts.append(", ".join(row[:-1]) + joint + row[-1])
    if rng.random() < 0.5:
        texts = [capital(text, language) for text, language in zip(texts, LANGUAGES)]
    return texts


# ---------------------------------------------------------------- noise

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
ACCENTS = {"ı": "i", "ß": "ss", "ø": "o", "œ": "oe", "æ": "ae", "ł": "l", "Œ": "Oe", "Æ": "Ae", "Ø": "O", "Ł": "L"}
UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}


def neighbours(letter):
    """The keys beside and above or below a letter."""
    found = ""
    for number, row in enumerate(ROWS):
        place = row.find(letter)
        if place >= 0:
            found = row[max(place - 1, 0):place] + row[place + 1:place + 2]
            for other in (number - 1, number + 1):
                if 0 <= other < len(ROWS):
                    found += ROWS[other][place:place + 1]
    return found


def lower(text, language):
    return turkish_lower(text) if language == "tur" else text.lower()


def upper(text, language):
    return (text.replace("i", "İ") if language == "tur" else text).upper()


def plain(text, language, rng):
    """The text without accents."""
    table_of = dict(ACCENTS)
    if language == "deu" and rng.random() < 0.5:
        table_of.update(UMLAUTS)
    text = "".join(table_of.get(letter, letter) for letter in text)
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


def mistype(text, target, rng):
    """The text with one or two typing errors in words of four letters or more that the target does not copy."""
    copied = target.lower()
    for _ in range(rng.choice((1, 1, 2))):
        found = [match.span() for match in re.finditer(r"[^\W\d_]{4,}", text)
                 if match[0].lower() not in copied]
        if not found:
            break
        start, end = rng.choice(found)
        place, kind = rng.randrange(start + 1, end - 1), rng.randrange(4)
        letter, near = text[place], neighbours(text[place].lower())
        if kind == 0 and near:
            text = text[:place] + rng.choice(near) + text[place + 1:]
        elif kind == 1:
            text = text[:place] + letter + text[place:]
        elif kind == 2:
            text = text[:place] + text[place + 1] + letter + text[place + 2:]
        else:
            text = text[:place] + text[place + 1:]
    return text


def respace(text, rng):
    """The text with doubled or missing spaces after punctuation."""
    return re.sub(r"(?<=[^\W\d_][,;:!?.]) (?=[^\W\d_])", rng.choice(("", "  ")), text)


def requote(text, rng):
    """The text with straight quotes in the place of typographic ones, or the other way round."""
    if re.search("[“”„«»‘’‚]", text):
        return re.sub("[‘’‚]", "'", re.sub("[“”„]|« ?| ?»", '"', text))
    opening, closing = rng.choice(("“”", "„“", "«»", "””"))
    if text.count('"') % 2 == 0:
        text = re.sub('"([^"]*)"', lambda match: opening + match[1] + closing, text)
    return re.sub(r"(?<=\w)'(?=\w)", "’", text)


def noised(source, target, languages, rng):
    """The pair after one or two changes, or None when nothing changed."""
    kinds = rng.sample(("lower", "upper", "end", "plain", "type", "type", "space", "quote"), rng.choice((1, 1, 2)))
    before = source
    for kind in kinds:
        if kind == "lower":
            source = lower(source, languages[0])
        elif kind == "upper":
            source, target = upper(source, languages[0]), upper(target, languages[1])
        elif kind == "end" and source[-1:] in ".!?…" and source[-1:] == target[-1:]:
            source, target = source.rstrip(".!?…").rstrip(), target.rstrip(".!?…").rstrip()
        elif kind == "plain":
            source = plain(source, languages[0], rng)
        elif kind == "type":
            source = mistype(source, target, rng)
        elif kind == "space":
            source = respace(source, rng)
        elif kind == "quote":
            source = requote(source, rng)
    return (source, target) if source != before and source.strip() and target.strip() else None


def read_pairs(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if len(columns) == 2 and columns[0] and columns[1]:
                yield columns


def noise(arguments):
    rng, languages = random.Random(arguments.seed), arguments.languages.split(",")
    read = count = 0
    with open(arguments.out, "w", encoding="utf-8", newline="\n") as file:
        for source, target in read_pairs(arguments.input):
            read += 1
            if rng.random() >= arguments.share:
                continue
            pair = next(filter(None, (noised(source, target, languages, rng) for _ in range(4))), None)
            if pair:
                count += 1
                file.write("\t".join(pair) + "\n")
    print(f"{read} pairs read, {count} noised pairs written")


def lines(arguments):
    rng, read, short = random.Random(arguments.seed), 0, []
    for source, target in read_pairs(arguments.input):
        read += 1
        sentences = source[-1] in ".!?…" and target[-1] in ".!?…"
        if sentences and len(source.split()) <= 15 and len(target.split()) <= 15 and rng.random() < arguments.share * 5:
            short.append((source, target))
    rng.shuffle(short)
    count, place = 0, 0
    with open(arguments.out, "w", encoding="utf-8", newline="\n") as file:
        while count < read * arguments.share and place + 3 <= len(short):
            size = rng.choice((2, 2, 3))
            file.write("\t".join(" ".join(pair[side] for pair in short[place:place + size]) for side in (0, 1)) + "\n")
            count, place = count + 1, place + size
    print(f"{read} pairs read, {count} lines written")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("pairs")
    command.add_argument("out", metavar="OUTDIR")
    command.add_argument("--count", type=int, default=60000)
    command.add_argument("--keys", metavar="FILE")
    command.add_argument("--seed", type=int, default=1)
    for name, share in (("noise", 0.15), ("lines", 0.1)):
        command = commands.add_parser(name)
        command.add_argument("input", metavar="IN.tsv")
        command.add_argument("out", metavar="OUT.tsv")
        command.add_argument("--share", type=float, default=share)
        command.add_argument("--seed", type=int, default=1)
        if name == "noise":
            command.add_argument("--languages", default="eng,deu", help="source,target")
    arguments = parser.parse_args()
    {"pairs": pairs, "noise": noise, "lines": lines}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
