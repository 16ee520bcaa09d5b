"""Compares translations by an exported model: transformers and CTranslate2 against `polyhead translate --raw`.

    python bench/export.py POLYHEAD FOLDER TEXT [LINES]

FOLDER is a Pegasus folder with tags of target languages (`polyhead export models/default -o FOLDER --layout pegasus
--dtype f32`), TEXT a file of English sentences, plain or gzipped. Converts FOLDER with CTranslate2's
TransformersConverter and translates LINES lines (default: 240) into German, French and Turkish in turn, greedily and with the
beam of the folder, in float32. Prints how many texts are the same, and those that are not.
"""

import gzip
import json
import pathlib
import sys
import tempfile

import ctranslate2
import torch
import transformers
from transformers import AutoTokenizer, PegasusForConditionalGeneration

from generation_settings import TAGS, generate, polyhead


def by_ctranslate2(translator, tokenizer, language, lines, own, beams):
    tag = tokenizer.convert_tokens_to_ids(TAGS[language])
    sources = [tokenizer.convert_ids_to_tokens([tag] + tokenizer(line).input_ids) for line in lines]
    forbidden = [tokenizer.convert_ids_to_tokens(ids) for ids in own["bad_words_ids"]]
    found = translator.translate_batch(
        sources, beam_size=beams, length_penalty=own.get("length_penalty", 1.0), suppress_sequences=forbidden,
        max_decoding_length=own["max_length"] - 1, return_scores=True)
    decode = lambda tokens: tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens), skip_special_tokens=True,
                                             clean_up_tokenization_spaces=False)
    return [(decode(one.hypotheses[0]), one.scores[0]) for one in found]


def main():
    program, folder, path = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 240
    transformers.logging.set_verbosity_error()
    own = json.loads((pathlib.Path(folder) / "generation_config.json").read_text())
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        lines = [line.split("\t")[0].strip() for line in file]
    lines = [line for line in lines if line][:count]
    model, report = PegasusForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    print(f"transformers {transformers.__version__}, ctranslate2 {ctranslate2.__version__}, torch {torch.__version__}")
    print("loading:", {key: sorted(map(str, value)) for key, value in report.items() if value} or "nothing missing, nothing left")
    with tempfile.TemporaryDirectory() as temporary:
        converted = ctranslate2.converters.TransformersConverter(folder).convert(f"{temporary}/ct2")
        translator = ctranslate2.Translator(converted, compute_type="float32")
        for beams in (1, own["num_beams"]):
            same, rows = [0, 0], []
            for at, language in enumerate(TAGS):
                part = lines[at :: len(TAGS)]
                settings = {"num_beams": beams}
                ours = polyhead(program, folder, language, "", 1, part, ["--beam", str(beams)])
                theirs = generate(model.eval(), tokenizer, language, "", 1, part, settings, own)
                others = by_ctranslate2(translator, tokenizer, language, part, own, beams)
                for line, own_rows, their_rows, other in zip(part, ours, theirs, others, strict=True):
                    text, score = own_rows[0]
                    same[0] += text == their_rows[0][0]
                    same[1] += text == other[0]
                    rows.append((line, (text, score), their_rows[0][:2], other))
            print(f"beam {beams}, {len(rows)} lines: the same text by transformers {same[0]}, by CTranslate2 {same[1]}")
            for line, ours, theirs, other in rows:
                if ours[0] != theirs[0] or ours[0] != other[0]:
                    print(f"  {line}\n    polyhead     {ours}\n    transformers {theirs}\n    CTranslate2  {other}")


if __name__ == "__main__":
    main()
