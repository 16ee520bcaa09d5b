//! Invalid text and settings, and losses that diverge.

use polyhead_train::config::RunConfig;
use polyhead_train::event::Ending;
use polyhead_train::{Error, RunOptions};

use crate::toy;

#[test]
fn a_nan_loss_ends_the_run_at_the_last_good_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let extreme = ["schedule.peak=1e30", "schedule.warmup_steps=1", "checkpoint.every_steps=1"];
    let config = toy::config(folder.path(), &extreme);
    let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err();
    assert!(matches!(error, Error::Diverged { .. }), "{error}");
    assert!(error.to_string().contains("the last good checkpoint: "), "{error}");
    assert!(error.hint().contains("schedule.peak"), "{}", error.hint());
}

#[test]
fn divergence_halve_rolls_back_and_halves_the_learning_rate() {
    let folder = tempfile::tempdir().unwrap();
    let extreme = [
        "schedule.peak=1e38",
        "schedule.warmup_steps=1",
        "train.divergence=halve",
        "checkpoint.every_steps=1",
    ];
    let config = toy::config(folder.path(), &extreme);
    let (outcome, events) = toy::run(&config, RunOptions::default(), 1);
    let went_back: Vec<&String> = events.iter().filter(|event| event.starts_with("RolledBack")).collect();
    assert_eq!(went_back.len(), 5, "{events:?}");
    assert!(went_back[1].contains("factor: 0.25"), "{went_back:?}");
    assert!(outcome.unwrap_err().to_string().contains("after the learning rate was halved 5 times"));
}

#[test]
fn rows_that_are_too_long_or_empty_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    toy::write_pairs(folder.path(), "train", 50, 1);
    toy::write_pairs(folder.path(), "valid", 9, 2);
    let long = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let lines = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{lines}{text}\n\n")).unwrap();
    };
    long("train.source", &"1 ".repeat(60));
    long("train.target", &"1 ".repeat(60));
    let config = toy::changed(folder.path(), &["train.max_steps=2", "train.max_tokens=50"]);
    let (outcome, events) = toy::run(&config, RunOptions::default(), 1);
    assert_eq!(outcome.unwrap().ending, Ending::Steps);
    let read = events.iter().find(|event| event.starts_with("Read")).unwrap();
    assert!(read.contains("empty: 1, too_long: 1, first_too_long: Some((0, 51, 61))"), "{read}");
}

#[test]
fn text_without_a_usable_pair_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = toy::config(folder.path(), &["data.max_length=1"]);
    let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err();
    assert!(error.to_string().contains("no usable pair (0 with an empty side, 150 too long)"), "{error}");
    std::fs::write(folder.path().join("train.source"), "").unwrap();
    std::fs::write(folder.path().join("train.target"), "").unwrap();
    let config = RunConfig { out: folder.path().join("other"), ..config };
    assert!(toy::run(&config, RunOptions::default(), 1).0.is_err());
}

#[test]
fn a_run_that_does_not_fit_into_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        toy::config(folder.path(), &["model.d_model=60000", "model.d_ff=400000", "model.n_layers=99"]);
    let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    assert!(error.to_string().contains("GB are free"), "{error}");
    // A refused run did not start: the same folder takes a valid config, with another vocabulary.
    let smaller = ["train.max_steps=2", "tokenizer.kind=character", "tokenizer.vocab_size=0"];
    let config = toy::changed(folder.path(), &smaller);
    toy::run(&config, RunOptions::default(), 1).0.unwrap();
    let tokenizer = std::fs::read_to_string(config.out.join("tokenizer.json")).unwrap();
    assert!(tokenizer.contains("\"▁\""), "the tokeniser of the first attempt was used");
}

#[test]
fn two_processes_do_not_train_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = toy::config(folder.path(), &["train.max_steps=2"]);
    std::fs::create_dir_all(&config.out).unwrap();
    let other = std::fs::File::create(config.out.join(".lock")).unwrap();
    other.lock().unwrap();
    let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err();
    assert!(error.to_string().contains("another process is training in this folder"), "{error}");
    drop(other);
    toy::run(&config, RunOptions::default(), 1).0.unwrap();
}

/// A line too long for the model once ended a run at its first validation, and all training was lost.
#[test]
fn a_validation_text_that_is_too_long_for_the_model_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        toy::config(folder.path(), &["model.max_len=12", "train.max_steps=4", "validation.every_steps=2"]);
    for name in ["valid.source", "valid.target"] {
        let path = folder.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{}\n{text}", ["7"; 40].join(" "))).unwrap();
    }
    let (outcome, _) = toy::run(&config, RunOptions::default(), 1);
    assert_eq!(outcome.unwrap().step, 4);
    // max_pairs = 1 takes the first line that the model can read.
    let mut one = config.clone();
    (one.out, one.validation.max_pairs) = (folder.path().join("one"), 1);
    assert_eq!(toy::run(&one, RunOptions::default(), 1).0.unwrap().step, 4);
    // A classifier likewise.
    let keys = serde_json::json!({ "model_type": "transformer_encoder", "preset": "tiny", "max_len": 12 });
    let mut labelled = one.clone();
    labelled.out = folder.path().join("labelled");
    labelled.model = polyhead_models::ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap();
    labelled.task = polyhead_train::Task::Classification;
    labelled.validation.metric = polyhead_train::config::Metric::Accuracy;
    for (name, rows) in [("train.target", 150), ("valid.target", 21)] {
        let labels = (0..rows).map(|row| if row % 2 == 0 { "even\n" } else { "odd\n" }).collect::<String>();
        std::fs::write(folder.path().join(name), labels).unwrap();
    }
    assert_eq!(toy::run(&labelled, RunOptions::default(), 1).0.unwrap().step, 4);
}
