//! `polyhead tokenizer`, from raw text to ids and back.

use crate::program::{folder, names, polyhead};

const ENGLISH: &str = "The cat ate the mouse.\nThe mouse ate the cheese.\nThe cat saw the cheese.\n";
const TURKISH: &str = "Kedi fareyi yedi.\nFare peyniri yedi.\nKedi peyniri gördü.\n";

#[test]
fn train_encode_decode_info() {
    let folder = folder(&[("a.en", ENGLISH), ("a.tr", TURKISH)]);
    let path = folder.path();
    for (kind, size) in [("bpe", "70"), ("unigram", "37"), ("wordpiece", "70"), ("word", "15"), ("char", "")]
    {
        let mut arguments = vec![
            "tokenizer",
            "train",
            "--input",
            "a.en",
            "--input",
            "a.tr",
            "--tag",
            "<2tr>",
            "--out",
            "t.json",
            "--overwrite",
        ];
        arguments.extend(["--kind", kind, "--character-coverage", "1", "--min-frequency", "1"]);
        if !size.is_empty() {
            arguments.extend(["--vocab-size", size]);
        }
        polyhead(path, &arguments, "").ok();
        let encode = ["tokenizer", "encode", "--tokenizer", "t.json", "--format", "ids", "--special"];
        let ids = polyhead(path, &encode, "The cat ate the mouse.\n").ok();
        assert!(ids.trim_end().ends_with(" 2"), "{kind}: {ids}");
        if kind != "word" {
            let text = polyhead(path, &["tokenizer", "decode", "--tokenizer", "t.json"], &ids).ok();
            assert_eq!(text, "The cat ate the mouse.\n", "{kind}");
        }
        let info =
            polyhead(path, &["tokenizer", "info", "--tokenizer", "t.json", "--format", "json"], "").ok();
        let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
        assert_eq!(info["special_tokens"][4], serde_json::json!([4, "<2tr>"]), "{kind}");
        assert!(size.is_empty() || info["vocab_size"].as_u64() == size.parse().ok(), "{kind}: {info}");
    }
    assert_eq!(names(path), ["a.en", "a.tr", "t.json"]);
}

#[test]
fn separate_tokenisers_for_source_and_target() {
    let folder = folder(&[("a.en", ENGLISH), ("a.tr", TURKISH)]);
    let mut arguments = vec!["tokenizer", "train", "--source", "a.en", "--target", "a.tr", "--separate"];
    arguments.extend(["--kind", "char", "--out", "out"]);
    polyhead(folder.path(), &arguments, "").ok();
    assert_eq!(names(&folder.path().join("out")), ["source.json", "target.json"]);
    let err = polyhead(folder.path(), &arguments, "").failed(1);
    assert!(err.starts_with("error: out/source.json: already exists, expected a new file\nhint: "), "{err}");
    polyhead(folder.path(), &[&arguments[..], &["--overwrite"]].concat(), "").ok();
    let encode = ["tokenizer", "encode", "--tokenizer", "out/source.json"];
    assert_eq!(polyhead(folder.path(), &encode, "mö\n").ok(), "m <unk>\n");
}

#[test]
fn offsets_are_printed_and_slice_the_text() {
    let folder = folder(&[("a.tr", TURKISH)]);
    let train =
        ["tokenizer", "train", "--input", "a.tr", "--kind", "char", "--unknown", "bytes", "--out", "t.json"];
    polyhead(folder.path(), &train, "").ok();
    let encode = ["tokenizer", "encode", "--tokenizer", "t.json", "--format", "jsonl"];
    let out = polyhead(folder.path(), &encode, "öx\n").ok();
    let json: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["pieces"], serde_json::json!(["ö", "<0x78>"]));
    assert_eq!(json["offsets"], serde_json::json!([[0, 2], [2, 3]]));
}

#[test]
fn dropout_depends_on_the_seed() {
    let folder = folder(&[("a.en", ENGLISH)]);
    let train = ["tokenizer", "train", "--input", "a.en", "--vocab-size", "35", "--out", "t.json"];
    polyhead(folder.path(), &train, "").ok();
    let encode = |seed: &str| {
        let arguments = ["tokenizer", "encode", "--tokenizer", "t.json", "--dropout", "0.5", "--seed", seed];
        polyhead(folder.path(), &arguments, ENGLISH).ok()
    };
    assert_eq!(encode("7"), encode("7"));
    assert_ne!(encode("7"), encode("8"));
}

