//! Properties of trained tokenisers: lossless, offsets slice the original, training is independent of threads.

use std::sync::OnceLock;

use polyhead_random::Random;
use polyhead_text::Error;
use polyhead_text::tokenizer::{
    BpeDropout, HuggingFace, LetterCase, Normalization, SpecialTokens, TokenizerKind, TrainOptions,
    UnicodeForm, UnknownCharacters, WordSplit, train,
};
use proptest::prelude::*;
use serde_json::json;

use crate::sentencepiece::unpacked;

const LINES: &str = include_str!("../golden/tokenizer/sentences.txt");

fn lines() -> impl Iterator<Item = polyhead_text::Result<String>> + Send {
    LINES.lines().map(|line| Ok(line.to_owned()))
}

fn options(kind: TokenizerKind) -> TrainOptions {
    let special = SpecialTokens { tags: vec!["<2tr>".into(), "<2de>".into()], ..SpecialTokens::default() };
    let vocab_size = match kind {
        TokenizerKind::Word | TokenizerKind::Character => None,
        _ => Some(500),
    };
    TrainOptions {
        kind,
        vocab_size,
        special,
        character_coverage: 1.0,
        min_frequency: 1,
        ..TrainOptions::default()
    }
}

fn with_bytes(kind: TokenizerKind) -> TrainOptions {
    TrainOptions { unknown: UnknownCharacters::Bytes, ..options(kind) }
}

fn trained(options: &TrainOptions) -> HuggingFace {
    train(lines(), options, &mut |_| {}).expect("the sentences suffice")
}

fn all_options() -> Vec<TrainOptions> {
    let lower = Normalization { form: UnicodeForm::Nfc, case: LetterCase::Lower };
    vec![
        options(TokenizerKind::Bpe),
        options(TokenizerKind::Unigram),
        options(TokenizerKind::WordPiece),
        options(TokenizerKind::Word),
        TrainOptions { word_split: WordSplit::Punctuation, ..options(TokenizerKind::Word) },
        options(TokenizerKind::Character),
        with_bytes(TokenizerKind::Bpe),
        with_bytes(TokenizerKind::Unigram),
        with_bytes(TokenizerKind::Character),
        TrainOptions { normalization: lower, character_coverage: 0.97, ..with_bytes(TokenizerKind::Bpe) },
    ]
}

/// One tokeniser per trainer, shared by all tests.
fn all() -> &'static [(TrainOptions, HuggingFace)] {
    static ALL: OnceLock<Vec<(TrainOptions, HuggingFace)>> = OnceLock::new();
    ALL.get_or_init(|| {
        all_options().into_iter().map(|options| (options.clone(), trained(&options))).collect()
    })
}

#[test]
fn training_gives_the_same_bytes_for_any_number_of_threads() {
    for (options, expected) in all() {
        for threads in [1, 2, 3, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let again = pool.install(|| trained(options));
            assert!(
                again.to_json() == expected.to_json(),
                "{:?} differs with {threads} threads",
                options.kind
            );
        }
    }
}

#[test]
fn a_saved_tokenizer_reads_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    for (options, tokenizer) in all() {
        tokenizer.save(&path).unwrap();
        let again = HuggingFace::load(&path).unwrap();
        assert!(again.to_json() == tokenizer.to_json(), "{:?} changed by saving and loading", options.kind);
        for line in LINES.lines().take(50) {
            assert_eq!(again.encode(line).unwrap(), tokenizer.encode(line).unwrap());
        }
    }
}

#[test]
fn special_tokens_have_the_first_ids_and_text_never_yields_them() {
    for (_, tokenizer) in all() {
        for (id, token) in ["<pad>", "<s>", "</s>", "<unk>", "<2tr>", "<2de>"].into_iter().enumerate() {
            assert_eq!(tokenizer.id(token), Some(id as u32));
        }
        let ids = tokenizer.encode("a <2tr> b </s> <pad>").unwrap().ids;
        assert!(!ids.iter().any(|id| [0, 1, 2, 4, 5].contains(id)), "{ids:?}");
        let with_end = tokenizer.encode_with_special("a").unwrap();
        assert_eq!(with_end.ids.last(), Some(&2));
        assert_eq!(with_end.offsets.last(), Some(&(0..0)));
        assert_eq!(tokenizer.decode(&with_end.ids).unwrap(), "a");
    }
}

