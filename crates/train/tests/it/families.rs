//! Laws for every model family, each tested on the family's example: a killed and resumed run equals an uninterrupted one, on
//! any number of threads, and the folder holds the trained model.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_engine::{Classifier, LoadOptions};
use polyhead_models::{ModelConfig, View};
use polyhead_train::config::RunConfig;
use polyhead_train::event::{Ending, Event};
use polyhead_train::{RunOptions, Start, train};

use crate::toy;

/// A run of a family in `folder`: reversing digits, or detecting a 7 among digits.
pub(crate) fn config(folder: &Path, example: &ModelConfig) -> RunConfig {
    let mut config = toy::config(folder, &["train.max_steps=12", "validation.every_steps=6"]);
    if example.view() == View::Encoder {
        for name in ["train", "valid"] {
            let source = std::fs::read_to_string(folder.join(format!("{name}.source"))).unwrap();
            let labels = source.lines().map(|line| if line.contains('7') { "yes\n" } else { "no\n" });
            std::fs::write(folder.join(format!("{name}.target")), labels.collect::<String>()).unwrap();
        }
        config.validation.metric = polyhead_train::config::Metric::Accuracy;
    }
    config.model = example.clone();
    config
}

#[test]
fn a_killed_and_resumed_run_equals_an_uninterrupted_one() {
    for example in ModelConfig::examples() {
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let whole = config(folder.path(), &example);
        let (outcome, _) = toy::run(&whole, RunOptions::default(), 1);
        assert_eq!(outcome.unwrap().ending, Ending::Steps, "{name}");
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
        assert_eq!(sessions, 3, "{name}");
        assert!(toy::weights(&parts.out) == toy::weights(&whole.out), "{name}");
        let mut other = whole.clone();
        other.out = folder.path().join("other");
        toy::run(&other, RunOptions::default(), 2).0.unwrap();
        assert!(toy::weights(&other.out) == toy::weights(&whole.out), "{name}: threads");
    }
}

#[test]
fn classifiers_learn_and_load_from_their_folders() {
    for example in ModelConfig::examples().into_iter().filter(|example| example.view() == View::Encoder) {
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), &example);
        (config.train.max_steps, config.train.r_drop, config.train.ema) = (150, 0.0, 0.0);
        config.validation.every_steps = 150;
        let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
        outcome.unwrap();
        let accuracy = told.iter().rev().find_map(|line| line.split("accuracy ").nth(1)).map(str::to_owned);
        let classifier = Classifier::load(config.out.join("model"), &LoadOptions::default()).unwrap();
        assert_eq!(classifier.model().labels(), ["no", "yes"], "{name}");
        let texts = std::fs::read_to_string(folder.path().join("train.source")).unwrap();
        let labels = std::fs::read_to_string(folder.path().join("train.target")).unwrap();
        let texts: Vec<&str> = texts.lines().collect();
        let found = classifier.classify(&texts).unwrap();
        let right = found.iter().zip(labels.lines()).filter(|(classes, label)| classes[0].label == *label);
        let right = right.count();
        // A window of three digits misses a 7 before them; always predicting the more frequent label gets 60 of 100.
        assert!(right * 100 > texts.len() * 75, "{name}: {right} of {} right ({accuracy:?})", texts.len());
        // A text alone has the same classes as in a batch.
        let alone = classifier.classify(&[texts[3]]).unwrap();
        assert_eq!(alone[0], found[3], "{name}");
        assert!(classifier.classify(&[""]).is_err(), "{name}");
    }
}

#[test]
fn settings_of_another_task_are_refused() {
    let example =
        ModelConfig::examples().into_iter().find(|example| example.view() == View::Encoder).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let error = refused(&|config| config.tokenizer.dropout = 0.1);
    assert!(error.starts_with("tokenizer.dropout: a setting for sentence pairs"), "{error}");
    let error = refused(&|config| config.validation.metric = polyhead_train::config::Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected accuracy or loss"), "{error}");
    let one = folder.path().join("one.target");
    std::fs::write(&one, "yes\n".repeat(150)).unwrap();
    let error = refused(&|config| config.data.train[0].target = Some(one.clone()));
    assert!(error.contains("1 labels, expected two or more"), "{error}");
    std::fs::write(folder.path().join("other.target"), "maybe\n".repeat(20)).unwrap();
    let error = refused(&|config| config.data.valid[0].target = Some(folder.path().join("other.target")));
    assert!(error.contains("line 1: label \"maybe\", expected one of the training text"), "{error}");
}
