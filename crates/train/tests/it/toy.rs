//! A task that is learned in seconds: reversing digits.

use std::path::Path;

use polyhead_random::Random;
use polyhead_train::config::{Override, RunConfig, parse};
use polyhead_train::event::Event;
use polyhead_train::{Result, RunOptions, RunOutcome, train};

/// Writes `pairs` pairs of digits and digits reversed as NAME.source and NAME.target.
pub(crate) fn write_pairs(folder: &Path, name: &str, pairs: usize, seed: u64) {
    let (mut source, mut target) = (String::new(), String::new());
    for pair in 0..pairs {
        let random = Random::new(seed).stream(pair as u64);
        let length = 2 + random.below(6, 0);
        let digits: Vec<String> = (1..=length).map(|at| random.below(10, at as u64).to_string()).collect();
        source += &(digits.join(" ") + "\n");
        target += &(digits.iter().rev().cloned().collect::<Vec<_>>().join(" ") + "\n");
    }
    std::fs::write(folder.join(format!("{name}.source")), source).unwrap();
    std::fs::write(folder.join(format!("{name}.target")), target).unwrap();
}

const CONFIG: &str = r#"
out = "run"
seed = 5

[data]
train = { source = "train.source", target = "train.target" }
valid = { source = "valid.source", target = "valid.target" }

[tokenizer]
kind = "word"
vocab_size = 0

[model]
preset = "tiny"
d_model = 24
n_layers = 1
n_heads = 2
d_ff = 40

[schedule]
peak = 0.01
warmup_steps = 20

[train]
device = "cpu"
max_tokens = 200
max_steps = 40
log_every = 5
r_drop = 0.5
ema = 0.9
accumulate = 2

[validation]
every_steps = 10

[checkpoint]
every_steps = 4
final = "average_last"
average = 2
"#;

/// Writes the text of a small run into `folder`; returns its config.
pub(crate) fn config(folder: &Path, overrides: &[&str]) -> RunConfig {
    write_pairs(folder, "train", 150, 1);
    write_pairs(folder, "valid", 20, 2);
    changed(folder, overrides)
}

/// The same config, for text that exists already.
pub(crate) fn changed(folder: &Path, overrides: &[&str]) -> RunConfig {
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    parse(CONFIG, "toy.toml", folder, &overrides).unwrap()
}

/// Trains on `threads` threads; returns the outcome and the events as text.
pub(crate) fn run(
    config: &RunConfig,
    options: RunOptions<'_>,
    threads: usize,
) -> (Result<RunOutcome>, Vec<String>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut events = Vec::new();
    let outcome = pool.install(|| {
        train(config, options, &mut |event| {
            if !matches!(event, Event::Stepped(_)) {
                events.push(format!("{event:?}"));
            }
        })
    });
    (outcome, events)
}

/// Bytes of the finished model's weights.
pub(crate) fn weights(run: &Path) -> Vec<u8> {
    std::fs::read(run.join("model/model.safetensors")).unwrap()
}