#[test]
fn wrong_input_is_one_line_and_a_hint() {
    let folder = folder(&[
        ("empty", ""),
        ("few", "a b\n"),
        ("bad.gz", "\u{1f}\u{8b} no gzip at all"),
        ("broken.json", "{\"version\""),
        ("broken.spm", "no protobuf"),
        ("a.jsonl", "{\"text\": \"good\"}\nbad\n"),
    ]);
    std::fs::write(folder.path().join("bad.gz"), b"\x1f\x8b no gzip at all").expect("a small file");
    std::fs::write(folder.path().join("latin1"), b"gut\nsch\xf6n\n").expect("a small file");
    let before = names(folder.path());
    let failures = [
        (vec!["train", "--input", "missing", "--out", "t.json"], "error: missing: cannot open: no such file"),
        (vec!["train", "--input", ".", "--out", "t.json"], "error: .: cannot open: is a folder"),
        (vec!["train", "--input", "bad.gz", "--out", "t.json"], "error: bad.gz: cannot read: "),
        (vec!["train", "--input", "latin1", "--out", "t.json"], "error: latin1:2: invalid UTF-8 at byte 4"),
        (vec!["train", "--input", "empty", "--out", "t.json"], "error: empty: no text found"),
        (vec!["train", "--input", "few", "--out", "t.json"], "error: vocabulary size 8000, expected at most"),
        (vec!["train", "--input", "a.jsonl", "--out", "t.json"], "error: a.jsonl:2: no JSON object"),
        (
            vec!["train", "--input", "few", "--kind", "char", "--out", "no/t.json"],
            "error: no/t.json: cannot write",
        ),
        (
            vec!["train", "--input", "few", "--kind", "char", "--out", "."],
            "error: .: cannot write: is a folder",
        ),
        (vec!["encode", "--tokenizer", "missing"], "error: missing: cannot open"),
        (vec!["encode", "--tokenizer", "broken.json"], "error: broken.json: "),
        (vec!["encode", "--tokenizer", "broken.spm"], "error: broken.spm: "),
        (vec!["encode", "--tokenizer", "."], "error: .: a folder without a tokeniser"),
    ];
    for (arguments, start) in failures {
        let mut all = vec!["tokenizer"];
        all.extend(&arguments);
        let err = polyhead(folder.path(), &all, "text\n").failed(1);
        let lines: Vec<&str> = err.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with(start) && lines[1].starts_with("hint: "),
            "{arguments:?}: {err}"
        );
    }
    assert_eq!(names(folder.path()), before, "a failed command left something behind");
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let folder = folder(&[("a.en", ENGLISH)]);
    polyhead(
        folder.path(),
        &["tokenizer", "train", "--input", "a.en", "--kind", "char", "--out", "t.json"],
        "",
    )
    .ok();
    let decode = ["tokenizer", "decode", "--tokenizer", "t.json"];
    let err = polyhead(folder.path(), &decode, "5 99999\n").failed(1);
    assert!(err.starts_with("error: standard input:1: id 99999, expected less than "), "{err}");
    let err = polyhead(folder.path(), &decode, "5\nfive\n").failed(1);
    assert!(err.starts_with("error: standard input:2: \"five\", expected ids"), "{err}");
}

#[test]
fn tags_that_could_occur_in_text_are_refused() {
    let folder = folder(&[("a.en", ENGLISH)]);
    for tag in ["de", "▁the", "<0x41>", "<2 de>", " ", "", "<pad>", "!"] {
        let train =
            ["tokenizer", "train", "--input", "a.en", "--kind", "char", "--tag", tag, "--out", "t.json"];
        let err = polyhead(folder.path(), &train, "").failed(2);
        assert!(err.starts_with("error: special token: "), "{tag:?}: {err}");
    }
    let train =
        ["tokenizer", "train", "--input", "a.en", "--kind", "char", "--tag", ">>tur<<", "--out", "t.json"];
    polyhead(folder.path(), &train, "").ok();
}
