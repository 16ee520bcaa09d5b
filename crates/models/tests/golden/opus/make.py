"""Writes a small folder like those of OPUS-MT (English to Turkish) and what the Hugging Face code makes of it.

    python make.py

Made with torch 2.15.0, transformers 5.22.2, safetensors 0.8.0, sentencepiece 0.2.2, sacremoses 0.2.0.

source.spm, target.spm     unigram models of sentences made below; the source has a few rules of normalisation
vocab.json                 the pieces of both, </s> first, <unk> second, <pad> last, two language codes before it; a few
                           pieces are left out on purpose: they become <unk>
model.safetensors          random weights, taught eight of the sentences for a few steps
expected.json              texts: ids of the text as a source and as a target, and these decoded without special tokens;
                           generate: greedy and with the settings of generation_config.json, ids and text, and the score
                           (sum of log-probabilities / generated length, where a forced end id counts 0 with beams and
                           its log-probability when greedy); the ids do not hang on rounding, see ../marian/make.py
"""

import io
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile

import sentencepiece
import torch
import transformers
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

SUBJECTS = [
    ("The teacher", "Öğretmen"), ("My brother", "Kardeşim"), ("The old doctor", "Yaşlı doktor"), ("Ayşe", "Ayşe"),
    ("Our neighbour", "Komşumuz"), ("The small child", "Küçük çocuk"), ("A tired driver", "Yorgun bir şoför"),
    ("Mr. Çelik", "Bay Çelik"), ("The students", "Öğrenciler"), ("Nobody", "Hiç kimse"),
    ("My café owner", "Kafe sahibim"),
]
PLACES = [
    ("in the garden", "bahçede"), ("at the station", "istasyonda"), ("near the river", "nehrin yanında"),
    ("in Istanbul", "İstanbul'da"), ("at school", "okulda"), ("under the bridge", "köprünün altında"),
    ("behind the house", "evin arkasında"), ("in the kitchen", "mutfakta"), ("on the mountain", "dağda"),
]
ACTIONS = [
    ("reads a book", "kitap okuyor"), ("is waiting for the train", "treni bekliyor"),
    ("drinks cold water", "soğuk su içiyor"), ("writes 3 letters", "3 mektup yazıyor"),
    ("sings an old song", "eski bir şarkı söylüyor"),
    ("sells fresh bread", "taze ekmek satıyor"), ("is looking for the keys", "anahtarları arıyor"),
    ("plays with the dog", "köpekle oynuyor"), ("paid 250 lira", "250 lira ödedi"), ("slept well", "iyi uyudu"),
]
TIMES = [
    ("today", "bugün"), ("every morning", "her sabah"), ("in the evening", "akşamleyin"), ("at 10:45", "saat 10:45'te"),
    ("on Sunday", "pazar günü"), ("very quietly", "çok sessizce"), ("since 1987", "1987'den beri"),
]
ENDS = [".", "!", "?", "."]
# What a normaliser does to the source: code points in hexadecimal.
RULES = "A0\t20\n2019\t27\n201C\t22\n201D\t22\nFB01\t66 69\n2026\t2E 2E 2E\n65 301\tE9\n200B\t\n"

TEXTS = [
    "", " ", "The teacher reads a book today.", "The teacher   reads  a book.", "  Nobody slept well!  ", "Ayşe",
    "Öğretmen bahçede kitap okuyor.", "İstanbul'da ılık bir ÇİĞDEM, şöför ve ğüşiöç.", "ISTANBUL istanbul İSTANBUL ısı",
    "Mr. Çelik paid 250 lira at 10:45.", "0123456789", "1987 3.14 2,50 1e-5", "café cafe\u0301 naïve façade über Straße",
    "“quoted” ‘single’ it’s…", "ﬁnd the oﬃce", "a\u00a0b\u200bc", "tab\there\nline", "漢字 русский ελληνικά", "🙂 smile 👍🏽",
    "xqzwv", "e-mail: a_b@c.com (50% off) #1 & more", "<pad> </s> <unk>", "the</s>garden", ">>fra<< The dog sleeps.",
    ">>tur<<The dog", ">>xyz<< The dog", "The dog >>fra<<", "▁▁the▁house", "THE OLD DOCTOR", "the the the the the the",
    "behind the house behind the house behind the house behind the house", "\u0000 zero", "«Évidemment», dit-elle – très bas.",
]


def sentences():
    pairs = []
    for subject, action, place, time in itertools.product(SUBJECTS, ACTIONS, PLACES, TIMES):
        end = ENDS[len(pairs) % len(ENDS)]
        source = f"{subject[0]} {action[0]} {place[0]} {time[0]}{end}"
        target = f"{subject[1]} {time[1]} {place[1]} {action[1]}{end}"
        pairs.append((source, target))
    random.Random(1).shuffle(pairs)
    return pairs[:1500]


def train(lines, vocab_size, **options):
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, model_type="unigram", vocab_size=vocab_size,
        character_coverage=1.0, num_threads=1, hard_vocab_limit=False, minloglevel=2, **options,
    )
    return written.getvalue()