/// The training text is within every alphabet.
#[test]
fn training_text_round_trips() {
    for (options, tokenizer) in all() {
        for line in LINES.lines() {
            let encoding = tokenizer.encode(line).unwrap();
            assert!(!encoding.ids.contains(&tokenizer.id("<unk>").unwrap()), "{:?}: {line}", options.kind);
            assert_eq!(tokenizer.decode(&encoding.ids).unwrap(), tokenizer.normalize(line).unwrap());
        }
    }
}

#[test]
fn dropout_is_seeded_and_none_equals_plain() {
    for (_, tokenizer) in all()
        .iter()
        .filter(|(options, _)| matches!(options.kind, TokenizerKind::Bpe | TokenizerKind::Character))
    {
        let mut n_different = 0;
        for (index, line) in LINES.lines().enumerate() {
            let random = Random::new(7).stream(index as u64);
            let encode = |probability| {
                tokenizer.encode_with_dropout(line, &BpeDropout { probability, random }).unwrap()
            };
            assert_eq!(encode(0.0), tokenizer.encode(line).unwrap());
            let dropped = encode(0.3);
            assert_eq!(dropped, encode(0.3));
            assert_eq!(tokenizer.decode(&dropped.ids).unwrap(), tokenizer.decode(&encode(0.0).ids).unwrap());
            n_different += usize::from(dropped != encode(0.0));
            // Without any merge only characters and bytes are left.
            assert!(
                encode(1.0).pieces.iter().all(|piece| {
                    piece.chars().count() == 1 || piece.starts_with("<0x") || piece == "<unk>"
                })
            );
        }
        assert!(tokenizer.n_merges() == Some(0) || n_different > 100);
    }
    let unigram = trained(&options(TokenizerKind::Unigram));
    let error = unigram
        .encode_with_dropout("a", &BpeDropout { probability: 0.1, random: Random::new(0) })
        .unwrap_err();
    assert_eq!(error.to_string(), "--dropout: a tokeniser without merges, expected kind bpe");
}

#[test]
fn the_maximum_size_is_named_and_reachable() {
    for kind in [
        TokenizerKind::Bpe,
        TokenizerKind::Unigram,
        TokenizerKind::WordPiece,
        TokenizerKind::Word,
        TokenizerKind::Character,
    ] {
        let requested = TrainOptions { vocab_size: Some(1_000_000), ..options(kind) };
        let Err(Error::VocabularyTooLarge { maximum, .. }) = train(lines(), &requested, &mut |_| {}) else {
            panic!("{kind:?} yields a million entries")
        };
        let tokenizer = trained(&TrainOptions { vocab_size: Some(maximum), ..options(kind) });
        assert_eq!(tokenizer.vocab_size(), maximum, "{kind:?}");
    }
    let small = TrainOptions { vocab_size: Some(20), ..options(TokenizerKind::Unigram) };
    let error = train(lines(), &small, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::VocabularyTooSmall { requested: 20, .. }), "{error}");
}

#[test]
fn empty_text_is_an_error() {
    let lines = [Ok(String::new()), Ok("  \t".into())].into_iter();
    let error = train(lines, &TrainOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Empty { .. }), "{error}");
}

#[test]
fn a_malformed_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let good = all()[0].1.to_json();
    let cases = [
        "",
        "{",
        "[1]",
        "{\"model\": 3}",
        &good[..good.len() / 2],
        &good.replace("\"NFKC\"", "\"Precompiled\""),
    ];
    for (index, broken) in cases.into_iter().enumerate() {
        std::fs::write(&path, broken).unwrap();
        let error = HuggingFace::load(&path).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with(path.to_str().unwrap()), "case {index}: {message}");
        assert!(message.ends_with("expected a Hugging Face tokenizer.json"), "case {index}: {message}");
    }
}

/// A small `tokenizer.json` with one section replaced.
fn by_hand(part: &str, value: serde_json::Value) -> polyhead_text::Result<HuggingFace> {
    let mut file = json!({
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
    });
    file[part] = value;
    HuggingFace::from_bytes(file.to_string().as_bytes(), "x.json")
}

