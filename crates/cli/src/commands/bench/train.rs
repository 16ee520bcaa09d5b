//! `polyhead bench train`: one training step of an encoder-decoder Transformer on random data.
//!
//! Post-norm, ReLU, tied embeddings, sinusoidal positions, dropout 0.1 on attention weights, after ReLU and on each
//! sub-layer's output but not on embeddings, label smoothing 0.1, AdamW. Loss, all gradients and the update are computed
//! in every step.

mod card;
mod workload;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_models::SequenceToSequence;
use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::optim::{Adam, AdamOptions};
use polyhead_tensor::{Device, Indices, Math, Parameters, Tape};
use polyhead_train::memory::peak;
use serde::Serialize;

use self::workload::{Sizes, Workload};
use crate::device_options::{CardDtype, device_name};
use crate::report::{Misuse, thread_pool};

const EXAMPLES: &str = "Examples:
  polyhead bench train --workload small --threads 2 --steps 10
  polyhead bench train --workload base --device cuda --dtype bf16 --steps 100
  polyhead bench train --config shape.toml

A config names every size: d_model, n_heads, d_ff, n_layers (in each stack), vocab_size, batch, length (source and target).
On a card the steps are replayed back to back; share_of_limit is the share of the 790 TFLOP/s that an H200 reaches in
products of bf16, and breakdown the milliseconds of a step that each kind of work takes.";

/// Options of `polyhead bench train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Train {
    /// Which workload
    #[arg(long, value_enum, default_value_t = Workload::Small)]
    workload: Workload,
    /// A TOML file with another shape
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    config: Option<PathBuf>,
    /// Where to run: cpu, cuda:0, or auto
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = device_name)]
    device: String,
    /// Numbers to compute with; the processor computes in f32
    #[arg(long, value_enum, default_value_t = CardDtype::F32)]
    dtype: CardDtype,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Steps that are timed, after two to warm up
    #[arg(long, value_name = "N", default_value_t = 10)]
    steps: usize,
    /// Another seed, other weights, ids and dropout
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What is trained, and on what.
struct Task {
    model: SequenceToSequence,
    parameters: Parameters,
    source: Ids,
    target: Ids,
    expected: Indices,
    loss: CrossEntropyOptions,
    adam: AdamOptions,
    seed: u64,
    steps: usize,
}

/// What was measured.
struct Measured {
    /// Of a step, in rising order.
    seconds: Vec<f64>,
    losses: [f32; 2],
    /// Milliseconds of a step by kind of work, where the device tells.
    breakdown: Option<BTreeMap<&'static str, f64>>,
}

/// What products of bf16 reach on an H200, in operations a second.
const LIMIT: f64 = 790e12;

/// One line of output.
#[derive(Serialize)]
struct Line {
    bench: &'static str,
    workload: &'static str,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    threads: usize,
    dtype: &'static str,
    device: String,
    model: Option<String>,
    parameters: usize,
    first_loss: f32,
    last_loss: f32,
    milliseconds: f64,
    share_of_limit: Option<f64>,
    breakdown: Option<BTreeMap<&'static str, f64>>,
}

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let device = Device::open(&self.device, self.dtype.math())?;
            if device.math() != self.dtype.math() {
                return Err(Misuse {
                    message: format!(
                        "--dtype {}, but the processor computes in f32",
                        self.dtype.math().name()
                    ),
                    hint: "leave it out, or name a card with --device".into(),
                }
                .into());
            }
            let sizes = self.config.as_deref().map_or_else(|| Ok(self.workload.sizes()), Sizes::load)?;
            let mut task = self.task(sizes)?;
            let queues = device.policy().steps_ahead > 1;
            let measured = if queues { task.on_card(&device)? } else { task.on_processor()? };
            let Measured { seconds, losses: [first_loss, last_loss], breakdown } = measured;
            let (tokens, median) = (sizes.tokens() as f64, seconds[seconds.len() / 2]);
            let line = Line {
                bench: "train",
                workload: if self.config.is_some() { "config" } else { self.workload.name() },
                tokens_per_s_median: tokens / median,
                tokens_per_s_best: tokens / seconds[0],
                peak_memory_bytes: device.peak_memory().map(|bytes| bytes as u64).or_else(peak),
                threads: rayon::current_num_threads(),
                dtype: device.math().name(),
                device: device.name(),
                model: device.model().map(str::to_owned),
                parameters: task.parameters.count(),
                first_loss,
                last_loss,
                milliseconds: 1e3 * median,
                share_of_limit: (device.math() == Math::Bf16).then(|| sizes.operations() / median / LIMIT),
                breakdown,
            };
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(&line)?)?)
        })
    }

    fn task(&self, sizes: Sizes) -> Result<Task> {
        let mut parameters = Parameters::default();
        let model = SequenceToSequence::new(sizes.config()?, &mut parameters)?;
        parameters.initialise(self.seed);
        let ids = |stream| -> Vec<u32> {
            let random = Random::new(self.seed).stream(stream);
            (0..sizes.tokens()).map(|i| random.below(sizes.vocab_size, i as u64) as u32).collect()
        };
        let [source, target] = [1, 2].map(|stream| sizes.rows(&ids(stream)));
        Ok(Task {
            model,
            parameters,
            source,
            target,
            expected: ids(3).into(),
            loss: CrossEntropyOptions { label_smoothing: 0.1, ignored_id: None },
            adam: AdamOptions { weight_decay: 0.01, learning_rate: 1e-4, ..AdamOptions::default() },
            seed: self.seed,
            steps: self.steps.max(1),
        })
    }
}

impl Task {
    fn on_processor(&mut self) -> Result<Measured> {
        let (mut adam, capture) = (Adam::new(self.adam), Capture::off());
        let (mut losses, mut seconds) = (Vec::new(), Vec::new());
        for step in 0..self.steps + 2 {
            let start = Instant::now();
            let tape = Tape::training(self.seed, step as u64);
            let pass = Pass::new(&tape, &self.parameters, &capture);
            let loss = self.model.loss(&pass, &self.source, &self.target, &self.expected, self.loss)?;
            losses.push(loss.value().data()[0]);
            let gradients = tape.backward(&loss);
            drop(loss);
            adam.step(&mut self.parameters, &gradients);
            if step >= 2 {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        seconds.sort_by(f64::total_cmp);
        Ok(Measured { seconds, losses: [losses[0], losses[losses.len() - 1]], breakdown: None })
    }
}
