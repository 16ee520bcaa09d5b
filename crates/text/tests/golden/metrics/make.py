"""Makes texts.json.gz and expected.json.gz: scores that sacreBLEU, rouge_score and jiwer give.

usage: python make.py FOLDER

FOLDER holds wmt14.ref.de.gz, wmt14.bergamot-tiny.de.gz and wmt14.bergamot-base-memory.de.gz (see README.md).
Needs: sacrebleu==2.6.0 numpy==2.4.6 sentencepiece==0.2.2 rouge_score==0.1.2 jiwer==4.0.0
"""

import gzip
import itertools
import json
import logging
import pathlib
import os
import random
import sys
import tempfile

# Where sacreBLEU looks for the models of its tokenisers.
MODELS = tempfile.TemporaryDirectory()
os.environ["SACREBLEU"] = MODELS.name

import jiwer
from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

HERE = pathlib.Path(__file__).parent

# (hypothesis, first reference, second reference)
NASTY = [
    ("", "", ""),
    ("", "Not empty.", "Nor is this."),
    ("Not empty.", "", ""),
    ("Not empty.", "", "Not empty"),
    (" ", "\t", "\u3000"),
    ("a", "a", "b"),
    ("a", "b", "a"),
    ("The cat sat on the mat.", "The cat sat on the mat.", "A cat was sitting on the mat."),
    ("the Cat SAT on The mat .", "The cat sat on the mat.", "There is a cat on the mat."),
    ("the the the the the the the", "The cat is on the mat.", "There is a cat on the mat."),
    ("It costs 1,000.50 dollars, i.e. $1,000.50.", "It costs $1,000.50, or 1.000,50 dollars.", "1,000.50 USD"),
    ("in 1999.", "in 1999 .", "in 1999, ."),
    ("3-4 people, 10-year-old; 5.-", "3 - 4 people, 10-year old; 5.-", "3–4 people"),
    ("He said: &quot;A&amp;B&quot; &lt;tag&gt;", 'He said: "A&B" <tag>', "He said: &amp;quot;A&amp;amp;B &amp;lt;tag&amp;gt;"),
    ("<skipped> text <skipped>here", "text here", "<skipped>"),
    ("John's dog's bone isn't Mary's", "John 's dog 's bone isn't Mary 's", "the bone of John's dog"),
    ("a's\u3000b's\u0085c", "a's\u3000b's\u0085c", "a 's b 's c"),
    ("trailing space   ", "trailing space", "  trailing space"),
    ("tab\tseparated\twords", "tab separated words", "tab\tseparated words"),
    ("no\u00a0break and\u2003em and thin\u2009space", "no break and em and thin space", "no break"),
    ("zero\u200bwidth joiner\u200d", "zero width joiner", "zerowidth joiner"),
    ("unit\u001fseparator file\u001cseparator", "unit separator file separator", "unit separator"),
    ("next\u0085line line\u2028separator\u2029paragraph", "next line line separator paragraph", "next line"),
    ("„Guten Tag“, sagte er – «so» … ‚ja‘!", "\"Guten Tag\", sagte er - \"so\" ... 'ja'!", "„Guten Tag“, sagte er."),
    ("¿Qué? ¡Sí! 5 € + 3 £ = 8 ¥ ± 2 × 4 ÷ 2°", "¿Qué ? ¡ Sí ! 5€ + 3£ = 8¥ ±2×4÷2 °", "5 €"),
    ("Ⅷ ½ ² ③ ٣,٤ 1٫5 ५.५ x²,y", "Ⅷ, ½. ² ③ ٣,٤ 1٫5 ५.५ x², y", "8"),
    ("我喜欢吃苹果，你呢？", "我喜欢吃苹果，你呢?", "我爱吃苹果。你呢？"),
    ("私はリンゴが好きです。「はい」・テスト", "私は林檎が好きです。「はい」テスト", "リンゴが好き。"),
    ("ひらがな", "ひらがな", "カタカナ"),
    ("ｶﾀｶﾅ｡｢半角｣､ ！（全角）：；．，？＂", "カタカナ。「半角」、!(全角):;.,?\"", "半角"),
    ("㈱ ㌔ ⼀ ㇀ 豈 ︰ 㐀 ㊀ ㋿ ㏿ 㿿 䶿", "株 キロ 一 ㇀ 豈 ︰ 㐀 ㊀㋿㏿㿿䶿", "㈱"),
    ("안녕하세요, 세계!", "안녕하세요 세계!", "안녕, 세계!"),
    ("Καλημέρα ΚΟΣΜΕ ΟΔΟΣ ΣΑΣ.", "καλημέρα κόσμε οδος σας.", "ΚΑΛΗΜΕΡΑ"),
    ("İstanbul'da IŞIK ÇOK İYİ", "istanbul'da ışık çok iyi", "İstanbul'da ışık çok iyi"),
    ("STRASSE Straße ﬁn ẞ Å", "Strasse STRASSE fin ß Å", "strasse"),
    ("emoji 😀👍🏽 👨‍👩‍👧 flags 🇩🇪!", "emoji 😀 👍 family flags 🇩🇪 !", "emoji"),
    ("e\u0301te\u0301 cafe\u0301", "été café", "ete cafe"),
    ("مرحبا، كيف حالك؟", "مرحبا كيف حالك؟", "مرحبا، كيف الحال؟"),
    ("{curly} [square] `tick` ^hat~ a_b c|d \\e /f", "{ curly } [ square ] tick ^ hat ~ a b c d e f", "curly square"),
    ("(hi) \"so\" -- --- ... ,,, ;;; .5 5. 5,5,5", "( hi ) \"so\" – — … , ; .5 5. 5,5,5", "hi"),
    ("a.b.c U.S.A. e.g., www.example.com/path?x=1&y=2", "a.b.c USA e.g. www.example.com/path?x=1&y=2", "U.S.A."),
    ("a b c d e f g h i j", "f g h i j a b c d e", "j i h g f e d c b a"),
    ("a b c d e f g h i j", "b a d c f e h g j i", "a c b d f e g i h j"),
    ("one two three", "one two three four five six seven eight nine ten eleven", "zero"),
    ("w " * 60 + "x", "x " + "w " * 30, "w"),
    ("word", "word " * 110, "other " * 70),
    ("word " * 110, "word", "other word"),
    ("-\nhyphen-\nated line\nbreak", "hyphenated line break", "\n-hyphen line break"),
]

