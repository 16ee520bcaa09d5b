//! `polyhead translate` with documents: pages, subtitles, messages.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Run, folder, polyhead};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn translate(arguments: &[&str], input: &str) -> Run {
    polyhead(&golden(), &[&["translate", "--model", ".", "--to", "tur"], arguments].concat(), input)
}

const TEXT: &str = "Nobody slept well!";

#[test]
fn documents_preserve_markup() {
    let alone = translate(&[TEXT], "").ok().trim_end().to_owned();
    let documents = [
        ("html", format!("<!DOCTYPE html>\n<p class=\"a\"> <b>{TEXT}</b>\n<script>1 < 2</script>\n")),
        ("srt", format!("\u{feff}1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>{TEXT}</i>\r\n\r\n")),
        ("po", format!("#, fuzzy\nmsgid \"nobody\"\nmsgstr \"{TEXT}\"\n\nmsgid \"a\"\nmsgstr \"b\"\n")),
        ("txt", format!("\t{TEXT}\n\n---\n")),
    ];
    for (ending, document) in documents {
        let input = if ending == "po" { document.replace("nobody", TEXT) } else { document.clone() };
        let expected = if ending == "po" {
            input.replace(&format!("msgstr \"{TEXT}\""), &format!("msgstr \"{alone}\""))
        } else {
            document.replace(TEXT, &alone)
        };
        let files = folder(&[]);
        let path = files.path().join(format!("a.{ending}"));
        fs::write(&path, &input).unwrap();
        assert_eq!(translate(&["--file", path.to_str().unwrap()], "").ok(), expected, "{ending}");
        if ending != "txt" {
            assert_eq!(translate(&["--format", ending], &input).ok(), expected, "{ending}");
        }
    }
    let argument = translate(&["--format", "html", "<b>Nobody slept well!</b>"], "").ok();
    assert_eq!(argument, format!("<b>{alone}</b>\n"));
}

#[test]
fn tags_inside_a_sentence_come_back() {
    let out = translate(&["--format", "html"], "<p>The <b>teacher</b> reads <code>a</code> book.</p>").ok();
    for part in ["<p>", "<b>", "</b>", "<code>a</code>", "</p>"] {
        assert_eq!(out.matches(part).count(), 1, "{out}");
    }
}

#[test]
fn documents_that_cannot_be_translated_are_errors() {
    let error = translate(&["--format", "po"], "msgid \"a\"\nmsgstr b\n").failed(1);
    assert!(error.contains("error: standard input: line 2: ") && error.contains("hint: "), "{error}");
    let error = translate(&["--format", "srt"], "Hello\n").failed(1);
    assert!(error.contains("line 1: no times"), "{error}");
    let error = translate(&["--file", "missing.html"], "").failed(1);
    assert!(error.contains("missing.html: cannot open"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("picture.txt");
    fs::write(&picture, b"\x89PNG\r\n\0\0").unwrap();
    let error = translate(&["--file", picture.to_str().unwrap()], "").failed(1);
    assert!(error.contains("a zero at byte 7, expected text in UTF-8"), "{error}");
    let error = translate(&["--file", "vocab.json"], "").failed(2);
    assert!(error.contains("vocab.json: extension .json, expected .txt"), "{error}");
    for arguments in [
        &["--format", "html", "--scores"][..],
        &["--format", "srt", "--n-best", "2"],
        &["--file", "vocab.json", "--alignment"],
        &["--file", "vocab.json", "--format", "jsonl"],
        &["--file", "vocab.json", "text"],
    ] {
        let error = translate(arguments, "").failed(2);
        assert!(error.contains("hint: "), "{error}");
    }
}
