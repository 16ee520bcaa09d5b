//! A model that copies, from recipe to text: names that the vocabulary lacks, `--copy`, n-best lists, int8, pictures, and what
//! is refused.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Run, polyhead};

/// Writes pairs in which a name, different in each, is first in the source and last in the target.
fn write_pairs(folder: &Path, part: &str, count: usize) {
    let (mut source, mut target) = (String::new(), String::new());
    for index in 0..count {
        let name = format!("{part}{index}");
        let (noun, other) = [("cat", "katze"), ("dog", "hund")][index % 2];
        writeln!(source, "{name} sees the {noun}").unwrap();
        writeln!(target, "die {other} sieht {name}").unwrap();
    }
    fs::write(folder.join(format!("{part}.en")), source).unwrap();
    fs::write(folder.join(format!("{part}.de")), target).unwrap();
}

const RECIPE: &str = r#"
out = "run"

[data]
train = { source = "train.en", target = "train.de" }
valid = { source = "valid.en", target = "valid.de" }

[tokenizer]
kind = "word"
vocab_size = 12

[model]
model_type = "recurrent"
preset = "pointer_generator"
d_embedding = 24
d_model = 24
max_len = 32

[schedule]
peak = 0.02
warmup_steps = 20

[train]
max_tokens = 200
max_steps = 150
label_smoothing = 0.0

[validation]
metric = "errors"
every_steps = 75

[checkpoint]
beam_size = 1
final = "best"
"#;

fn train(folder: &Path, more: &[&str]) -> Run {
    write_pairs(folder, "train", 200);
    write_pairs(folder, "valid", 20);
    fs::write(folder.join("recipe.toml"), RECIPE).unwrap();
    let mut arguments = vec!["train", "recipe.toml"];
    for change in more {
        arguments.extend(["--set", change]);
    }
    polyhead(folder, &arguments, "")
}

#[test]
fn names_that_the_vocabulary_lacks_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &[]).ok();
    let run = |arguments: &[&str], input: &str| polyhead(folder.path(), arguments, input).ok();
    let model = ["-m", "run/model"];
    let translate = [&["translate"], &model[..]].concat();
    let text = run(&[&translate[..], &["--copy"]].concat(), "Zorblax sees the dog\nQu1n sees the cat\n");
    assert_eq!(text, "die hund sieht Zorblax ||| Zorblax 0-3\ndie katze sieht Qu1n ||| Qu1n 0-3\n");
    let beam = ["--beam", "3", "--n-best", "2", "--format", "jsonl", "--copy"];
    let found: Value =
        serde_json::from_str(&run(&[&translate[..], &beam].concat(), "Zorblax sees the dog\n")).unwrap();
    assert_eq!(found["text"], "die hund sieht Zorblax");
    let copied = &found["copied"][0];
    assert_eq!(
        (&copied["word"], &copied["source"], &copied["target"]),
        (&"Zorblax".into(), &0.into(), &3.into())
    );
    assert!(copied["share"].as_f64().unwrap() > 0.99, "{copied}");
    let plain = run(&translate, "Zorblax sees the dog\n");
    assert_eq!(plain, "die hund sieht Zorblax\n");
    run(&["inspect", "-m", "run/model", "--out", "trace.json", "Zorblax sees the dog"], "");
    let traced = fs::read_to_string(folder.path().join("trace.json")).unwrap();
    assert!(traced.contains("Zorblax"), "{traced}");
    run(&["quantize", "run/model", "--out", "int8"], "");
    assert_eq!(run(&["translate", "-m", "int8", "Zorblax sees the dog"], ""), "die hund sieht Zorblax\n");
    let list = [&translate[..], &["--shortlist", "valid.de", "Zorblax sees the dog"]].concat();
    let error = polyhead(folder.path(), &list, "").failed(2);
    assert!(error.contains("it writes words that no list has"), "{error}");
}

#[test]
fn what_cannot_be_copied_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("tokenizer.kind=bpe", "source and target may cut it differently"),
        ("tokenizer.sides=separate", "a copied word needs the same id on both sides"),
        ("train.r_drop=1", "R-Drop with copying"),
        ("model.attention=none", "words are copied by the weights of attention"),
        ("model.score=dot", "coverage with the dot score"),
        ("model.copy=none", "coverage is 1 without copying"),
    ];
    for (change, reason) in cases {
        let mut changes = vec![change, "out=other"];
        match change {
            "tokenizer.kind=bpe" => changes.push("tokenizer.vocab_size=60"),
            "tokenizer.sides=separate" => changes.extend(["tokenizer.vocab_size=7", "model.tie=none"]),
            "model.attention=none" => changes.push("model.input_feeding=false"),
            _ => {}
        }
        let error = train(folder.path(), &changes).failed(2);
        assert!(error.contains(reason), "{change}: {error}");
        drop(fs::remove_dir_all(folder.path().join("other")));
    }
    let error = polyhead(folder.path(), &["translate", "--copy", "--to", "de", "A cat."], "").failed(2);
    assert!(error.contains("expected a model with copying"), "{error}");
}