#[test]
fn rules_that_fail_on_a_text_are_an_error() {
    for (part, rule) in [
        ("pre_tokenizer", json!({"type": "FixedLength", "length": 0})),
        // A trie of one unit whose offset leads to unit 1000.
        ("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAACgDwAA"})),
        ("decoder", json!({"type": "Strip", "content": "a", "start": 0, "stop": 9})),
    ] {
        let tokenizer = by_hand(part, rule).unwrap();
        let found = tokenizer.encode("a").and_then(|encoding| tokenizer.decode(&encoding.ids));
        assert_eq!(
            found.unwrap_err().to_string(),
            "tokenizer.json: a rule that fails on this text, expected rules that accept any text",
            "{part}"
        );
    }
    let tokenizer = by_hand("decoder", json!({"type": "BPEDecoder", "suffix": "</w>"})).unwrap();
    assert_eq!(tokenizer.decode(&[]).unwrap(), "");
}

#[test]
fn files_that_need_excessive_memory_are_rejected() {
    let sequence = |name: &str, rule: serde_json::Value, count: usize| json!({"type": "Sequence", name: vec![rule; count]});
    let tenfold = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"});
    let between = json!({"type": "Replace", "pattern": {"Regex": ""}, "content": "aaaaaaaaa"});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let map = json!({"type": "Precompiled", "precompiled_charsmap": "BAAAAACgDwAA"});
    for (part, value, found) in [
        (
            "model",
            json!({"type": "BPE", "vocab": {"a": 4_294_967_294_u32}, "merges": []}),
            "id 4294967294 instead of one below 4194304",
        ),
        (
            "model",
            json!({"type": "WordLevel", "vocab": {"a": 4_194_304}, "unk_token": "a"}),
            "id 4194304 instead of one below 4194304",
        ),
        (
            "normalizer",
            sequence("normalizers", tenfold.clone(), 12),
            "rules by which text may grow 1000000000000 times instead of at most 4096",
        ),
        (
            "normalizer",
            sequence("normalizers", between, 4),
            "rules by which text may grow 10000 times instead of at most 4096",
        ),
        ("normalizer", sequence("normalizers", map, 2), "2 compiled maps instead of one"),
        ("pre_tokenizer", sequence("pretokenizers", bytes, 40), "rules by which text may grow 12089258"),
        (
            "decoder",
            sequence("decoders", tenfold, 12),
            "rules by which text may grow 1000000000000 times instead of at most 4096",
        ),
    ] {
        let error = by_hand(part, value).unwrap_err().to_string();
        assert!(error.starts_with(&format!("x.json: {found}")), "{error}");
    }
    // The crate allocates the stated size of a map unchecked.
    let large = json!({"type": "Precompiled", "precompiled_charsmap": "wAMAwAAAAAAA"});
    let error = by_hand("normalizer", large).unwrap_err().to_string();
    assert!(error.starts_with("x.json: a map of 3221226432 bytes in 12 digits of base64"), "{error}");
    let listed = json!({"type": "Sequence", "normalizers": [[{"String": "a"}, "aaaaaaaaaa"]]});
    assert!(by_hand("normalizer", listed).is_err());
    // Reading a file normalises its added tokens.
    let added = json!({"id": 3, "content": "a", "normalized": true, "special": false, "single_word": false, "lstrip": false, "rstrip": false});
    let rules = sequence("normalizers", json!({"pattern": {"String": "a"}, "content": "aaaaaaaaaa"}), 12);
    let file = json!({"version": "1.0", "added_tokens": [added], "normalizer": rules, "model": {"type": "BPE", "vocab": {}, "merges": []}});
    assert!(HuggingFace::from_bytes(file.to_string().as_bytes(), "x.json").is_err());
    // The rules of real files, all at once.
    let usual = json!({"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "``"}, "content": "\""}, {"type": "NFKD"}, {"type": "StripAccents"},
        {"type": "Lowercase"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Prepend", "prepend": "▁"}, {"type": "NFC"},
    ]});
    assert_eq!(by_hand("normalizer", usual).unwrap().normalize("É  ``").unwrap(), "▁e▁\"");
}

