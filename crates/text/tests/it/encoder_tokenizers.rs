//! Tokenisers of encoders from files other than `tokenizer.json` (`tests/golden/tokenizer/encoders.py`).

use std::fs;
use std::io::Read as _;
use std::path::Path;

use polyhead_text::tokenizer::Tokenizer;
use serde_json::{Value, json};

fn unpacked(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn golden() -> Value {
    serde_json::from_slice(&unpacked("tokenizer/encoders.json.gz")).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Compares all texts and pairs; `what` names the tokeniser.
fn check(what: &str, folder: &Path, golden: &Value, expected: &Value) {
    let tokenizer = Tokenizer::load_encoder(folder).unwrap();
    let texts = golden["texts"].as_array().unwrap().iter().zip(expected["texts"].as_array().unwrap());
    for (text, expected) in texts {
        let text = text.as_str().unwrap();
        let found = tokenizer.encode_with_special(text).unwrap();
        if expected.is_null() {
            // A text that spells special tokens has none inside.
            let inner = &found.ids[1..found.len() - 1];
            let special = ["<s>", "<pad>", "</s>", "<mask>"].map(|token| tokenizer.id(token).unwrap());
            assert!(inner.iter().all(|id| !special.contains(id)), "{what}: {text:?}");
            continue;
        }
        assert_eq!(found.ids, ids(expected), "{what}: {text:?} as {:?}", found.pieces);
        assert!(found.offsets.iter().all(|range| text.get(range.clone()).is_some()), "{what}: {text:?}");
    }
    let pairs = golden["pairs"].as_array().unwrap().iter().zip(expected["pairs"].as_array().unwrap());
    for (pair, expected) in pairs {
        let found = tokenizer.encode_pair(pair[0].as_str().unwrap(), pair[1].as_str().unwrap()).unwrap();
        assert_eq!(
            (found.ids, found.types),
            (ids(&expected["ids"]), ids(&expected["types"])),
            "{what}: {pair}"
        );
    }
}

#[test]
fn wordpiece_is_that_of_transformers() {
    let golden = golden();
    for case in golden["wordpiece"].as_array().unwrap() {
        let tokens = golden["vocabularies"][case["vocabulary"].as_str().unwrap()].as_array().unwrap();
        let lines: String = tokens.iter().map(|token| format!("{}\n", token.as_str().unwrap())).collect();
        let settings = case["options"].to_string();
        let folder =
            folder(&[("vocab.txt", lines.as_bytes()), ("tokenizer_config.json", settings.as_bytes())]);
        check(&format!("{} {settings}", case["vocabulary"]), folder.path(), &golden, case);
    }
}

#[test]
fn two_files_of_byte_level_bpe_are_read_as_roberta_has_them() {
    let golden = golden();
    let case = &golden["byte_level"];
    let merges: String = case["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| format!("{}\n", pair.as_str().unwrap()))
        .collect();
    let vocabulary = case["vocabulary"].to_string();
    let files = [("vocab.json", vocabulary.as_bytes()), ("merges.txt", merges.as_bytes())];
    check("RoBERTa", folder(&files).path(), &golden, case);
    let empty = folder(&[("vocab.json", b"{\"a\":0}"), ("merges.txt", b"")]);
    let error = Tokenizer::load_encoder(empty.path()).unwrap_err();
    assert!(error.to_string().contains("no <s> or no </s>"), "{error}");
}

#[test]
fn the_ids_of_xlm_roberta_are_shifted() {
    let golden = golden();
    let model = unpacked("sentencepiece/unigram-nfkc.model.gz");
    let folder = folder(&[("sentencepiece.bpe.model", &model)]);
    check("XLM-RoBERTa", folder.path(), &golden, &golden["xlm_roberta"]);
    let tokenizer = Tokenizer::load_encoder(folder.path()).unwrap();
    assert_eq!(json!(tokenizer.vocab_size()), golden["xlm_roberta"]["size"]);
    assert_eq!(tokenizer.id("<mask>"), Some(tokenizer.vocab_size() as u32 - 1));
}

#[test]
fn folders_that_are_wrong_are_named() {
    let error =
        |files: &[(&str, &[u8])]| Tokenizer::load_encoder(folder(files).path()).unwrap_err().to_string();
    let found = error(&[]);
    assert!(found.contains("a folder without a tokeniser, expected tokenizer.json; vocab.txt"), "{found}");
    let found = error(&[("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\na\nb\na\n")]);
    assert!(found.contains("vocab.txt:6") && found.contains("\"a\" a second time"), "{found}");
    let found = error(&[("vocab.txt", b"a\nb\n")]);
    assert!(found.contains("a vocabulary without special tokens"), "{found}");
    let files: [(&str, &[u8]); 2] =
        [("vocab.txt", b"[UNK]\n[CLS]\n[SEP]\n"), ("tokenizer_config.json", b"{\"do_lower_case\":3}")];
    let found = error(&files);
    assert!(found.contains("do_lower_case is 3, expected true or false"), "{found}");
    let bpe = unpacked("sentencepiece/bpe.model.gz");
    let found = error(&[("sentencepiece.bpe.model", &bpe)]);
    assert!(found.contains("a model of type Bpe, expected a unigram model"), "{found}");
}
