//! Incomplete folders and their error messages; folders of other programs.

use std::fs;
use std::path::Path;

use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::transformer::config::{StackConfig, Tie};
use polyhead_models::transformer::{TransformerConfig, Translator};
use polyhead_tensor::Parameters;
use polyhead_text::tokenizer::{SpecialTokens, TrainOptions, train};
use polyhead_translate::{Engine, Evidence, LoadOptions, Mode, TranslateOptions};

use crate::golden;

/// A copy of the golden folder that a test may damage.
pub(crate) fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "tokenizer_config.json",
        "vocab.json",
    ] {
        fs::write(copy.path().join(name), fs::read(golden().join(name)).unwrap()).unwrap();
    }
    copy
}

pub(crate) fn refused(folder: &Path) -> (String, String) {
    let error = Engine::load(folder, &LoadOptions::default()).unwrap_err();
    (error.to_string(), error.hint())
}

#[test]
fn an_incomplete_folder_is_refused_by_name() {
    let copy = copy();
    let path = |name: &str| copy.path().join(name);
    let (message, _) = refused(&path("nowhere"));
    assert!(message.ends_with("nowhere: no such folder, expected a model folder"), "{message}");
    assert!(refused(&path("vocab.json")).0.contains("a file, expected a model folder"));

    fs::write(path("generation_config.json"), r#"{"num_beams": "many"}"#).unwrap();
    let (message, hint) = refused(copy.path());
    assert!(
        message.contains("generation_config.json: num_beams is \"many\", expected a whole number"),
        "{message}"
    );
    assert_eq!(hint, "correct the key or remove it");
    fs::remove_file(path("generation_config.json")).unwrap();

    let vocab = fs::read_to_string(path("vocab.json")).unwrap();
    fs::write(path("vocab.json"), vocab.replacen('{', "{\"one more\": 211,", 1)).unwrap();
    let (message, hint) = refused(copy.path());
    assert!(
        message.contains("212 entries, 1 of them with ids outside the embedding of 211 rows"),
        "{message}"
    );
    assert_eq!(hint, "does the tokeniser belong to another model?");

    for name in ["vocab.json", "source.spm", "model.safetensors", "config.json"] {
        fs::remove_file(path(name)).unwrap();
        assert!(!refused(copy.path()).1.is_empty(), "{name}");
    }
}

#[test]
fn generation_settings_of_an_older_folder_are_in_its_config() {
    let copy = copy();
    let path = copy.path().join("config.json");
    fs::remove_file(copy.path().join("generation_config.json")).unwrap();
    let config = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        config.replacen('{', r#"{"num_beams": 6, "max_length": 40, "bad_words_ids": [[210]],"#, 1),
    )
    .unwrap();
    let engine = Engine::load(copy.path(), &LoadOptions::default()).unwrap();
    let found = engine.generation();
    assert_eq!((found.beam_size, found.max_length, found.start_id, found.end_id), (6, 39, 210, 0));
    assert_eq!(found.rules.suppressed, [[210]]);
}

#[test]
fn broken_language_settings_are_refused() {
    let copy = copy();
    let path = copy.path().join("tokenizer_config.json");
    for (text, expected) in [
        ("{\"source_lang\": \"eng\",", "tokenizer_config.json: EOF while parsing"),
        ("[]", "expected a JSON object"),
        (r#"{"target_lang": 7}"#, "target_lang is 7, expected a string"),
        (r#"{"directions": "eng-deu"}"#, "directions is \"eng-deu\", expected a list"),
    ] {
        fs::write(&path, text).unwrap();
        let (message, hint) = refused(copy.path());
        assert!(message.contains(expected) && hint.starts_with("correct the "), "{message} {hint}");
    }
    fs::write(&path, r#"{"source_lang": null, "target_lang": null}"#).unwrap();
    Engine::load(copy.path(), &LoadOptions::default()).unwrap();
}

#[test]
fn a_prefix_counts_neither_in_scores_nor_in_new_tokens() {
    let copy = copy();
    let text = "My brother slept well.";
    let plain = Engine::load(copy.path(), &LoadOptions::default()).unwrap();
    let raw = TranslateOptions { mode: Mode::Raw, ..TranslateOptions::default() };
    let whole = plain.translate(&[text], &raw).unwrap().remove(0);
    let prefix = whole.text().split(' ').next().unwrap().to_owned();
    for beam_size in [1, 4] {
        let best = |alpha| {
            let options = TranslateOptions {
                prefix: prefix.clone(),
                beam_size: Some(beam_size),
                length_penalty: Some(alpha),
                ..raw.clone()
            };
            plain.translate(&[text], &options).unwrap().remove(0).best().clone()
        };
        let (sum, mean) = (best(0.0), best(1.0));
        assert_eq!(sum.text, mean.text);
        let length = (sum.score / mean.score).round() as usize;
        assert!(0 < length && length < mean.tokens, "{length} of {} tokens", mean.tokens);
    }
    let settings = copy.path().join("generation_config.json");
    let config = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, config.replacen('{', r#"{"max_new_tokens": 2,"#, 1)).unwrap();
    let short = Engine::load(copy.path(), &LoadOptions::default()).unwrap();
    assert_eq!(short.translate(&[text], &raw).unwrap()[0].best().tokens, 2);
    let prefixed = TranslateOptions { prefix, ..raw };
    assert!(short.translate(&[text], &prefixed).unwrap()[0].best().tokens > 2);
}

/// Writes a model with random weights and the special ids of fairseq or of our tokenisers.
pub(crate) fn write_model(folder: &Path, source_vocab_size: usize, target_vocab_size: usize, pad_id: u32) {
    let stack = StackConfig::new(2, 2, 16);
    let config = TransformerConfig {
        source_vocab_size,
        target_vocab_size,
        d_model: 8,
        encoder: stack,
        decoder: stack,
        tie: if source_vocab_size == target_vocab_size { Tie::All } else { Tie::TargetOutput },
        max_len: 32,
        pad_id,
        end_id: 2,
        start_id: 2,
        ..TransformerConfig::default()
    };
    let mut parameters = Parameters::default();
    Translator::new(&config, &mut parameters).unwrap();
    parameters.initialise(5);
    save(folder, &config, &parameters, &SaveOptions::default()).unwrap();
}

fn translate(folder: &Path, text: &str, to: Option<&str>) -> polyhead_translate::Translation {
    let engine = Engine::load(folder, &LoadOptions::default()).unwrap();
    let options = TranslateOptions {
        to: to.map(str::to_owned),
        evidence: Evidence::Alignment,
        n_best: 2,
        ..TranslateOptions::default()
    };
    engine.translate(&[text], &options).unwrap().remove(0)
}

#[test]
fn a_polyhead_folder_has_a_tokenizer_json() {
    let folder = tempfile::tempdir().unwrap();
    let lines = ["the cat ate the mouse", "the mouse ate the cat", "a cat"].map(|line| Ok(line.to_owned()));
    let special = SpecialTokens { tags: vec!["<2de>".into(), "<2tr>".into()], ..SpecialTokens::default() };
    let options = TrainOptions { vocab_size: Some(28), special, ..TrainOptions::default() };
    let tokenizer = train(lines.into_iter(), &options, &mut |_| {}).unwrap();
    tokenizer.save(folder.path().join("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.id("</s>"), Some(2));
    write_model(folder.path(), tokenizer.vocab_size(), tokenizer.vocab_size(), 0);

    let engine = Engine::load(folder.path(), &LoadOptions::default()).unwrap();
    let codes: Vec<&str> =
        engine.languages().targets().iter().map(|language| language.code.as_str()).collect();
    assert_eq!(codes, ["de", "tr"]);
    let ids = engine.source_ids("the cat </s> <2de>").unwrap();
    assert_eq!(ids.iter().filter(|id| **id == 2).count(), 1);
    assert_eq!(ids.last(), Some(&2));
    let plain = translate(folder.path(), "the cat ate the mouse", None);
    for to in ["tr", "tur", "<2tr>"] {
        let found = translate(folder.path(), "the cat ate the mouse", Some(to));
        assert_eq!(found.source_tokens, plain.source_tokens + 1);
        assert_ne!(found.best().score.to_bits(), plain.best().score.to_bits());
    }
}

#[test]
fn a_folder_of_fairseq_has_codes_and_two_dictionaries() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("bpe.code", "#version: 0.2\nc a\nca t</w>\n");
    write("dict.aa.txt", "cat 9\nc@@ 5\na@@ 4\nt 2\n");
    write("dict.bb.txt", "köp@@ 9\nek 5\nkedi 4\nve 3\nsu 2\n");
    write_model(folder.path(), 8, 9, 1);
    // By their sizes.
    let by_size = translate(folder.path(), "cat cat", None);
    assert_eq!(by_size.source_tokens, 3);
    assert!(by_size.text().split_whitespace().all(|word| !word.contains("cat")), "{}", by_size.text());
    // By their names.
    write("args.json", r#"{"source_lang": "aa", "target_lang": "bb"}"#);
    assert_eq!(translate(folder.path(), "cat cat", Some("bb")), by_size);
    write("args.json", r#"{"source_lang": "cc", "target_lang": "bb"}"#);
    let (message, hint) = refused(folder.path());
    assert!(
        message.contains("2 dictionaries, expected one for the source and one for the target"),
        "{message}"
    );
    assert_eq!(hint, "set source_lang and target_lang in args.json");
    fs::remove_file(folder.path().join("bpe.code")).unwrap();
    assert!(refused(folder.path()).0.contains("a folder without a tokeniser, expected tokenizer.json"));
}

#[test]
fn nan_weights_are_refused_by_name() {
    let copy = copy();
    let path = copy.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let (message, hint) = refused(copy.path());
    assert!(message.contains("holds NaN at index") && hint.contains("damaged"), "{message} {hint}");
}
