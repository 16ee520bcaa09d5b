//! SentencePiece models against the results of the Python package, property tests, and malformed files.

use std::io::Read;
use std::path::PathBuf;

use polyhead_random::Random;
use polyhead_text::tokenizer::sentencepiece::{MarianVocabulary, ModelType, PieceKind, SentencePiece};
use proptest::prelude::*;
use serde::Deserialize;

const VARIANTS: [&str; 13] = [
    "unigram",
    "unigram-nfkc",
    "unigram-bytes",
    "unigram-suffix",
    "unigram-symbols",
    "bpe",
    "bpe-nfkc-cf",
    "bpe-bytes",
    "bpe-symbols",
    "bpe-no-dummy",
    "bpe-as-is",
    "char",
    "word",
];

#[derive(Deserialize)]
struct Golden {
    vocab_size: usize,
    special: [i64; 4],
    cases: Vec<Case>,
    sequences: Vec<Sequence>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    pieces: Vec<String>,
    offsets: Vec<(usize, usize)>,
    decoded: String,
    normalized: String,
}

#[derive(Deserialize)]
struct Sequence {
    ids: Vec<u32>,
    decoded: String,
}

pub(crate) fn unpacked(folder: &str, name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder).join(name);
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).expect("a gzip file");
    bytes
}

fn model(name: &str) -> SentencePiece {
    SentencePiece::from_bytes(&unpacked("sentencepiece", &format!("{name}.model.gz")), name)
        .expect("a good model")
}

#[test]
fn results_equal_those_of_the_python_package() {
    for name in VARIANTS {
        let model = model(name);
        let golden: Golden =
            serde_json::from_slice(&unpacked("sentencepiece", &format!("{name}.json.gz"))).unwrap();
        assert_eq!(model.vocab_size(), golden.vocab_size, "{name}");
        let special = [model.unk_id(), model.bos_id(), model.eos_id(), model.pad_id()];
        assert_eq!(special.map(|id| id.map_or(-1, i64::from)), golden.special, "{name}");
        assert!(golden.cases.len() > 150 && golden.sequences.len() >= 100);
        for case in &golden.cases {
            check(name, &model, case);
        }
        for Sequence { ids, decoded } in &golden.sequences {
            assert_eq!(&model.decode(ids).unwrap(), decoded, "{name} {ids:?}");
        }
    }
}

fn check(name: &str, model: &SentencePiece, case: &Case) {
    let Case { text, ids, pieces, offsets, decoded, normalized } = case;
    let found = model.encode(text);
    assert_eq!(&found.pieces, pieces, "{name} {text:?}");
    assert_eq!(&found.ids, ids, "{name} {text:?}");
    assert_eq!(&model.encode_ids(text), ids, "{name} {text:?}");
    assert_eq!(&model.decode(ids).expect("ids of the model"), decoded, "{name} {text:?}");
    assert_eq!(&model.normalize(text), normalized, "{name} {text:?}");
    for ((&id, span), &(start, end)) in ids.iter().zip(&found.offsets).zip(offsets) {
        // Python gives the span of a character to the last of its bytes only.
        if model.kind(id) == Some(PieceKind::Byte) && start == end {
            assert_eq!(span.start, start, "{name} {text:?}");
        } else {
            assert_eq!((span.start, span.end), (start, end), "{name} {text:?}");
        }
    }
}

#[test]
fn pieces_and_ids_are_inverse() {
    for name in VARIANTS {
        let model = model(name);
        for id in 0..model.vocab_size() as u32 {
            assert_eq!(model.id(model.piece(id).unwrap()), Some(id));
            assert!(model.score(id).is_some());
        }
        assert_eq!(model.piece(model.vocab_size() as u32), None);
        let error = model.decode(&[model.vocab_size() as u32]).unwrap_err().to_string();
        assert!(error.contains("is not in the vocabulary of"), "{error}");
    }
    assert_eq!(model("bpe").model_type(), ModelType::Bpe);
    assert_eq!(model("unigram-nfkc").normalizer_name(), "nmt_nfkc");
}

#[test]
fn pieces_without_an_entry_are_copied() {
    let model = model("unigram");
    assert_eq!(model.decode_pieces(["▁the", "漢", "</s>", "▁a", "<unk>"]), "the漢 a \u{2047} ");
}

