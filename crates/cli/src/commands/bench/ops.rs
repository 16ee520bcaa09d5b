//! `polyhead bench ops`: single operations, forward and backward, and long attention against its products alone.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_tensor::gemm::{Matrix, MatrixMut, Output, gemm};
use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Indices, Tape, Tensor, Var};
use serde::Serialize;

use super::{Measurement, memory_text, print, random};
use crate::option_help::THREADS;
use crate::output_format::LineFormat;
use crate::report::thread_pool;
use polyhead_train::memory::peak;

const EXAMPLES: &str = "\
Examples:
  polyhead bench ops --threads 2
  polyhead bench ops --attention-length 4096 --format jsonl";

/// Options of `polyhead bench ops`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchOps {
    /// Number of runs; the best is printed
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Measure only attention of this length: batch 4, 8 heads, d_head 64
    #[arg(long, value_name = "N")]
    attention_length: Option<usize>,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// A line of output.
#[derive(Serialize)]
struct OpMeasurement {
    bench: &'static str,
    name: &'static str,
    shape: Vec<usize>,
    threads: usize,
    forward_ms: f64,
    forward_and_back_ms: f64,
    /// Attention only: its seven matrix products alone, head by head.
    #[serde(skip_serializing_if = "Option::is_none")]
    products_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times_products: Option<f64>,
    peak_memory_bytes: Option<u64>,
}

/// An operation on inputs of the given shapes.
type Operation = fn(&Tape, &[Var]) -> polyhead_tensor::Result<Var>;

/// Operations with the sizes of workload T-small.
const CASES: &[(&str, &[&[usize]], Operation)] = &[
    ("linear, relu, dropout", &[&[1536, 256], &[1024, 256], &[1024]], |tape, x| {
        let options = LinearOptions { activation: Activation::Relu, dropout: 0.1 };
        linear(tape, &x[0], &x[1], Some(&x[2]), options)
    }),
    ("layer norm, residual, dropout", &[&[1536, 256], &[1536, 256], &[256], &[256]], |tape, x| {
        let options = NormOptions { dropout: 0.1, ..NormOptions::default() };
        layer_norm(tape, &x[0], Some(&x[1]), [&x[2], &x[3]], options)
    }),
    ("softmax", &[&[1536, 1024]], |tape, x| Ok(softmax(tape, &x[0]))),
    ("attention, 64 × 24 tokens, 4 heads", &[&[64, 24, 256], &[64, 24, 256], &[64, 24, 256]], |tape, x| {
        let options = AttentionOptions { n_heads: 4, dropout: 0.1, ..AttentionOptions::default() };
        attention(tape, &x[0], &x[1], &x[2], &options)
    }),
    ("cross-entropy, label smoothing", &[&[1536, 8000]], |tape, x| {
        let targets: Indices = (0..1536).collect();
        let options = CrossEntropyOptions { label_smoothing: 0.1, ..CrossEntropyOptions::default() };
        cross_entropy(tape, &x[0], &targets, options)
    }),
    ("embedding", &[&[8000, 256]], |tape, x| {
        let ids: Indices = (0..1536).map(|i| i * 5 % 8000).collect();
        embedding(tape, &ids, 24, &x[0], &EmbeddingOptions::default())
    }),
];

impl Measurement for OpMeasurement {
    fn text(&self) -> String {
        let Self { name, forward_ms, forward_and_back_ms, .. } = self;
        let products =
            self.times_products.map_or(String::new(), |times| format!("  {times:.2} × its products"));
        format!(
            "{name:<40}forward {forward_ms:>10.3} ms  forward + backward {forward_and_back_ms:>10.3} ms{products}{}",
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchOps {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            if let Some(length) = self.attention_length {
                return print(&self.long_attention(length)?, self.format);
            }
            for &(name, shapes, operation) in CASES {
                let inputs: Vec<Tensor> = shapes.iter().zip(0..).map(|(shape, i)| random(shape, i)).collect();
                let [forward_ms, forward_and_back_ms] = self.time(&inputs, operation)?;
                print(&line(name, shapes[0].to_vec(), [forward_ms, forward_and_back_ms]), self.format)?;
            }
            Ok(())
        })
    }

    /// Milliseconds of forward, and of forward and backward; best run after a warm-up run.
    fn time(&self, inputs: &[Tensor], operation: Operation) -> Result<[f64; 2]> {
        let mut best = [f64::INFINITY; 2];
        for repeat in 0..=self.repeats {
            let tape = Tape::training(1, 0);
            let vars: Vec<Var> = inputs.iter().map(|input| tape.input(input.clone())).collect();
            let start = Instant::now();
            let out = operation(&tape, &vars)?;
            let forward = start.elapsed().as_secs_f64();
            let loss = sum(&tape, &out, Over::All)?;
            let start = Instant::now();
            drop(tape.backward(&loss));
            let backward = start.elapsed().as_secs_f64();
            if repeat > 0 {
                best = [best[0].min(1e3 * forward), best[1].min(1e3 * (forward + backward))];
            }
        }
        Ok(best)
    }

    fn long_attention(&self, length: usize) -> Result<OpMeasurement> {
        let (batch, n_heads, d_head) = (4, 8, 64);
        let shape = [batch, length, n_heads * d_head];
        let inputs: Vec<Tensor> = (0..3).map(|i| random(&shape, i)).collect();
        let times = self.time(&inputs, |tape, x| {
            let options = AttentionOptions { n_heads: 8, ..AttentionOptions::default() };
            attention(tape, &x[0], &x[1], &x[2], &options)
        })?;
        let memory = peak();
        let products = self.products(batch * n_heads, length, d_head);
        let mut line = line("attention, batch 4, 8 heads, d_head 64", shape.to_vec(), times);
        line.products_ms = Some(products);
        line.times_products = Some(times[1] / products);
        line.peak_memory_bytes = memory;
        Ok(line)
    }

    /// Milliseconds of the seven matrix products of attention, forward and backward, for all heads.
    fn products(&self, heads: usize, length: usize, d_head: usize) -> f64 {
        let (narrow, other) = (random(&[length, d_head], 1), random(&[length, d_head], 2));
        let (mut square, mut out) = (vec![0.0; length * length], vec![0.0; length * d_head]);
        let (a, b) = (Matrix::new(narrow.data(), length, d_head), Matrix::new(other.data(), length, d_head));
        let mut best = f64::INFINITY;
        for _ in 0..self.repeats.max(1) {
            let start = Instant::now();
            for _ in 0..heads {
                // Q·Kᵀ twice (the backward pass recomputes it) and dO·Vᵀ; P·V, dS·K, Pᵀ·dO and dSᵀ·Q.
                for _ in 0..3 {
                    gemm(&mut MatrixMut::new(&mut square, length, length), a, b.t(), Output::Overwrite);
                }
                for transposed in [false, false, true, true] {
                    let square = Matrix::new(&square, length, length);
                    let square = if transposed { square.t() } else { square };
                    gemm(&mut MatrixMut::new(&mut out, length, d_head), square, b, Output::Overwrite);
                }
            }
            best = best.min(1e3 * start.elapsed().as_secs_f64());
        }
        best
    }
}

fn line(name: &'static str, shape: Vec<usize>, [forward_ms, forward_and_back_ms]: [f64; 2]) -> OpMeasurement {
    OpMeasurement {
        bench: "ops",
        name,
        shape,
        threads: rayon::current_num_threads(),
        forward_ms,
        forward_and_back_ms,
        products_ms: None,
        times_products: None,
        peak_memory_bytes: peak(),
    }
}
