//! Folders that are not whole, and what is said about them.

use std::fs;
use std::path::Path;

use polyhead_translate::{Engine, LoadOptions};

use crate::golden;

/// A copy of the golden folder that a test may damage.
fn copy() -> tempfile::TempDir {
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

fn refused(folder: &Path) -> (String, String) {
    let error = Engine::load(folder, &LoadOptions::default()).unwrap_err();
    (error.to_string(), error.hint())
}

#[test]
fn a_folder_that_is_not_whole_is_refused_by_name() {
    let copy = copy();
    let path = |name: &str| copy.path().join(name);
    let (message, _) = refused(&path("nowhere"));
    assert!(message.ends_with("nowhere: no such folder, expected the folder of a model"), "{message}");
    assert!(refused(&path("vocab.json")).0.contains("a file, expected the folder"));

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
    assert!(message.contains("212 entries, 1 of them with ids that the embedding of 211 rows"), "{message}");
    assert_eq!(hint, "is the tokeniser another model's?");

    for name in ["vocab.json", "source.spm", "model.safetensors", "config.json"] {
        fs::remove_file(path(name)).unwrap();
        assert!(!refused(copy.path()).1.is_empty(), "{name}");
    }
}

#[test]
fn settings_of_an_older_folder_stand_in_its_config() {
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
    assert_eq!(found.suppressed, [[210]]);
}