/// A model in protobuf, written field by field.
fn hand_made(model_type: u8, pieces: &[(&str, f32, u8)]) -> SentencePiece {
    let mut bytes = Vec::new();
    for (text, score, kind) in pieces {
        let mut piece = vec![0x0a, text.len() as u8];
        piece.extend(text.bytes());
        piece.push(0x15);
        piece.extend(score.to_le_bytes());
        piece.extend([0x18, *kind]);
        bytes.extend([0x0a, piece.len() as u8]);
        bytes.extend(piece);
    }
    bytes.extend([0x12, 2, 0x18, model_type]);
    bytes.extend([0x1a, 4, 0x18, 0, 0x20, 0]);
    SentencePiece::from_bytes(&bytes, "hand made").expect("a good model")
}

#[test]
fn an_unused_bpe_piece_is_split_unless_it_is_merged_further() {
    let pieces: Vec<(&str, f32, u8)> = vec![
        ("<unk>", 0.0, 2),
        ("a", -5.0, 1),
        ("b", -6.0, 1),
        ("c", -7.0, 1),
        ("ab", -1.0, 5),
        ("abc", -2.0, 1),
        ("abab", -3.0, 5),
    ];
    let model = hand_made(2, &pieces);
    assert_eq!(model.encode("ab").pieces, ["a", "b"]);
    assert_eq!(model.encode("abc").pieces, ["abc"]);
    assert_eq!(model.encode("ababab").pieces, ["a", "b", "a", "b", "a", "b"]);
    assert_eq!(model.encode("xxab").pieces, ["xx", "a", "b"]);
}

#[test]
fn an_unused_unigram_piece_is_ignored() {
    let model =
        hand_made(1, &[("<unk>", 0.0, 2), ("a", -2.0, 1), ("aa", -1.0, 5), ("b", -1.0, 5), ("ab", -3.0, 1)]);
    assert_eq!(model.encode("aaab").pieces, ["a", "a", "ab"]);
    assert_eq!(model.encode("abb").ids, [4, 0]);
}

#[test]
fn the_highest_sum_wins_and_the_earlier_boundary_on_ties() {
    // aaa: aa + a and a + aa both sum to -3; a + a + a to -4.5.
    let model = hand_made(1, &[("<unk>", 0.0, 2), ("a", -1.5, 1), ("aa", -1.5, 1)]);
    assert_eq!(model.encode("aaa").pieces, ["a", "aa"]);
    assert_eq!(model.encode("aaaa").pieces, ["aa", "aa"]);
}

#[test]
fn a_marian_folder_takes_its_ids_from_vocab_json() {
    let model = model("unigram-nfkc");
    let mut ids: serde_json::Map<String, serde_json::Value> = serde_json::Map::new();
    for (piece, id) in ["</s>", "<unk>", "▁the", "▁", "a", "<pad>", ">>tur<<"].into_iter().zip(0..) {
        ids.insert(piece.into(), id.into());
    }
    let json = serde_json::to_vec(&ids).unwrap();
    let vocabulary = MarianVocabulary::from_bytes(&json, "vocab.json").unwrap();
    assert_eq!(vocabulary.vocab_size(), 7);

    let text = ">>tur<< the 漢漢 a";
    let encoding = vocabulary.encode(&model, text);
    assert_eq!(encoding.pieces, [">>tur<<", "▁the", "▁", "漢漢", "▁a"]);
    assert_eq!(encoding.ids, [6, 2, 3, vocabulary.unk_id(), vocabulary.unk_id()]);
    let slices: Vec<&str> = encoding.offsets.iter().map(|span| &text[span.clone()]).collect();
    assert_eq!(slices, [">>tur<<", "the", " ", "漢漢", " a"]);
    assert_eq!(vocabulary.encode(&model, ">>xyz<< the").ids, [1, 2]);

    assert_eq!(vocabulary.decode(&model, &[2, 3, 4, 1, 0, 5, 5]).unwrap(), "the a");
    assert!(vocabulary.decode(&model, &[7]).is_err());
}

