//! Taggers: names and numbers among words, read from files as of CoNLL's tasks and from JSONL.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_engine::LoadOptions;
use polyhead_engine::encoder::LongTexts;
use polyhead_engine::encoder::tag::Tagger;
use polyhead_models::ModelConfig;
use polyhead_models::checkpoint::{CheckpointLayout, with_head};
use polyhead_models::encoder::EncoderHead;
use polyhead_random::Random;
use polyhead_text::spans::spans;
use polyhead_train::config::{CorpusConfig, Metric, RunConfig, TokenizerConfig};
use polyhead_train::event::{Ending, Event};
use polyhead_train::{RunOptions, Start, Task, train};

use crate::toy;

/// Words with tags: capitalised ones are names, of one or two words, digits are numbers.
fn sentences(count: u64, seed: u64) -> Vec<Vec<(String, &'static str)>> {
    let sentence = |number| {
        let random = Random::new(seed).stream(number);
        let mut words: Vec<(String, &'static str)> = Vec::new();
        for at in 0..3 + random.below(4, 0) as u64 {
            let part = |index: u64| ["na", "lo", "mi", "su"][random.below(4, 100 + 2 * at + index)];
            let lower = [part(0), part(1)].concat();
            let upper = lower[..1].to_uppercase() + &lower[1..];
            let follows = words.last().is_some_and(|(_, tag)| *tag == "B-PER");
            words.push(match random.below(4, 50 + at) {
                0 if follows => (upper, "I-PER"),
                0 | 1 if words.last().is_none_or(|(_, tag)| *tag == "O") => (upper, "B-PER"),
                2 => (random.below(100, 70 + at).to_string(), "B-NUM"),
                _ => (lower, "O"),
            });
        }
        words
    };
    (0..count).map(sentence).collect()
}

fn conll(sentences: &[Vec<(String, &'static str)>]) -> String {
    let line = |(word, tag): &(String, &str)| format!("{word} x {tag}\n");
    sentences.iter().map(|words| words.iter().map(line).collect::<String>() + "\n").collect()
}

fn jsonl(sentences: &[Vec<(String, &'static str)>]) -> String {
    let object = |words: &Vec<(String, &str)>| {
        let (words, tags): (Vec<&String>, Vec<&str>) = words.iter().map(|(word, tag)| (word, *tag)).unzip();
        serde_json::json!({ "tokens": words, "tags": tags }).to_string() + "\n"
    };
    sentences.iter().map(object).collect()
}

/// A small BERT.
fn example() -> ModelConfig {
    ModelConfig::examples().into_iter().find(|own| own.model_type() == "polyhead_bert").unwrap()
}

fn config(folder: &Path, example: &ModelConfig) -> RunConfig {
    let mut config = toy::config(folder, &["train.max_steps=12", "validation.every_steps=6"]);
    for (name, count, seed, corpus) in
        [("train", 150, 1, &mut config.data.train), ("valid", 30, 2, &mut config.data.valid)]
    {
        let path = folder.join(format!("{name}.conll"));
        std::fs::write(&path, conll(&sentences(count, seed))).unwrap();
        *corpus = vec![CorpusConfig { conll: Some(path), ..CorpusConfig::default() }];
    }
    // Several tokens a word.
    config.tokenizer = TokenizerConfig {
        kind: polyhead_text::tokenizer::TokenizerKind::Character,
        vocab_size: 0,
        ..TokenizerConfig::default()
    };
    config.train.label_smoothing = 0.0;
    config.validation.metric = Metric::F1;
    config.model = with_head(example, CheckpointLayout::Polyhead, EncoderHead::TokenClasses).unwrap();
    config.task = Task::Tagging;
    config
}

#[test]
fn a_killed_and_resumed_run_equals_an_uninterrupted_one() {
    for example in ModelConfig::examples().iter().filter(|own| own.model_type() == "polyhead_bert") {
        let folder = tempfile::tempdir().unwrap();
        let mut whole = config(folder.path(), example);
        whole.classes.weights = None;
        assert_eq!(toy::run(&whole, RunOptions::default(), 1).0.unwrap().ending, Ending::Steps);
        let mut parts = whole.clone();
        parts.out = folder.path().join("parts");
        let mut sessions = 0;
        loop {
            let stop = AtomicBool::new(false);
            let mut steps = 0;
            let options = RunOptions { start: Start::Resume, stop: Some(&stop), ..RunOptions::default() };
            let outcome = train(&parts, options, &mut |event| {
                if let Event::Stepped(_) = event {
                    steps += 1;
                    stop.store(steps == 5, Ordering::Relaxed);
                }
            });
            sessions += 1;
            if outcome.unwrap().ending != Ending::Stopped {
                break;
            }
        }
        assert_eq!(sessions, 3);
        assert!(toy::weights(&parts.out) == toy::weights(&whole.out));
        // The same sentences in JSONL, on two threads.
        let mut other = whole.clone();
        other.out = folder.path().join("other");
        let path = folder.path().join("train.jsonl");
        std::fs::write(&path, jsonl(&sentences(150, 1))).unwrap();
        other.data.train = vec![CorpusConfig { jsonl: Some(path), ..CorpusConfig::default() }];
        toy::run(&other, RunOptions::default(), 2).0.unwrap();
        assert!(toy::weights(&other.out) == toy::weights(&whole.out));
    }
}

#[test]
fn names_and_numbers_are_learned_and_the_folder_tags_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), &example());
    (config.train.max_steps, config.train.r_drop, config.train.ema) = (240, 0.0, 0.0);
    config.validation.every_steps = 240;
    let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
    outcome.unwrap();
    let finished = told.iter().rev().find(|line| line.starts_with("Finished")).unwrap();
    let f1: f64 =
        finished.split("\"F1\": ").nth(1).unwrap().split([',', '}']).next().unwrap().parse().unwrap();
    assert!(f1 > 90.0, "{f1}");
    let readme = std::fs::read_to_string(config.out.join("model/README.md")).unwrap();
    assert!(
        readme.contains("| label | precision | recall | F1 |") && readme.contains("\n| PER | "),
        "{readme}"
    );
    let tagger = Tagger::load(config.out.join("model"), &LoadOptions::default()).unwrap();
    assert_eq!(tagger.encoder().model().labels(), ["B-NUM", "B-PER", "I-PER", "O"]);
    // Entities of the validation text, with words divided by the tagger and by spaces.
    let (mut right, mut total) = ([0; 2], 0);
    for words in sentences(30, 2) {
        let text = words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join("  ");
        let expected: Vec<String> = spans(words.iter().map(|(_, tag)| Some(*tag)))
            .into_iter()
            .map(|span| {
                format!(
                    "{} {}",
                    span.label,
                    words[span.words].iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join("  ")
                )
            })
            .collect();
        total += 1;
        let found = [tagger.tag(&[&text], LongTexts::Refuse), tagger.tag_words(&[&text], LongTexts::Refuse)];
        for (right, found) in right.iter_mut().zip(found) {
            let found = found.unwrap().remove(0).unwrap().entities;
            let found = found.iter().map(|own| format!("{} {}", own.label, &text[own.range.clone()]));
            *right += usize::from(found.eq(expected.clone()));
        }
    }
    assert!(right.iter().all(|right| right * 10 > total * 7), "{right:?} of {total}");
    assert!(tagger.tag_words(&["", " "], LongTexts::Refuse).unwrap().iter().all(Result::is_err));
}

#[test]
fn tags_are_checked_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example());
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let file = |text: &str| {
        let path = folder.path().join("other.conll");
        std::fs::write(&path, text).unwrap();
        vec![CorpusConfig { conll: Some(path), ..CorpusConfig::default() }]
    };
    let error = refused(&|config| config.data.valid = file("na O\n\nlo O\nMisu B-LOC\n"));
    assert!(
        error.contains("the sentence of line 3: tag \"B-LOC\", expected one of the training text"),
        "{error}"
    );
    let error = refused(&|config| config.data.train = file("na O\nlo O\n"));
    assert!(error.contains("1 different tags, expected two or more"), "{error}");
    let error = refused(&|config| config.data.train = file("na O\nlo\n"));
    assert!(error.contains("other.conll:2: 1 column, expected a word and its tag"), "{error}");
    let error = refused(&|config| config.data.max_length = 1);
    assert!(error.contains("no usable sentence (0 without words, 150 too long)"), "{error}");
    let error = refused(&|config| config.validation.metric = Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected f1, accuracy or loss"), "{error}");
    let error = refused(&|config| config.data.train[0].tsv = Some("a.tsv".into()));
    assert!(error.starts_with("data.train: no words with tags"), "{error}");
    let parsed = |more: &str| {
        let text =
            format!("task = \"tag\"\n[data]\ntrain = {{ conll = \"a\" }}\n[train]\nmax_steps = 3\n{more}");
        polyhead_train::config::parse(&text, "x.toml", Path::new(""), &[])
    };
    let config = parsed("").unwrap();
    assert_eq!((config.model.model_type(), config.validation.metric), ("polyhead_bert", Metric::F1));
    let error = parsed("[model]\nmodel_type = \"transformer_encoder\"\n").unwrap_err().to_string();
    assert!(
        error.starts_with("model.model_type: a polyhead_transformer_encoder, expected a BERT-like encoder"),
        "{error}"
    );
}
