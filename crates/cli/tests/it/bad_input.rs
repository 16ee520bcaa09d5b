//! Input that is no text in a language of the bundled model: unchanged or noted, never lost silently, never slow.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::polyhead;

/// Seconds that a text may take in a build without optimisation, on a busy machine; optimised, each takes less than 2.
const MAX_SECONDS: u64 = 30;

/// The JSON of a line on standard input, into German.
#[track_caller]
fn translate(line: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let start = Instant::now();
    let out = polyhead(&root, &["translate", "--to", "de", "--format", "jsonl"], &format!("{line}\n")).ok();
    assert!(start.elapsed() < Duration::from_secs(MAX_SECONDS), "{:?}", start.elapsed());
    serde_json::from_str(&out).unwrap()
}

fn text(json: &Value) -> &str {
    json["text"].as_str().unwrap()
}

fn has_note(json: &Value, kind: &str) -> bool {
    json["notes"].as_array().is_some_and(|notes| notes.iter().any(|note| note["kind"] == kind))
}

#[test]
fn what_is_no_language_is_unchanged() {
    for line in [
        "7".repeat(10_000),
        "12 34 56 ".repeat(500).trim().to_owned(),
        "!?.,;:—…()[]«»".to_owned(),
        "?!".repeat(3000),
        "😀🎉 👍🏽❤️ 🇹🇷".to_owned(),
        "{a} {b} %s".to_owned(),
        "\u{e000}\u{e001} \u{f8ff}".to_owned(),
        "\0\u{1}\u{2}".to_owned(),
        "é".repeat(3000),
        "x".repeat(5000),
    ] {
        assert_eq!(text(&translate(&line)), line);
    }
}

#[test]
fn an_unknown_script_is_copied_and_noted() {
    for line in ["Привет, как дела?", "مرحبا بالعالم", "你好，世界"] {
        let json = translate(line);
        assert_eq!(text(&json), line);
        assert!(has_note(&json, "other_script"), "{json}");
    }
}

#[test]
fn an_unknown_language_is_translated_and_noted() {
    let json = translate("El perro de mi hermano es muy grande.");
    assert!(!text(&json).is_empty());
    let message = "the text looks like Spanish, which this model does not translate";
    assert!(json["notes"].as_array().unwrap().iter().any(|note| note["message"] == message), "{json}");
    let json = translate("The dog of my brother is very big.");
    assert!(!has_note(&json, "other_language") && !has_note(&json, "other_script"), "{json}");
}

#[test]
fn mixed_languages_in_one_line_are_not_lost() {
    let json = translate("The weather is nice, aber ich bin müde, et demain je pars.");
    assert!(text(&json).split_whitespace().count() >= 6, "{json}");
    let json = translate("Hello, Привет мир, how are you today?");
    assert!(text(&json).contains("Привет мир") && text(&json).split_whitespace().count() >= 5, "{json}");
    assert!(!has_note(&json, "other_script"), "{json}");
}

#[test]
fn characters_that_the_model_cannot_write_come_back() {
    let json = translate("The cat \u{e000} drinks \u{f8ff} milk.");
    assert!(text(&json).contains('\u{e000}') && text(&json).contains('\u{f8ff}'), "{json}");
    let json = translate("The cat\0 drinks \u{7} \u{1b}[31mmilk\u{1b}[0m today.");
    for characters in ["\0", "\u{7}", "\u{1b}[31m", "\u{1b}[0m"] {
        assert_eq!(text(&json).matches(characters).count(), 1, "{json}");
    }
    let word = "a".repeat(400);
    let json = translate(&format!("The word {word} is very long."));
    assert_eq!(text(&json).matches(&word).count(), 1, "{json}");
    assert!(text(&json).split_whitespace().count() >= 4, "{json}");
}