#[test]
fn malformed_files_are_named_and_never_panic() {
    let whole = unpacked("sentencepiece", "unigram-nfkc.model.gz");
    let cases: [(&[u8], &str); 6] = [
        (b"", "x.spm: an empty file, expected a SentencePiece model"),
        (b"{\"version\": 1}", "x.spm: protobuf wire type 3 at byte 1, expected a protobuf field"),
        (b"\x0a\x03\x0a\x01a", "x.spm: 1 pieces without an unknown one, expected a SentencePiece model"),
        (b"\x0a\x03\x0a\x01\xff", "x.spm: piece 0: invalid UTF-8 at byte 4, expected text in UTF-8"),
        (b"\x0a\x02\x18\x02", "x.spm: piece 0 of 0 bytes, expected 1 to 7999 bytes without NUL"),
        (&whole[..whole.len() - 9], "x.spm: a field of "),
    ];
    for (bytes, expected) in cases {
        let error = SentencePiece::from_bytes(bytes, "x.spm").unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(!error.hint().is_empty());
    }
    let error = SentencePiece::load("no/such.spm").unwrap_err().to_string();
    assert!(error.starts_with("no/such.spm: cannot read: "), "{error}");
}

#[test]
fn flipped_and_missing_bytes_never_panic() {
    let text = "The sun of  漢字 <sym> é🙂\u{301}";
    for (name, rounds) in
        [("bpe-bytes", 1500), ("unigram-symbols", 1500), ("char", 500), ("unigram-nfkc", 120)]
    {
        let whole = unpacked("sentencepiece", &format!("{name}.model.gz"));
        let random = Random::new(11);
        for round in 0..rounds {
            let draw = random.stream(round);
            let mut bytes = whole.clone();
            for flip in 0..=draw.below(6, 0) as u64 {
                let at = draw.below(bytes.len(), 2 * flip + 1);
                bytes[at] = draw.below(256, 2 * flip + 2) as u8;
            }
            if round % 3 == 0 {
                bytes.truncate(draw.below(bytes.len(), 99));
            }
            if let Ok(model) = SentencePiece::from_bytes(&bytes, name) {
                let encoding = model.encode(text);
                assert!(encoding.offsets.iter().all(|span| text.get(span.clone()).is_some()));
                model.decode(&encoding.ids).unwrap();
            }
        }
    }
}

/// Text with the special cases of tokenisers.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-zA-Z]{1,6}",
        "[ \\t\u{a0}\u{3000}▁]{1,3}",
        Just("<sym>".to_owned()),
        Just("[SEP]".to_owned()),
        Just(" of ".to_owned()),
        "[éüßİı\u{301}\u{308}ﬁﬀＡ①™漢字か🙂\u{200d}]{1,3}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn spans_slice_the_text_in_order(text in texts()) {
        thread_local!(static MODELS: Vec<SentencePiece> = VARIANTS.map(model).to_vec());
        MODELS.with(|models| for model in models {
            let encoding = model.encode(&text);
            assert_eq!(encoding.ids.len(), encoding.pieces.len());
            assert_eq!(encoding.ids.len(), encoding.offsets.len());
            for span in &encoding.offsets {
                assert!(text.get(span.clone()).is_some(), "{text:?} {span:?}");
            }
            for pair in encoding.offsets.windows(2) {
                assert!(pair[0].start <= pair[1].start && pair[0].end <= pair[1].end, "{text:?} {pair:?}");
                assert!(pair[0] == pair[1] || pair[0].end <= pair[1].start, "{text:?} {pair:?}");
            }
            assert_eq!(model.encode_ids(&text), encoding.ids);
            model.decode(&encoding.ids).unwrap();
        });
    }

    #[test]
    fn byte_fallback_is_lossless_after_normalisation(text in texts()) {
        thread_local!(static MODELS: Vec<(&'static str, SentencePiece)> =
            ["unigram-bytes", "bpe-bytes", "bpe-nfkc-cf", "bpe-as-is"].map(|name| (name, model(name))).to_vec());
        MODELS.with(|models| for (name, model) in models {
            let normalized = model.normalize(&text);
            let decoded = model.decode(&model.encode_ids(&text)).unwrap();
            if *name == "bpe-as-is" {
                assert_eq!(decoded, normalized.replace('▁', " "), "{name} {text:?}");
            } else if text.contains('▁') {
                // It is indistinguishable from the one inserted in front.
                assert_eq!(decoded.trim_start(), normalized.replace('▁', " ").trim_start(), "{name} {text:?}");
            } else {
                let without_dummy = normalized.strip_prefix('▁').unwrap_or(&normalized);
                assert_eq!(decoded, without_dummy.replace('▁', " "), "{name} {text:?}");
            }
        });
    }
}
