//! `polyhead bench`: speed measurements, one line of text or JSON for each.

mod attention;
mod gemm;
mod generate;
mod ops;
mod run;
mod train;
mod translate;

use std::io::Write as _;

use anyhow::Result;
use clap::Subcommand;
use polyhead_random::Random;
use polyhead_tensor::Tensor;
use serde::Serialize;

use crate::output_format::LineFormat;
use crate::report::bytes;

const EXAMPLES: &str = "\
Examples:
  polyhead bench gemm
  polyhead bench train --workload small --threads 2
  polyhead bench translate --batch 16 --beam 4 --format jsonl
  polyhead bench generate --batch 16
  polyhead bench run --workload encoder --device cuda --dtype bf16

--format jsonl prints all values of a measurement; text prints the main ones.";

/// Subcommands of `polyhead bench`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Bench {
    /// Measure full, window, dilated and global attention: time and memory by length
    Attention(attention::BenchAttention),
    /// Measure generation of a GPT-2 with random weights: prefill and decoding
    Generate(generate::BenchGenerate),
    /// Measure the matrix products of a training step against the CPU's peak
    Gemm(gemm::BenchGemm),
    /// Measure single operations, forward and backward
    Ops(ops::BenchOps),
    /// Measure the forward pass of an encoder with random weights
    Run(run::BenchRun),
    /// Measure a training step of a Transformer
    Train(train::BenchTrain),
    /// Measure decoding with random weights
    Translate(translate::BenchTranslate),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Attention(attention) => attention.run(),
            Self::Gemm(gemm) => gemm.run(),
            Self::Generate(generate) => generate.run(),
            Self::Ops(ops) => ops.run(),
            Self::Run(run) => run.run(),
            Self::Train(train) => train.run(),
            Self::Translate(translate) => translate.run(),
        }
    }
}

/// A measurement that can be printed as text and as JSON.
trait Measurement: Serialize {
    /// One line with the main values.
    fn text(&self) -> String;
}

/// Prints a measurement.
fn print(measurement: &impl Measurement, format: LineFormat) -> Result<()> {
    let line = if format.is_jsonl() { serde_json::to_string(measurement)? } else { measurement.text() };
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// The peak memory at the end of a line of text.
fn memory_text(peak: Option<u64>) -> String {
    peak.map_or(String::new(), |peak| format!("  peak memory {}", bytes(peak)))
}

/// Uniform random values from −½ to ½; each stream has its own.
fn random(shape: &[usize], stream: u64) -> Tensor {
    let random = Random::new(3).stream(stream);
    let len = shape.iter().product::<usize>() as u64;
    Tensor::new(shape, (0..len).map(|index| random.uniform(index) as f32 - 0.5).collect())
}