#[test]
fn dropout_in_a_file_is_ignored() {
    let model =
        json!({"type": "BPE", "dropout": 1.0, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]});
    assert_eq!(by_hand("model", model).unwrap().encode("ab").unwrap().pieces, ["ab"]);
}

#[test]
fn an_error_message_is_valid_utf8() {
    // The prefix has two bytes, which the crate removes from a character of three.
    let model = json!({
        "type": "BPE", "continuing_subword_prefix": "##", "vocab": {"a": 0, "漢": 1}, "merges": [["a", "漢"]],
    });
    let error = by_hand("model", model).unwrap_err().to_string();
    assert!(std::str::from_utf8(error.as_bytes()).is_ok(), "{:?}", error.as_bytes());
    assert!(error.contains('\u{fffd}'), "{error}");
}

#[test]
fn deeply_nested_files_do_not_overflow_the_stack() {
    for (part, list) in
        [("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"), ("decoder", "decoders")]
    {
        for depth in [20, 55, 70, 1000] {
            let deep = (0..depth).fold(
                json!({"type": "Sequence", list: []}),
                |inner, _| json!({"type": "Sequence", list: [inner]}),
            );
            if let Ok(tokenizer) = by_hand(part, deep) {
                assert_eq!(tokenizer.decode(&tokenizer.encode("ab").unwrap().ids).unwrap(), "ab");
                tokenizer.to_json();
            }
        }
    }
}

/// One character that NFKC turns into several words: each has the span of the character.
#[test]
fn a_character_may_become_several_words() {
    for (_, tokenizer) in all().iter().filter(|(options, _)| options.kind == TokenizerKind::Bpe) {
        let encoding = tokenizer.encode("ﷺ").unwrap();
        assert!(encoding.offsets.iter().all(|span| span.is_empty() || *span == (0..3)), "{encoding:?}");
        assert!(encoding.offsets.windows(2).all(|pair| pair[0].start <= pair[1].start), "{encoding:?}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,30}", "[ \\t\\n\u{a0}\u{2028}a-zA-ZéİıßΣ.,'<>0x/s▁ﬁ¨e\u{301}猫🙂\u{0}]{0,30}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn byte_fallback_is_lossless(text in any_text()) {
        for (_, tokenizer) in all().iter().filter(|(options, _)| options.unknown == UnknownCharacters::Bytes) {
            let encoding = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&encoding.ids).unwrap(), tokenizer.normalize(&text).unwrap());
        }
    }

    #[test]
    fn offsets_slice_the_original(text in any_text()) {
        for (options, tokenizer) in all() {
            let encoding = tokenizer.encode(&text).unwrap();
            let mut covered = 0;
            for (piece, span) in encoding.pieces.iter().zip(&encoding.offsets) {
                let slice = text.get(span.clone());
                prop_assert!(slice.is_some(), "{:?} {:?} {:?}", options.kind, piece, span);
                prop_assert!(span.start >= covered || span.end >= covered, "spans go back: {:?}", encoding);
                covered = covered.max(span.end);
            }
        }
    }

    /// Normalisation does not change plain ASCII words, so each span must spell its token.
    #[test]
    fn spans_spell_their_pieces(text in "[a-z]{1,8}( {1,2}[a-z]{1,8}){0,4}") {
        for (_, tokenizer) in all().iter().filter(|(options, _)| matches!(options.kind, TokenizerKind::Bpe | TokenizerKind::Unigram)) {
            let encoding = tokenizer.encode(&text).unwrap();
            let spelled = encoding.pieces.iter().zip(&encoding.offsets).filter(|(piece, _)| !piece.starts_with('<'));
            for (piece, span) in spelled {
                prop_assert_eq!(piece.trim_start_matches('▁'), text[span.clone()].trim_start());
            }
        }
    }
}

