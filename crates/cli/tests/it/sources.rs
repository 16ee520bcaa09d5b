//! A model of two sources, from recipe to text: a word of the target depends on each source, a source may be missing; evaluation, beams,
//! alignment, int8, pictures, and what is refused.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Run, polyhead};

const THINGS: [[&str; 3]; 4] =
    [["house", "Haus", "-"], ["dog", "Hund", "-"], ["child", "Kind", "-"], ["day", "Tag", "-"]];
const COLOURS: [[&str; 2]; 4] = [["red", "rouge"], ["green", "vert"], ["blue", "bleu"], ["white", "blanc"]];

/// Writes triples: the first source names a thing, the second one its colour, the target both.
fn write_triples(folder: &Path, name: &str, count: usize) {
    let mut text = String::new();
    for index in 0..count {
        let [thing, german, _] = THINGS[index % 4];
        let [colour, french] = COLOURS[index / 4 % 4];
        let more = ["", "sehr "][index / 16 % 2];
        writeln!(text, "the {colour} {thing}\tdas {more}{german}\tcelui qui est {french}").unwrap();
    }
    fs::write(folder.join(format!("{name}.tsv")), text).unwrap();
}

const RECIPE: &str = r#"
out = "run"

[data]
train = { tsv = "train.tsv", source_columns = [2, 3] }
valid = { tsv = "valid.tsv", source_columns = [2, 3] }

[augment]
drop_source = 0.1

[tokenizer]
kind = "word"
vocab_size = 0

[model]
sources = 2
combination = "hierarchical"
d_model = 32
n_layers = 1
n_heads = 2
d_ff = 48
max_len = 32

[schedule]
peak = 0.01
warmup_steps = 20

[train]
max_tokens = 400
max_steps = 120
label_smoothing = 0.0

[validation]
metric = "errors"
every_steps = 60

[checkpoint]
beam_size = 1
final = "best"
"#;

fn train(folder: &Path, more: &[&str]) -> Run {
    write_triples(folder, "train", 320);
    write_triples(folder, "valid", 32);
    fs::write(folder.join("recipe.toml"), RECIPE).unwrap();
    let mut arguments = vec!["train", "recipe.toml"];
    for change in more {
        arguments.extend(["--set", change]);
    }
    polyhead(folder, &arguments, "")
}

#[test]
fn a_translation_depends_on_both_sources() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &[]).ok();
    let run = |arguments: &[&str], input: &str| polyhead(folder.path(), arguments, input).ok();
    let model = ["translate", "-m", "run/model"];
    let lines = "das Haus\tcelui qui est vert\ndas Tag\tcelui qui est rouge\n\n\t\n";
    assert_eq!(run(&model, lines), "the green house\nthe red day\n\n\n");
    let beam = [&model[..], &["--beam", "3", "--n-best", "2", "--alignment", "--format", "jsonl"]].concat();
    let found: Value = serde_json::from_str(&run(&beam, "das Kind\tcelui qui est bleu\n")).unwrap();
    assert_eq!(found["text"], "the blue child");
    // As many arguments as sources are one text.
    let arguments = [&model[..], &["das Hund", "celui qui est blanc"]].concat();
    assert_eq!(run(&arguments, ""), "the white dog\n");
    // A missing source: what it says is open, the rest is translated.
    let missing = run(&model, "das Haus\t\n\tcelui qui est vert\n");
    let missing: Vec<&str> = missing.lines().collect();
    assert!(missing[0].contains("house") && missing[1].contains("green"), "{missing:?}");
    run(&["quantize", "run/model", "--out", "int8", "--sample", "valid.tsv", "--column", "2"], "");
    assert_eq!(run(&["translate", "-m", "int8"], lines), "the green house\nthe red day\n\n\n");
    fs::write(folder.path().join("test.tsv"), "das Haus\tcelui qui est vert\tthe green house\n").unwrap();
    let scores = run(&["evaluate", "-m", "run/model", "--tsv", "test.tsv", "--format", "json"], "");
    assert!(scores.contains("100.0"), "{scores}");
}

