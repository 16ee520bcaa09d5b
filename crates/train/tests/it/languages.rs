//! One model for several directions: a tag chooses the target language.

use std::path::Path;

use polyhead_train::config::{RunConfig, parse};
use polyhead_train::{RunOptions, Start};
use polyhead_translate::{Engine, LoadOptions, TranslateOptions};

use crate::toy;

const CONFIG: &str = r#"
out = "run"

[data]
train = [
    { source = "train.source", target = "train.target", languages = ["dig", "rev"] },
    { source = "train.source", target = "train.source", languages = ["dig", "dig"], repeat = 2 },
]
valid = [
    { source = "valid.source", target = "valid.target", languages = ["dig", "rev"] },
    { source = "valid.source", target = "valid.source", languages = ["dig", "dig"] },
]

[tokenizer]
kind = "word"
vocab_size = 0

[model]
d_model = 48
n_layers = 1
n_heads = 4
d_ff = 96
dropout = { embedding = 0.0, residual = 0.0, attention = 0.0, activation = 0.0 }

[schedule]
curve = "cosine"
peak = 0.004
warmup_steps = 50

[train]
device = "cpu"
max_tokens = 512
label_smoothing = 0.0
max_steps = 500
"#;

fn config(folder: &Path, text: &str) -> RunConfig {
    parse(text, "several.toml", folder, &[]).unwrap()
}

#[test]
fn a_tag_chooses_the_target_language() {
    let folder = tempfile::tempdir().unwrap();
    toy::write_pairs(folder.path(), "train", 1500, 1);
    toy::write_pairs(folder.path(), "valid", 30, 2);
    let config = config(folder.path(), CONFIG);
    let (outcome, events) = toy::run(&config, RunOptions::default(), 2);
    let read = events.iter().find(|event| event.starts_with("Read")).unwrap();
    assert!(read.contains("pairs: 4500") && read.contains("valid: Some((60, 0))"), "{read}");
    let model = outcome.unwrap().folder.join("model");
    let settings = std::fs::read_to_string(model.join("tokenizer_config.json")).unwrap();
    assert!(settings.contains("\"dig-rev\"") && settings.contains("\"dig-dig\""), "{settings}");

    let engine = Engine::load(&model, &LoadOptions::default()).unwrap();
    let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (sources, reversed) = (lines("valid.source"), lines("valid.target"));
    let texts: Vec<&str> = sources.lines().collect();
    for (to, expected) in [("rev", &reversed), ("dig", &sources)] {
        let options = TranslateOptions { to: Some(to.into()), ..TranslateOptions::default() };
        let found = engine.translate(&texts, &options).unwrap();
        let right = found.iter().zip(expected.lines()).filter(|(found, line)| found.text() == *line).count();
        assert!(right >= 24, "{to}: {right} of 30");
    }
}

#[test]
fn a_run_does_not_resume_with_different_repeats() {
    let folder = tempfile::tempdir().unwrap();
    toy::write_pairs(folder.path(), "train", 50, 1);
    toy::write_pairs(folder.path(), "valid", 5, 2);
    let short =
        CONFIG.replace("max_steps = 500", "max_steps = 2").replace("warmup_steps = 50", "warmup_steps = 1");
    toy::run(&config(folder.path(), &short), RunOptions::default(), 1).0.unwrap();
    let other = config(folder.path(), &short.replace("repeat = 2", "repeat = 3"));
    let resume = RunOptions { start: Start::Resume, ..RunOptions::default() };
    let error = toy::run(&other, resume, 1).0.unwrap_err().to_string();
    assert!(error.contains("use of data.train"), "{error}");
}

#[test]
fn inconsistent_corpora_are_refused() {
    let folder = Path::new("");
    let refused = |from: &str, to: &str| {
        let text = CONFIG.replacen(from, to, 1);
        parse(&text, "several.toml", folder, &[]).unwrap_err().to_string()
    };
    let untagged = refused(", languages = [\"dig\", \"rev\"]", "");
    assert!(untagged.contains("some corpora with languages and some without"), "{untagged}");
    assert!(refused("repeat = 2", "repeat = 0").contains("repeat = 0, expected 1 or more"));
    assert!(refused("\"rev\"", "\"<rev>\"").contains("expected codes of letters"));
}
