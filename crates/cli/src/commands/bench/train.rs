//! `polyhead bench train`: one training step of an encoder-decoder Transformer on random data.
//!
//! Post-norm, ReLU, tied embeddings, sinusoidal positions, dropout 0.1 on attention weights, after ReLU and on each
//! sub-layer's output but not on embeddings, label smoothing 0.1, AdamW. Loss, all gradients and the update are computed
//! in every step.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_models::transformer::config::{Dropout, StackConfig};
use polyhead_models::transformer::{TransformerConfig, Translator};
use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::optim::{Adam, AdamOptions};
use polyhead_tensor::{Device, Parameters, Tape};
use serde::{Deserialize, Serialize};

use polyhead_train::memory::peak;

use crate::report::{Failure, thread_pool};

const EXAMPLES: &str = "Examples:
  polyhead bench train --workload small --threads 2 --steps 10
  polyhead bench train --config shape.toml

A config names every size: d_model, n_heads, d_ff, n_layers (in each stack), vocab_size, batch, length (source and target).";

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
    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
    device: DeviceName,
    /// Numbers to compute with
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Steps that are timed, after two to warm up
    #[arg(long, value_name = "N", default_value_t = 10)]
    steps: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Workload {
    /// d_model 256, 4 heads, d_ff 1024, 3+3 layers, 8000 pieces, 64 × (24 + 24) tokens
    Small,
    /// d_model 512, 8 heads, d_ff 2048, 6+6 layers, 32000 pieces, 256 × (32 + 32) tokens
    Base,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeviceName {
    Cpu,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
}

/// Sizes of a workload.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    d_model: usize,
    n_heads: usize,
    d_ff: usize,
    n_layers: usize,
    vocab_size: usize,
    batch: usize,
    length: usize,
}

impl Sizes {
    fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|error| polyhead_text::Error::io(path, "open", error))?;
        let sizes: Self = toml::from_str(&text).map_err(|error| Failure {
            message: format!("{}: {}", path.display(), error.message()),
            hint: "polyhead bench train --help names every size".into(),
        })?;
        let Self { d_model, n_heads, d_ff, n_layers, vocab_size, batch, length } = sizes;
        if [d_model, n_heads, d_ff, n_layers, vocab_size, batch, length].contains(&0)
            || d_model % n_heads != 0
        {
            return Err(Failure {
                message: format!(
                    "{}: {sizes:?}, expected sizes above 0 and a d_model that the heads can share",
                    path.display()
                ),
                hint: "for instance d_model = 256 with n_heads = 4".into(),
            }
            .into());
        }
        Ok(sizes)
    }
}

impl Sizes {
    fn config(self) -> TransformerConfig {
        let stack = StackConfig::new(self.n_layers, self.n_heads, self.d_ff);
        TransformerConfig {
            source_vocab_size: self.vocab_size,
            target_vocab_size: self.vocab_size,
            d_model: self.d_model,
            encoder: stack,
            decoder: stack,
            dropout: Dropout { embedding: 0.0, residual: DROPOUT, attention: DROPOUT, activation: DROPOUT },
            ..TransformerConfig::default()
        }
    }

    /// A batch of full rows.
    fn rows(self, ids: &[u32]) -> Ids {
        Ids::padded(&ids.chunks_exact(self.length).collect::<Vec<_>>(), 0)
    }
}

impl Workload {
    fn sizes(self) -> Sizes {
        match self {
            Self::Small => Sizes {
                d_model: 256,
                n_heads: 4,
                d_ff: 1024,
                n_layers: 3,
                vocab_size: 8000,
                batch: 64,
                length: 24,
            },
            Self::Base => Sizes {
                d_model: 512,
                n_heads: 8,
                d_ff: 2048,
                n_layers: 6,
                vocab_size: 32000,
                batch: 256,
                length: 32,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Small => "T-small",
            Self::Base => "T-base",
        }
    }
}

const DROPOUT: f32 = 0.1;

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
    parameters: usize,
    first_loss: f32,
    last_loss: f32,
}

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            // There is one of each so far; the match says so when another comes.
            let (DeviceName::Cpu, Dtype::F32) = (self.device, self.dtype);
            let sizes = self.config.as_deref().map_or_else(|| Ok(self.workload.sizes()), Sizes::load)?;
            let mut parameters = Parameters::default();
            let model = Translator::new(&sizes.config(), &mut parameters)?;
            parameters.initialise(7);
            let mut adam =
                Adam::new(AdamOptions { weight_decay: 0.01, learning_rate: 1e-4, ..AdamOptions::default() });
            let ids = |stream| -> Vec<u32> {
                let random = Random::new(1).stream(stream);
                (0..sizes.batch * sizes.length)
                    .map(|i| random.below(sizes.vocab_size, i as u64) as u32)
                    .collect()
            };
            let [source, target] = [1, 2].map(|stream| sizes.rows(&ids(stream)));
            let expected = ids(3).into();
            let (capture, options) =
                (Capture::off(), CrossEntropyOptions { label_smoothing: 0.1, ignored_id: None });
            let mut losses = Vec::new();
            let mut seconds = Vec::new();
            for step in 0..self.steps.max(1) + 2 {
                let start = Instant::now();
                let tape = Tape::training(1, step as u64);
                let pass = Pass { tape: &tape, parameters: &parameters, capture: &capture };
                let loss = model.loss(&pass, &source, &target, &expected, options)?;
                losses.push(loss.value().data()[0]);
                let gradients = tape.backward(&loss);
                drop(loss);
                adam.step(&mut parameters, &gradients);
                if step >= 2 {
                    seconds.push(start.elapsed().as_secs_f64());
                }
            }
            seconds.sort_by(f64::total_cmp);
            let tokens = (sizes.batch * sizes.length) as f64;
            let line = Line {
                bench: "train",
                workload: if self.config.is_some() { "config" } else { self.workload.name() },
                tokens_per_s_median: tokens / seconds[seconds.len() / 2],
                tokens_per_s_best: tokens / seconds[0],
                peak_memory_bytes: peak(),
                threads: rayon::current_num_threads(),
                dtype: "f32",
                device: Device::Cpu.name(),
                parameters: parameters.count(),
                first_loss: losses[0],
                last_loss: losses[losses.len() - 1],
            };
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(&line)?)?)
        })
    }
}