#[test]
fn inspect_shows_the_attention_to_each_source() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &["train.max_steps=20"]).ok();
    let run = |arguments: &[&str]| {
        let texts = ["das Haus", "celui qui est vert"];
        polyhead(folder.path(), &[&["inspect", "-m", "run/model"], arguments, &texts].concat(), "").ok()
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    run(&["--out", "trace.json", "--out", "both.svg", "--out", "both.png", "--out", "page.html"]);
    let trace: Value = serde_json::from_str(&read("trace.json")).unwrap();
    assert_eq!(trace["sides"], serde_json::json!(["source", "source_2", "sources", "target"]));
    assert_eq!(
        (&trace["source"]["text"], &trace["source_2"]["text"]),
        (&"das Haus".into(), &"celui qui est vert".into())
    );
    let n_target = trace["target"]["tokens"].as_array().unwrap().len();
    for (kind, n_keys) in [("cross", 3), ("cross_2", 5), ("sources", 2), ("encoder_2", 5)] {
        let found =
            trace["attention"].as_array().unwrap().iter().find(|found| found["kind"] == kind).unwrap();
        let shape = &found["weights"]["shape"];
        let n_queries = if kind == "encoder_2" { 5 } else { n_target };
        assert_eq!(shape, &serde_json::json!([2, n_queries, n_keys]), "{kind}");
    }
    let picture = read("both.svg");
    for expected in ["source: layer 0", "source_2: layer 0", "sources: layer 0", "Haus", "vert"] {
        assert!(picture.contains(expected), "{expected}");
    }
    assert!(!read("page.html").is_empty());
    let one = run(&["--kind", "cross_2", "--out", "one.svg"]) + &read("one.svg");
    assert!(one.contains("vert") && !one.contains("source: layer"), "{one}");
    let screen = run(&[]);
    assert!(screen.contains("source_2") && screen.contains("celui qui est vert"), "{screen}");
    let words = run(&["--words", "--without", "cross_2:0"]);
    assert!(words.contains("unchanged"), "{words}");
}

#[test]
fn what_does_not_work_with_several_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (change, reason) in [
        ("model.sources=3", "2 texts in the source of a model with 3 sources"),
        ("model.sources=5", "sources is 5, expected 1 to 4"),
        ("model.copy=pointer_generator", "copying from 2 sources"),
        ("augment.keep=0.5", "keep or bare for a model of 2 sources"),
        (
            "data.train={ tsv = \"train.tsv\", source_column = 2 }",
            "0 texts in the source of a model with 2 sources",
        ),
    ] {
        let error = train(folder.path(), &[change, "out=other"]).failed(2);
        assert!(error.contains(reason), "{change}: {error}");
    }
    let one = ["model.sources=1", "augment.drop_source=0", "out=other"];
    let error = train(folder.path(), &one).failed(2);
    assert!(error.contains("several texts in the source of a model with one source"), "{error}");
    train(folder.path(), &["train.max_steps=2", "model.combination=flat"]).ok();
    let refused = |arguments: &[&str], input: &str, reason: &str| {
        let run = polyhead(folder.path(), arguments, input);
        assert!(
            run.code > 0 && run.err.contains(reason) && run.err.contains("hint"),
            "{arguments:?}: {run:?}"
        );
    };
    let translate = ["translate", "-m", "run/model"];
    refused(&translate, "das Haus\n", "1 text for a model of 2 sources, expected 2, separated by tabs");
    refused(&translate, "a\tb\tc\n", "3 texts for a model of 2 sources");
    fs::write(folder.path().join("a.txt"), "das Haus").unwrap();
    refused(&[&translate[..], &["--file", "a.txt"]].concat(), "", "a document for a model of 2 sources");
    refused(&["inspect", "-m", "run/model", "das Haus"], "", "1 text for a model of 2 sources");
    refused(&["explore", "-m", "run/model", "--no-open"], "", "a model of several sources, expected one");
    refused(
        &["serve", "--model", "m=run/model", "--listen", "127.0.0.1:0"],
        "",
        "a model of 2 sources, expected one",
    );
    refused(
        &["export", "run/model", "--layout", "marian", "--out", "marian"],
        "",
        "2 sources: Marian reads one",
    );
}
