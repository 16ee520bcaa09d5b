//! `polyhead bench attention`: time and memory of attention patterns by length, and on a GPU the speed of its kernels.

mod gpu;

use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::Mask;
use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{Device, Math, Tape, Tensor};
use serde::Serialize;

use super::{Measurement, memory_text, print, random};
use crate::compute_dtype::device_name;
use crate::decode_options::positive;
use crate::option_help::{DEVICE, THREADS};
use crate::output_format::LineFormat;
use crate::report::thread_pool;
use polyhead_train::memory::peak;

const EXAMPLES: &str = "\
Examples:
  polyhead bench attention --length 4096 --pattern window
  for n in 256 1024; do polyhead bench attention --length $n; done
  polyhead bench attention --device cuda --format jsonl

Batch 1, 8 heads, d_head 64. Each call makes one measurement, so that the peak memory is that of this measurement alone.

On a GPU: bf16, 32,768 tokens, full and causal attention, forward + backward, at lengths 512 to 8,192 or the given one, for each set of kernels. TFLOP/s count seven products (2 forward, 5 backward), half of them in causal attention.";

/// Global positions of `--pattern global`.
const N_GLOBAL: usize = 8;

/// Options of `polyhead bench attention`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchAttention {
    /// Number of queries and of keys [default: 1024; on a GPU 512 to 8192]
    #[arg(long, value_name = "N", value_parser = positive)]
    length: Option<usize>,
    /// Attention pattern
    #[arg(long, value_enum, default_value_t = PatternName::Full)]
    pattern: PatternName,
    /// Keys in the window, half on each side
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    window: usize,
    /// Number of runs; the best is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    repeats: usize,
    /// d_head, on a GPU
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = positive)]
    d_head: usize,
    /// Probability of dropping a weight, on a GPU
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    dropout: f32,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = device_name, help_heading = "Compute",
          help = DEVICE)]
    device: String,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// `--pattern`: the keys that a query attends to.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum PatternName {
    /// All keys
    Full,
    /// Keys near the query
    Window,
    /// As many keys as window, every fourth one
    Dilated,
    /// Keys near the query, and 8 positions that attend to all and are attended to by all
    Global,
}

/// A line of output.
#[derive(Serialize)]
struct AttentionMeasurement {
    bench: &'static str,
    #[serde(rename = "sight")]
    pattern: PatternName,
    length: usize,
    window: usize,
    threads: usize,
    mask_ms: f64,
    forward_ms: f64,
    forward_and_back_ms: f64,
    peak_memory_bytes: Option<u64>,
}

impl Measurement for AttentionMeasurement {
    fn text(&self) -> String {
        let Self { length, mask_ms, forward_ms, forward_and_back_ms, .. } = self;
        let name = self.pattern.to_possible_value().map_or(String::new(), |name| name.get_name().to_owned());
        format!(
            "{name:<8} length {length:>6}  mask {mask_ms:>9.3} ms  forward {forward_ms:>10.3} ms  \
             forward + backward {forward_and_back_ms:>10.3} ms{}",
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchAttention {
    pub(crate) fn run(self) -> Result<()> {
        let device = Device::open(&self.device, Math::Bf16)?;
        if device.policy().steps_ahead > 1 {
            return self.on_gpu(&device);
        }
        let length = self.length.unwrap_or(1024);
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let mask = self.mask().resolve(length, length);
            let mask_ms = 1e3 * start.elapsed().as_secs_f64();
            let options = mask.apply(AttentionOptions { n_heads: 8, ..AttentionOptions::default() });
            let inputs: Vec<Tensor> = (0..3).map(|stream| random(&[1, length, 512], stream)).collect();
            let mut best = [f64::INFINITY; 2];
            for _ in 0..self.repeats {
                let tape = Tape::training(1, 0);
                let [query, key, value] = [0, 1, 2].map(|side: usize| tape.input(inputs[side].clone()));
                let start = Instant::now();
                let out = attention(&tape, &query, &key, &value, &options)?;
                let forward = 1e3 * start.elapsed().as_secs_f64();
                let loss = sum(&tape, &out, Over::All)?;
                drop(tape.backward(&loss));
                best = [best[0].min(forward), best[1].min(1e3 * start.elapsed().as_secs_f64())];
            }
            let [forward_ms, forward_and_back_ms] = best;
            let measurement = AttentionMeasurement {
                bench: "attention",
                pattern: self.pattern,
                length,
                window: self.window,
                threads: rayon::current_num_threads(),
                mask_ms,
                forward_ms,
                forward_and_back_ms,
                peak_memory_bytes: peak(),
            };
            print(&measurement, self.format)
        })
    }

    fn mask(&self) -> Mask {
        match self.pattern {
            PatternName::Full => Mask::full(),
            PatternName::Window => Mask::window(self.window / 2),
            PatternName::Dilated => Mask::dilated(self.window / 2, 4),
            PatternName::Global => Mask::window(self.window / 2).or(Mask::global((0..N_GLOBAL).collect())),
        }
    }
}