TINY = {
    "all-empty": (["", ""], [["", ""]]),
    "empty-hypotheses": (["", ""], [["a b c d e", "f"]]),
    "empty-references": (["a b c d e", "f"], [["", ""]]),
    "identical": (["a b c d e"], [["a b c d e"]]),
    "short-identical": (["a b", "c"], [["a b", "c"]]),
    "no-match": (["a b c d", "e f g h"], [["i j k l", "m n o p"]]),
}


def scrambled():
    """Sentences of few words in other orders: many shifts, the limit of shifts tried, beams that cut."""
    rng = random.Random(2006)
    pairs = []
    for words, length, noise in itertools.product((6, 15, 60), (12, 40, 75), (0.1, 0.5)):
        reference = [f"w{rng.randrange(words)}" for _ in range(length)]
        hypothesis = [word if rng.random() > noise else f"w{rng.randrange(words)}" for word in reference]
        cuts = sorted(rng.sample(range(length), 3))
        parts = [hypothesis[a:b] for a, b in zip([0] + cuts, cuts + [length])]
        rng.shuffle(parts)
        hypothesis = [word for part in parts for word in part][: length - rng.randrange(length // 3)]
        pairs.append((" ".join(hypothesis), " ".join(reference)))
    return [p[0] for p in pairs], [[p[1] for p in pairs]]


def read(folder, name):
    with gzip.open(pathlib.Path(folder) / name, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def texts(folder):
    """Lists of lines by name, and corpora by name: the hypotheses' list and the references' lists."""
    lists, corpora = {}, {}
    for name, (hypotheses, references) in {**TINY, "scrambled": scrambled()}.items():
        lists[name], lists[f"{name}-reference"] = hypotheses, references[0]
        corpora[name] = (name, [f"{name}-reference"])
    lists["nasty"], lists["nasty-reference"], lists["nasty-reference-2"] = (list(column) for column in zip(*NASTY))
    corpora["nasty"] = ("nasty", ["nasty-reference"])
    corpora["nasty-two-references"] = ("nasty", ["nasty-reference", "nasty-reference-2"])
    for name, file in (("wmt-reference", "ref"), ("wmt-tiny", "bergamot-tiny"), ("wmt-base", "bergamot-base-memory")):
        lists[name] = read(folder, f"wmt14.{file}.de.gz")[::45]
    lists.update(FEW)
    lists["wmt-mixed"] = [line[index % 3 > 0] for index, line in enumerate(zip(lists["wmt-base"], lists["wmt-tiny"]))]
    corpora["wmt-tiny"] = ("wmt-tiny", ["wmt-reference"])
    corpora["wmt-base"] = ("wmt-base", ["wmt-reference"])
    corpora["wmt-two-references"] = ("wmt-tiny", ["wmt-reference", "wmt-base"])
    return lists, corpora


def switched(options, **switches):
    """`options` and those switches that are on."""
    return {**options, **{name: value for name, value in switches.items() if value}}


def bleu_options():
    for tokenize in ("13a", "intl", "char", "none"):
        for lowercase, effective in itertools.product((False, True), repeat=2):
            yield switched({"tokenize": tokenize}, lowercase=lowercase, effective_order=effective)
    for method, value in (("floor", None), ("floor", 0.01), ("add-k", None), ("add-k", 0.5), ("none", None)):
        for effective in (False, True):
            yield switched({"smooth_method": method}, smooth_value=value, effective_order=effective)
    for order in (1, 2, 6):
        yield {"max_ngram_order": order}
    yield {"tokenize": "zh"}
    yield {"tokenize": "zh", "lowercase": True}


def chrf_options():
    yield {"word_order": 1, "beta": 3}
    yield {"char_order": 4, "beta": 1}
    yield {"char_order": 0, "word_order": 2}
    for space, lower, eps in itertools.product((False, True), repeat=3):
        for options in ({"word_order": 2}, {}):
            yield switched(options, whitespace=space, lowercase=lower, eps_smoothing=eps)


def ter_options():
    names = ("normalized", "no_punct", "asian_support", "case_sensitive")
    for values in itertools.product((False, True), repeat=4):
        yield switched({}, **dict(zip(names, values)))


def sacre_case(kind, make, options, hypotheses, references):
    metric = make(**options)
    score = metric.corpus_score(hypotheses, references)
    case = {"metric": kind, "options": options, "name": score.name, "score": score.score}
    if len(references) == 2:
        case["signature"] = metric.get_signature().format().rsplit("|version:", 1)[0]
    if kind == "bleu" and len(references) == 1:
        case["line"] = str(score)
    if kind == "bleu" and "lowercase" in options:
        case["counts"], case["totals"] = score.counts, score.totals
    return case


def sentence_scores(make, options, hypotheses, references):
    rows = zip(hypotheses, *references)
    return [round(make(**options).sentence_score(row[0], list(row[1:])).score, 11) for row in rows]


def sacre_cases(corpora):
    metrics = (("bleu", BLEU, bleu_options), ("chrf", CHRF, chrf_options), ("ter", TER, ter_options))
    for (name, texts), (kind, make, all_options) in itertools.product(corpora.items(), metrics):
        for index, options in enumerate(all_options()):
            if name != "nasty" and name != "nasty-two-references" and index % 4:
                continue
            case = {"corpus": name, **sacre_case(kind, make, options, *texts)}
            if name.startswith("nasty") and index % 7 == 1 or name in ("scrambled", "wmt-tiny") and index == 0:
                case["sentences"] = sentence_scores(make, options, *texts)
            yield case


def piece_cases(corpora):
    """spBLEU, with a small model in place of sacreBLEU's."""
    (pathlib.Path(MODELS.name) / "models").mkdir()
    model = gzip.decompress((HERE.parent / "sentencepiece" / "unigram.model.gz").read_bytes())
    (pathlib.Path(MODELS.name) / "models" / "flores200sacrebleuspm").write_bytes(model)
    for name in ("nasty-two-references", "wmt-tiny"):
        yield {"corpus": name, **sacre_case("bleu", BLEU, {"tokenize": "flores200"}, *corpora[name])}


def rouge_cases(corpora):
    kinds = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
    scorer = rouge_scorer.RougeScorer(list(kinds), use_stemmer=False)
    for name in ("nasty", "nasty-two-references", "wmt-tiny", "all-empty"):
        hypotheses, references = corpora[name]
        rows = list(zip(hypotheses, *references))
        scores = [scorer.score_multi(list(row[1:]), row[0]) for row in rows]
        for kind, printed in kinds.items():
            columns = list(zip(*(score[kind] for score in scores)))
            means = [100 * sum(column) / len(rows) for column in columns]
            yield {"corpus": name, "metric": kind, "name": printed, "precision": means[0], "recall": means[1],
                   "score": means[2]}


def error_rate_cases(corpora):
    for name in ("nasty", "wmt-tiny", "wmt-base", "scrambled", "all-empty", "empty-hypotheses", "empty-references"):
        pair = (corpora[name][1][0], corpora[name][0])
        # jiwer takes one tab for a letter; here all white space is the same.
        plain = [[" ".join(line.split()) for line in lines] for lines in pair]
        stripped = [[line.strip() for line in lines] for lines in pair]
        yield {"corpus": name, "metric": "wer", "name": "WER", "score": 100 * jiwer.wer(*plain)}
        yield {"corpus": name, "metric": "cer", "name": "CER", "score": 100 * jiwer.cer(*stripped)}


SIGNIFICANCE = (
    ("bleu", BLEU, {}), ("bleu", BLEU, {"smooth_method": "floor", "max_ngram_order": 6}),
    ("bleu", BLEU, {"smooth_method": "add-k"}), ("chrf", CHRF, {}), ("chrf", CHRF, {"word_order": 2}),
    ("chrf", CHRF, {"eps_smoothing": True}), ("ter", TER, {}),
)


# Samples of few lines have scores of zero.
FEW = {
    "few-reference": ["a b c d e f g h", "i j k"],
    "few-base": ["a b c d e f g x", "x"],
    "few-better": ["a b c d e f g h", "i j x"],
    "few-worse": ["x", "y"],
}


def significance_cases(lists):
    """Intervals of the second system, and paired tests of all with the first."""
    cases = [(["wmt-base", "wmt-tiny", "wmt-mixed"], ["wmt-reference"]),
             (["wmt-base", "wmt-tiny", "wmt-base"], ["wmt-reference", "wmt-mixed"]),
             (["few-base", "few-better", "few-worse"], ["few-reference"])]
    for (systems, references), (kind, make, options) in itertools.product(cases, SIGNIFICANCE):
        if len(references) == 2 and options:
            continue
        texts = [lists[name] for name in references]
        score = make(**options).corpus_score(lists[systems[1]], texts, n_bootstrap=1000)
        found = {"metric": kind, "options": options, "systems": systems, "references": references,
                 "mean": float(score._mean), "half_width": float(score._ci)}
        named = [(str(index), lists[name]) for index, name in enumerate(systems)]
        for test, samples in (("bs", 300), ("ar", 700)):
            metrics = {kind: make(**options)}
            signatures, results = PairedTest(named, metrics, texts, test_type=test, n_samples=samples)()
            column = next(value for key, value in results.items() if key != "System")
            found[test] = [[None if value is None else float(value) for value in (result.mean, result.ci, result.p_value)]
                           for result in column]
            found[f"{test}_signature"] = str(next(iter(signatures.values()))).rsplit("|version:", 1)[0]
        yield found


def write(name, lists):
    """One line per item, so that `zdiff` shows a change."""
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    parts = (f'"{key}": [\n' + ",\n".join(map(dump, items)) + "\n]" for key, items in lists.items())
    (HERE / name).write_bytes(gzip.compress(("{\n" + ",\n".join(parts) + "\n}\n").encode(), mtime=0))


def main():
    logging.disable(logging.CRITICAL)
    lists, names = texts(sys.argv[1])
    write("texts.json.gz", lists)
    corpora = {name: (lists[own], [lists[other] for other in others]) for name, (own, others) in names.items()}
    cases = [*sacre_cases(corpora), *piece_cases(corpora), *rouge_cases(corpora), *error_rate_cases(corpora)]
    rows = [{"name": name, "hypotheses": own, "references": others} for name, (own, others) in names.items()]
    write("expected.json.gz", {"corpora": rows, "scores": cases, "significance": list(significance_cases(lists))})


if __name__ == "__main__":
    main()
