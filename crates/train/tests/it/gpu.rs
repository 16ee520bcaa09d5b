//! Training on a GPU: it learns what the CPU learns, and gives the same bits again, stopped and resumed or not. Without a
//! GPU, the tests say why and pass.

use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_models::ModelConfig;
use polyhead_tensor::{Device, Math};
use polyhead_train::config::RunConfig;
use polyhead_train::event::{Ending, Event};
use polyhead_train::metrics_file::{MetricsLine, read};
use polyhead_train::{RunOptions, Start, train};

use crate::toy;

/// True if a GPU can be used; prints the reason if not.
pub(crate) fn has_gpu() -> bool {
    let found = Device::open("cuda", Math::F32);
    if let Err(error) = &found {
        eprintln!("skipped: {error}");
    }
    found.is_ok()
}

fn no_dropout(dtype: &str) -> [String; 3] {
    let none = "model.dropout={ embedding = 0.0, residual = 0.0, attention = 0.0, activation = 0.0 }";
    [format!("train.dtype={dtype}"), none.into(), "train.max_steps=20".into()]
}

/// The losses of the log.
pub(crate) fn losses(config: &RunConfig) -> Vec<f64> {
    let lines = read(&config.out.join("metrics.jsonl")).unwrap();
    lines
        .iter()
        .filter_map(|line| if let MetricsLine::Train(line) = line { Some(line.loss) } else { None })
        .collect()
}

#[test]
fn a_gpu_learns_what_the_cpu_learns() {
    if !has_gpu() {
        return;
    }
    for (dtype, tolerance) in [("f32", 1e-3), ("tf32", 5e-3), ("bf16", 3e-2)] {
        let folder = tempfile::tempdir().unwrap();
        let settings = no_dropout(dtype);
        let mut settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        settings.push("train.device=cuda");
        let mut config = toy::config(folder.path(), &settings);
        toy::run(&config, RunOptions::default(), 2).0.unwrap();
        let gpu = losses(&config);
        config.out = folder.path().join("cpu");
        (config.train.device, config.train.dtype) = ("cpu".into(), Some(polyhead_tensor::Dtype::F32));
        toy::run(&config, RunOptions::default(), 2).0.unwrap();
        for (gpu, cpu) in gpu.iter().zip(losses(&config)) {
            assert!((gpu / cpu - 1.0).abs() < tolerance, "{dtype}: {gpu} and {cpu}");
        }
    }
}

/// Without dropout a GPU and the CPU learn the same; twice, a GPU gives the same bits.
#[test]
fn every_family_learns_on_a_gpu() {
    if !has_gpu() {
        return;
    }
    for example in ModelConfig::examples() {
        let name = example.model_type();
        let mut keys = example.to_recipe();
        match keys.get_mut("dropout") {
            Some(serde_json::Value::Object(parts)) => parts.values_mut().for_each(|part| *part = 0.into()),
            Some(whole) => *whole = 0.into(),
            None => {}
        }
        for key in ["word_dropout", "stochastic_depth"] {
            if let Some(probability) = keys.get_mut(key) {
                *probability = 0.into();
            }
        }
        let example = ModelConfig::from_recipe(&keys).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = crate::families::config(folder.path(), &example);
        (config.train.r_drop, config.train.max_steps) = (0.0, 30);
        let runs = [("cuda", "a"), ("cuda", "b"), ("cpu", "c")].map(|(device, out)| {
            config.out = folder.path().join(out);
            (config.train.device, config.train.dtype) = (device.into(), Some(polyhead_tensor::Dtype::F32));
            toy::run(&config, RunOptions::default(), 2).0.unwrap();
            (losses(&config), toy::weights(&config.out))
        });
        assert!(runs[0] == runs[1], "{name}: twice");
        for (gpu, cpu) in runs[0].0.iter().zip(&runs[2].0) {
            assert!((gpu / cpu - 1.0).abs() < 1e-3, "{name}: {gpu} and {cpu}");
        }
    }
}

#[test]
fn a_second_run_and_a_resumed_one_have_the_same_bits() {
    if !has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ["train.device=cuda", "train.max_steps=60", "train.log_every=7", "checkpoint.every_steps=0"];
    let whole = toy::config(folder.path(), &settings);
    toy::run(&whole, RunOptions::default(), 2).0.unwrap();
    let mut again = whole.clone();
    again.out = folder.path().join("again");
    toy::run(&again, RunOptions::default(), 1).0.unwrap();
    assert!(toy::weights(&again.out) == toy::weights(&whole.out));
    let mut parts = whole.clone();
    parts.out = folder.path().join("parts");
    let mut sessions = 0;
    loop {
        let (stop, mut steps) = (AtomicBool::new(false), 0);
        let options = RunOptions { start: Start::Resume, stop: Some(&stop), ..RunOptions::default() };
        let outcome = train(&parts, options, &mut |event| {
            if let Event::Stepped(_) = event {
                steps += 1;
                stop.store(steps > 10, Ordering::Relaxed);
            }
        });
        sessions += 1;
        if outcome.unwrap().ending != Ending::Stopped {
            break;
        }
    }
    assert!(sessions > 2, "{sessions}");
    assert!(toy::weights(&parts.out) == toy::weights(&whole.out));
    assert_eq!(losses(&parts), losses(&whole));
}

#[test]
fn a_nan_loss_is_found_some_steps_late() {
    if !has_gpu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let extreme = [
        "train.device=cuda",
        "schedule.peak=1e38",
        "schedule.warmup_steps=1",
        "train.divergence=halve",
        "checkpoint.every_steps=1",
    ];
    let config = toy::config(folder.path(), &extreme);
    let (outcome, events) = toy::run(&config, RunOptions::default(), 1);
    let went_back = events.iter().filter(|event| event.starts_with("RolledBack")).count();
    assert_eq!(went_back, 5, "{events:?}");
    assert!(outcome.unwrap_err().to_string().contains("after the learning rate was halved 5 times"));
}

#[test]
fn a_run_names_its_device_and_resumes_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let config = toy::config(folder.path(), &["train.device=auto", "train.max_steps=2"]);
    let (outcome, events) = toy::run(&config, RunOptions::default(), 1);
    outcome.unwrap();
    assert!(events[0].starts_with("Opened"), "{}", events[0]);
    let stored = polyhead_train::config::load(&config.out.join("config.toml"), &[]).unwrap();
    assert!(["cpu", "cuda:0"].contains(&stored.train.device.as_str()), "{}", stored.train.device);
    let mut elsewhere = stored.clone();
    elsewhere.train.device = "cpu".into();
    elsewhere.train.dtype = None;
    elsewhere.train.max_steps = 3;
    let options = RunOptions { start: Start::Resume, ..RunOptions::default() };
    assert_eq!(toy::run(&elsewhere, options, 1).0.unwrap().step, 3);
}

#[test]
fn a_missing_device_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (settings, expected) in [
        (["train.device=cpu", "train.dtype=bf16"], "train.dtype: bf16, but the CPU computes in f32"),
        (["train.device=cuda:99", "train.dtype=auto"], ""),
    ] {
        let config = toy::config(folder.path(), &settings);
        let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err();
        assert!(error.to_string().contains(expected) && !error.hint().is_empty(), "{error}");
        assert!(!config.out.exists());
    }
}
