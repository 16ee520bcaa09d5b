#!/usr/bin/env python3
"""Makes accents.de, accents.fr and accents.tr: the accented words of a language that people type without accents.

    python3 crates/translate/assets/make_accents.py data

reads data/tatoeba/train.eng-XXX.tsv.gz and data/parallel/tatoeba-more.en-XX.tsv.xz (sentences of Tatoeba, tatoeba.org,
CC-BY 2.0 FR; the second column). A file has one word a line, in small letters, sorted by its letters without accents,
each such spelling once. Of the words with the same plain spelling the most frequent is taken, if it has an accent, occurs
twice or more and 4 times as often as all others together; then the most frequent words, up to 50,000 bytes a file.

A word is marked `?` if its plain spelling is a word too: of this language (more than once in 50 of the accented one), or a
frequent one of English (more than 100 in a million). It counts only in a sentence with an unmarked word.
"""
import collections, gzip, lzma, os, re, sys

LANGUAGES = {"de": "deu", "fr": "fra", "tr": "tur"}
MAX_BYTES = 50_000
MIN_COUNT = 2
LIKELY = 4
SURE = 50
ENGLISH = 100e-6
WORD = re.compile(r"[^\W\d_]+")
LETTERS = str.maketrans("àâäáãçéèêëğıîïíñôöóşùûüú", "aaaaaceeeegiiiinooosuuuu") | {
    ord("œ"): "oe",
    ord("æ"): "ae",
    ord("ß"): "ss",
}


def plain(word):
    """A word without accents, as `plain` of `mask/accents.rs`; other letters stay, and their words are left out."""
    return word.translate(LETTERS)


def lower(word, language):
    if language == "tr":
        word = word.replace("I", "ı").replace("İ", "i")
    return word.lower()


def pairs(data, language):
    names = [f"tatoeba/train.eng-{LANGUAGES[language]}.tsv.gz", f"parallel/tatoeba-more.en-{language}.tsv.xz"]
    for name in names:
        with (gzip if name.endswith(".gz") else lzma).open(os.path.join(data, name), "rt", encoding="utf-8") as file:
            for line in file:
                columns = line.rstrip("\n").split("\t")
                if len(columns) > 1:
                    yield columns[:2]


def main(data):
    counts = {language: collections.Counter() for language in ["en", *LANGUAGES]}
    for language in LANGUAGES:
        for english, other in pairs(data, language):
            counts["en"].update(lower(word, "en") for word in WORD.findall(english))
            counts[language].update(lower(word, language) for word in WORD.findall(other))
    n_english = sum(counts["en"].values())
    for language in LANGUAGES:
        spellings = collections.defaultdict(list)
        for word, count in counts[language].items():
            spellings[plain(word)].append((count, word))
        chosen = []
        for key, words in spellings.items():
            words.sort(reverse=True)
            (count, word), others = words[0], words[1:]
            if word == key or not key.isascii() or count < max(MIN_COUNT, LIKELY * sum(other[0] for other in others)):
                continue
            is_sure = count >= SURE * counts[language][key] and counts["en"][key] <= ENGLISH * n_english
            chosen.append((-count, word, ("" if is_sure else "?") + word))
        chosen.sort()
        taken, size = [], 0
        for _, word, line in chosen:
            size += len(line.encode()) + 1
            if size > MAX_BYTES:
                break
            taken.append((plain(word), line))
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"accents.{language}")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for _, line in sorted(taken))
        print(f"{path}: {len(taken)} words")


if __name__ == "__main__":
    main(sys.argv[1])
