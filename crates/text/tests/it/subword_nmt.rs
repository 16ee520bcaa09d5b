//! subword-nmt codes and fairseq dictionaries against the results of the Python package, and malformed files.

use std::path::PathBuf;

use polyhead_text::tokenizer::fairseq_dictionary::FairseqDictionary;
use polyhead_text::tokenizer::subword_nmt::{SubwordNmt, join};
use proptest::prelude::*;
use serde::Deserialize;

use crate::sentencepiece::unpacked;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/subword_nmt").join(name)
}

#[derive(Deserialize)]
struct Encoded {
    language: String,
    text: String,
    pieces: Vec<String>,
    ids: Vec<u32>,
    decoded: String,
}

#[derive(Deserialize)]
struct Segmented {
    version: u8,
    text: String,
    plain: String,
    filtered: Option<String>,
}

#[test]
fn tokens_and_ids_equal_those_of_fairseq() {
    let codes = SubwordNmt::load(golden("latin2nqo.codes")).unwrap();
    let cases: Vec<Encoded> = serde_json::from_slice(&unpacked("subword_nmt", "latin2nqo.json.gz")).unwrap();
    assert!(cases.len() > 150);
    for language in ["roman", "nqo"] {
        let dictionary = FairseqDictionary::load(golden(&format!("latin2nqo.dict.{language}.txt"))).unwrap();
        for case in cases.iter().filter(|case| case.language == language) {
            let encoding = dictionary.encode(&codes, &case.text);
            assert_eq!(encoding.pieces, case.pieces, "{:?}", case.text);
            assert_eq!(encoding.ids, case.ids, "{:?}", case.text);
            assert_eq!(dictionary.decode(&encoding.ids).unwrap(), case.decoded, "{:?}", case.text);
            for (piece, span) in encoding.pieces.iter().zip(encoding.offsets) {
                let slice = &case.text[span];
                assert!(piece == slice || piece.strip_suffix("@@") == Some(slice), "{piece:?} {slice:?}");
            }
            assert_eq!(dictionary.encode_pieces(&case.pieces.join(" ")).ids, case.ids);
        }
    }
}

#[test]
fn both_versions_and_the_vocabulary_filter_segment_as_the_python_package() {
    let cases: Vec<Segmented> = serde_json::from_slice(&unpacked("subword_nmt", "english.json.gz")).unwrap();
    assert!(cases.len() > 200);
    for version in [1, 2] {
        let codes = SubwordNmt::load(golden(&format!("english-{version}.codes"))).unwrap();
        let filter = codes.clone().with_vocabulary(golden("english-2.vocabulary"), 30).unwrap();
        for case in cases.iter().filter(|case| case.version == version) {
            let segmented = |codes: &SubwordNmt| {
                let pieces: Vec<String> =
                    codes.segment(&case.text).into_iter().map(|subword| subword.piece).collect();
                pieces.join(" ")
            };
            assert_eq!(segmented(&codes), case.plain, "{:?}", case.text);
            if let Some(filtered) = &case.filtered {
                assert_eq!(&segmented(&filter), filtered, "{:?}", case.text);
            }
        }
    }
}

fn written(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("file");
    std::fs::write(&path, text).expect("room on the disk");
    (folder, path)
}

#[test]
fn malformed_codes_name_their_line() {
    for (text, expected) in [
        ("", "file: no merges, expected lines of two symbols"),
        ("#version: 0.2\n", "file: no merges, expected lines of two symbols"),
        ("#version: 0.3\na b\n", "file:1: \"#version: 0.3\", expected #version: 0.1 or 0.2"),
        ("a b\nabc\n", "file:2: \"abc\", expected two symbols with one space between"),
        ("a b\na b 12\n", "file:2: \"a b 12\", expected two symbols with one space between"),
        ("a  b\n", "file:1: \"a  b\", expected two symbols with one space between"),
        ("a b\n\nc d\n", "file:2: an empty line, expected two symbols with one space between"),
    ] {
        let (_folder, path) = written(text.as_bytes());
        let error = SubwordNmt::load(&path).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(!error.hint().is_empty());
    }
    let (_folder, path) = written(b"a b\n\xff c\n");
    assert!(
        SubwordNmt::load(&path)
            .unwrap_err()
            .to_string()
            .ends_with("file:2: invalid UTF-8 at byte 1 of the line")
    );
    let (_folder, path) = written(b"a b\n\n\n");
    let codes = SubwordNmt::load(&path).unwrap();
    let (_folder, path) = written(b"a\n");
    let error = codes.with_vocabulary(&path, 1).unwrap_err().to_string();
    assert!(error.ends_with("file:1: \"a\", expected a subword and its count"), "{error}");
}

#[test]
fn malformed_dictionaries_name_their_line() {
    for (text, expected) in [
        ("a 1\nb\n", "file:2: \"b\", expected a token, a space and its count"),
        ("a 1\n\n", "file:2: \"\", expected a token, a space and its count"),
        ("a x\n", "file:1: \"a x\", expected a token, a space and its count"),
        (
            "a #fairseq:overwrite\n",
            "file:1: \"a #fairseq:overwrite\", expected a token, a space and its count",
        ),
        ("a 1\na 2\n", "file:2: \"a\" again, which is already id 4, expected every token only once, or"),
        ("<unk> 2\n", "file:1: \"<unk>\" again, which is already id 3, expected every token only once, or"),
    ] {
        let (_folder, path) = written(text.as_bytes());
        let error = FairseqDictionary::load(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn ids_start_after_the_four_special_tokens() {
    let (_folder, path) = written(b"a 5\nb c 3\n<s> 1 #fairseq:overwrite\na@@ 1\n");
    let dictionary = FairseqDictionary::load(&path).unwrap();
    assert_eq!(dictionary.vocab_size(), 8);
    assert_eq!(dictionary.id("a"), Some(4));
    assert_eq!(dictionary.id("b c"), Some(5));
    assert_eq!(dictionary.id("<s>"), Some(6));
    assert_eq!(dictionary.decode(&[0, 7, 4, 3, 7, 2, 1]).unwrap(), "aa <unk> a");
    assert!(dictionary.decode(&[8]).is_err());
    assert_eq!(dictionary.encode_pieces("a\u{a0}zz\u{1d}a").ids, [4, FairseqDictionary::UNK, 4]);
}

proptest! {
    #[test]
    fn joined_pieces_are_the_words(text in "[a-z ߊ߬é</w>@\\t\u{a0}]{0,24}") {
        thread_local!(static CODES: [SubwordNmt; 2] =
            ["english-1.codes", "english-2.codes"].map(|name| SubwordNmt::load(golden(name)).unwrap()));
        CODES.with(|both| for codes in both {
            let subwords = codes.segment(&text);
            for subword in &subwords {
                let slice = &text[subword.offsets.clone()];
                assert!(subword.piece == slice || subword.piece == format!("{slice}@@"));
            }
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            let pieces: Vec<&str> = subwords.iter().map(|subword| subword.piece.as_str()).collect();
            if !text.contains('@') {
                assert_eq!(join(&pieces.join(" ")), words.join(" ").trim_end());
            }
        });
    }
}