/// Python's `tokenizers` returns the same ids, offsets and text with the files written here, and its trainer learns the
/// same merges.
#[test]
fn equals_python() {
    let golden: serde_json::Value = serde_json::from_slice(&unpacked("tokenizer", "python.json.gz")).unwrap();
    let texts: Vec<&str> =
        golden["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let plain = |kind, size| TrainOptions {
        kind,
        vocab_size: size,
        character_coverage: 1.0,
        min_frequency: 1,
        ..TrainOptions::default()
    };
    let bytes = |kind, size, form, case| TrainOptions {
        unknown: UnknownCharacters::Bytes,
        normalization: Normalization { form, case },
        ..plain(kind, size)
    };
    let kinds = [
        ("bpe", plain(TokenizerKind::Bpe, Some(500))),
        ("bpe-bytes", bytes(TokenizerKind::Bpe, Some(700), UnicodeForm::Nfkc, LetterCase::Keep)),
        ("unigram", plain(TokenizerKind::Unigram, Some(500))),
        ("unigram-bytes", bytes(TokenizerKind::Unigram, Some(700), UnicodeForm::Nfkc, LetterCase::Lower)),
        ("wordpiece", plain(TokenizerKind::WordPiece, Some(500))),
        (
            "word",
            TrainOptions { word_split: WordSplit::Punctuation, ..plain(TokenizerKind::Word, Some(300)) },
        ),
        ("char-bytes", bytes(TokenizerKind::Character, None, UnicodeForm::Nfc, LetterCase::Keep)),
    ];
    for (name, options) in kinds {
        let tokenizer = trained(&options);
        let expected = &golden["kinds"][name];
        for (index, text) in texts.iter().enumerate() {
            let encoding = tokenizer.encode(text).unwrap();
            let ids = |encoding: &polyhead_text::tokenizer::Encoding| serde_json::json!(encoding.ids);
            assert_eq!(ids(&encoding), expected["ids"][index], "{name}: {text:?}");
            let special = tokenizer.encode_with_special(text).unwrap();
            assert_eq!(ids(&special), expected["with_special"][index], "{name}: {text:?}");
            assert_eq!(
                tokenizer.decode(&encoding.ids).unwrap(),
                expected["decoded"][index],
                "{name}: {text:?}"
            );
            for ((piece, span), offsets) in encoding
                .pieces
                .iter()
                .zip(&encoding.offsets)
                .zip(expected["offsets"][index].as_array().unwrap())
            {
                // The mark before the first word covers no text here; Python gives it the first character.
                let mark = piece == "▁" && span.is_empty() && Some(span.start as u64) == offsets[0].as_u64();
                assert!(
                    mark || serde_json::json!([span.start, span.end]) == *offsets,
                    "{name}: {text:?} {piece}"
                );
            }
        }
    }
    let ours: serde_json::Value =
        serde_json::from_str(&trained(&plain(TokenizerKind::Bpe, Some(500))).to_json()).unwrap();
    assert_eq!(ours["model"]["merges"], golden["merges"]);
}

#[test]
fn special_tokens_of_bert_are_around_a_text_and_words_are_split_as_by_bert() {
    let special = SpecialTokens::bert();
    let tokenizer = trained(&TrainOptions { special, ..options(TokenizerKind::WordPiece) });
    let text = lines().next().unwrap().unwrap();
    let plain = tokenizer.encode(&text).unwrap();
    let framed = tokenizer.encode_with_special(&text).unwrap();
    let ids = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"].map(|token| tokenizer.id(token));
    assert_eq!(ids, [0, 1, 2, 3, 4].map(Some));
    assert_eq!(framed.ids, [&[1], &plain.ids[..], &[2]].concat());
    let pair = tokenizer.encode_pair(&text, &text).unwrap();
    assert_eq!(pair.ids, [&[1], &plain.ids[..], &[2], &plain.ids, &[2]].concat());
    assert_eq!(pair.types.iter().filter(|kind| **kind == 1).count(), plain.ids.len() + 1);
    // A mark has the same token after a space and after a word.
    let [near, apart] = ["a ,", "a,"].map(|text| tokenizer.encode(text).unwrap().ids);
    assert_eq!(near, apart);
    assert!(plain.pieces.iter().all(|piece| !piece.contains('▁')));
    assert_eq!(tokenizer.encode("[MASK]").unwrap().ids.iter().filter(|id| **id == 4).count(), 0);
    assert_eq!(
        tokenizer.for_markup().encode("a [MASK] ,").unwrap().ids.iter().filter(|id| **id == 4).count(),
        1
    );
}
