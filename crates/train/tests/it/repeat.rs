//! The same run gives the same bits: on any number of threads, stopped anywhere and resumed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_train::config::RunConfig;
use polyhead_train::event::{Ending, Event};
use polyhead_train::{RunOptions, Start, train};

use crate::toy;

const RESUME: RunOptions<'static> = RunOptions { start: Start::Resume, max_minutes: None, stop: None };

/// The lines of metrics.jsonl without the fields that depend on time.
fn record(run: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let timeless = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["seconds", "tokens_per_s"] {
            line.as_object_mut().unwrap().remove(key);
        }
        line.to_string()
    };
    text.lines().map(timeless).collect()
}

#[test]
fn one_thread_two_threads_and_a_second_run_give_the_same_bits() {
    let runs = [1, 2, 2].map(|threads| {
        let folder = tempfile::tempdir().unwrap();
        let config = toy::config(folder.path(), &[]);
        let (outcome, _) = toy::run(&config, RunOptions::default(), threads);
        assert_eq!(outcome.unwrap().ending, Ending::Steps);
        (toy::weights(&config.out), record(&config.out))
    });
    assert!(runs[0].0.len() > 1000 && runs[0] == runs[1] && runs[1] == runs[2]);
}

#[test]
fn another_seed_gives_different_bits() {
    let weights = ["seed=1", "seed=2"].map(|seed| {
        let folder = tempfile::tempdir().unwrap();
        let config = toy::config(folder.path(), &[seed, "train.max_steps=4"]);
        toy::run(&config, RunOptions::default(), 1).0.unwrap();
        toy::weights(&config.out)
    });
    assert!(weights[0] != weights[1]);
}

#[test]
fn stopping_every_third_step_and_resuming_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = toy::config(
        folder.path(),
        &["tokenizer.kind=bpe", "tokenizer.vocab_size=16", "tokenizer.dropout=0.2"],
    );
    toy::run(&whole, RunOptions::default(), 2).0.unwrap();
    let mut parts = whole.clone();
    parts.out = folder.path().join("parts");
    let mut sessions = 0;
    loop {
        let stop = AtomicBool::new(false);
        let mut steps = 0;
        let options = RunOptions { stop: Some(&stop), ..RESUME };
        let outcome = train(&parts, options, &mut |event| {
            if let Event::Stepped(_) = event {
                steps += 1;
                stop.store(steps == 3, Ordering::Relaxed);
            }
        })
        .unwrap();
        sessions += 1;
        if outcome.ending != Ending::Stopped {
            break;
        }
    }
    assert_eq!(sessions, 14);
    assert!(toy::weights(&parts.out) == toy::weights(&whole.out));
    assert_eq!(record(&parts.out), record(&whole.out));
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_previous_one_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let config = toy::config(folder.path(), &["train.max_steps=30"]);
    toy::run(&config, RunOptions::default(), 1).0.unwrap();
    let newest = config.out.join("checkpoints/step-00000030/trainer/model.safetensors");
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let longer = toy::changed(folder.path(), &["train.max_steps=40"]);
    let (outcome, events) = toy::run(&longer, RESUME, 1);
    assert_eq!(outcome.unwrap().step, 40);
    let resumed = events.iter().find(|event| event.starts_with("Resumed")).unwrap();
    assert!(resumed.contains("step: Some(28)") && resumed.contains("checksum mismatch"), "{resumed}");
    let undisturbed = RunConfig { out: folder.path().join("whole"), ..toy::changed(folder.path(), &[]) };
    toy::run(&undisturbed, RunOptions::default(), 1).0.unwrap();
    assert!(toy::weights(&longer.out) == toy::weights(&undisturbed.out));
}

#[test]
fn a_resumed_run_refuses_a_different_config_or_text() {
    let folder = tempfile::tempdir().unwrap();
    let config = toy::config(folder.path(), &["train.max_steps=4"]);
    toy::run(&config, RunOptions::default(), 1).0.unwrap();
    let (again, _) = toy::run(&config, RunOptions::default(), 1);
    assert!(again.unwrap_err().to_string().contains("the folder already contains a run"));
    let other = toy::changed(folder.path(), &["model.d_ff=44", "schedule.peak=0.5"]);
    let error = toy::run(&other, RESUME, 1).0.unwrap_err().to_string();
    assert!(error.contains("model.decoder.d_ff is 44, was 40; model.encoder.d_ff is 44, was 40"), "{error}");
    assert!(error.contains("schedule.peak is 0.5, was 0.01"), "{error}");
    let text = std::fs::read_to_string(folder.path().join("train.source")).unwrap();
    std::fs::write(folder.path().join("train.source"), text.replacen('1', "2", 1)).unwrap();
    let error = toy::run(&config, RESUME, 1).0.unwrap_err().to_string();
    assert!(error.contains("train.source: this training text changed since the run started"), "{error}");
}