def write_tokenizer(pairs):
    with tempfile.TemporaryDirectory() as folder:
        here = os.getcwd()
        os.chdir(folder)  # the name of the rules is kept in the model: it shall hold no path
        pathlib.Path("rules.tsv").write_text(RULES)
        source = train([source for source, _ in pairs], 300, normalization_rule_tsv="rules.tsv")
        os.chdir(here)
    target = train([target for _, target in pairs], 300, normalization_rule_name="identity")
    (HERE / "source.spm").write_bytes(source)
    (HERE / "target.spm").write_bytes(target)
    pieces = []
    for proto in (source, target):
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        pieces += [model.id_to_piece(i) for i in range(model.get_piece_size()) if not model.is_control(i)]
    pieces = [piece for piece in dict.fromkeys(pieces) if piece not in ("<unk>", "</s>", "<pad>")]
    random.Random(2).shuffle(pieces)
    left_out = sorted(piece for piece in pieces if len(piece) == 1 and piece.isdigit())[-2:]
    pieces = [piece for piece in pieces if piece not in left_out]
    vocab = ["</s>", "<unk>", *pieces, ">>fra<<", ">>tur<<", "<pad>"]
    (HERE / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(vocab)}, indent=2))
    settings = {
        "source_lang": "eng", "target_lang": "tur", "separate_vocabs": False, "model_max_length": 512,
        "unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>", "tokenizer_class": "MarianTokenizer",
    }
    (HERE / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    return MarianTokenizer.from_pretrained(HERE)


def new_model(vocab_size):
    pad = vocab_size - 1
    config = MarianConfig(
        vocab_size=vocab_size, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64,
        activation_function="swish", scale_embedding=True, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
        forced_eos_token_id=0, dropout=0.0,
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            if "layer_norm.weight" in name:
                parameter.normal_(1.0, 0.2)
            else:
                parameter.normal_(0.0, 0.2 if "bias" in name else 0.25)
        model.final_logits_bias.normal_(0.0, 0.5)
    model.generation_config = GenerationConfig(
        pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=0, bad_words_ids=[[pad]],
        num_beams=4, max_length=64, do_sample=False,
    )
    return model


def teach(model, tokenizer, pairs):
    batch = tokenizer([s for s, _ in pairs], text_target=[t for _, t in pairs], return_tensors="pt", padding=True)
    labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    inputs = model.prepare_decoder_input_ids_from_labels(labels)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(1000):
        logits = model(batch["input_ids"], attention_mask=batch["attention_mask"], decoder_input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.2)
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        if plain < 0.5:
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def generate(model, ids, num_beams):
    output = model.generate(
        input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), num_beams=num_beams,
        return_dict_in_generate=True, output_scores=True, output_logits=True,
    )
    found = output.sequences[0].tolist()
    if num_beams > 1:
        return found, float(f"{output.sequences_scores[0].item():.8g}")
    steps = torch.cat(output.logits).double().log_softmax(-1)
    return found, float(f"{sum(steps[i, id].item() for i, id in enumerate(found[1:])) / (len(found) - 1):.8g}")


def steady(texts, tokenizer, generated):
    for seed in range(3):
        model = record.load(HERE)
        if seed == 0:
            model = model.double()
        else:
            torch.manual_seed(seed)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1 + 1e-5 * torch.randn_like(parameter))
        for text, (greedy, beam) in zip(texts, generated):
            ids = tokenizer(text)["input_ids"]
            if generate(model, ids, 1)[0] != greedy[0] or generate(model, ids, 4)[0] != beam[0]:
                return False
    return True


def text_case(tokenizer, text):
    source_ids = tokenizer(text)["input_ids"]
    target_ids = tokenizer(text_target=text)["input_ids"]
    return {
        "text": text, "source_ids": source_ids, "target_ids": target_ids,
        "source_decoded": tokenizer.decode(source_ids, skip_special_tokens=True),
        "target_decoded": tokenizer.decode(target_ids, skip_special_tokens=True),
    }


def write_expected(tokenizer, texts, generated):
    head = {"transformers": transformers.__version__, "sentencepiece": sentencepiece.__version__}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    cases = [json.dumps(text_case(tokenizer, text), ensure_ascii=False) for text in TEXTS]
    lines.append(' "texts": [\n  ' + ",\n  ".join(cases) + "\n ]")
    cases = []
    for text, results in zip(texts, generated):
        case = {"text": text}
        for name, (ids, score) in zip(("greedy", "beam"), results):
            case[name] = {"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True), "score": score}
        cases.append(json.dumps(case, ensure_ascii=False))
    lines.append(' "generate": [\n  ' + ",\n  ".join(cases) + "\n ]")
    (HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    pairs = sentences()
    tokenizer = write_tokenizer(pairs)
    texts = [source for source, _ in pairs[:8]] + [TEXTS[i] for i in (0, 2, 4, 9, 17)]
    for seed in range(50):
        torch.manual_seed(seed)
        model = new_model(len(tokenizer.get_vocab()))
        teach(model, tokenizer, pairs[:8])
        model.save_pretrained(HERE)
        model = record.load(HERE)
        generated = [[generate(model, tokenizer(text)["input_ids"], n) for n in (1, 4)] for text in texts]
        if steady(texts, tokenizer, generated):
            break
    else:
        sys.exit("no seed gives steady outputs")
    write_expected(tokenizer, texts, generated)
    print("seed", seed, "lengths", [[len(ids) for ids, _ in results] for results in generated])


if __name__ == "__main__":
    main()
