//! `polyhead bench attention`: time and memory of full, windowed and global + window attention by length.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::Mask;
use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{Tape, Tensor};
use serde::Serialize;

use super::random;
use crate::decode_options::positive;
use polyhead_train::memory::peak;

use crate::report::thread_pool;

const EXAMPLES: &str = "Examples:
  polyhead bench attention --length 4096 --sight window
  for n in 256 1024 4096 16384; do polyhead bench attention --length $n --sight global; done

Batch 1, 8 heads, d_head 64. One measurement a call, so that the peak memory is its own.";

/// Global positions of `--sight global`.
const N_GLOBAL: usize = 8;

/// Options of `polyhead bench attention`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Attention {
    /// Queries and keys
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = positive)]
    length: usize,
    /// What a query sees
    #[arg(long, value_enum, default_value_t = SightName::Full)]
    sight: SightName,
    /// Keys of the window, half to each side
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    window: usize,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Repeats; the best is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    repeats: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum SightName {
    /// All keys
    Full,
    /// Keys near the query
    Window,
    /// The same number of keys, every fourth
    Dilated,
    /// Keys near the query, and 8 positions that see all and are seen by all
    Global,
}

/// One line of output.
#[derive(Serialize)]
struct Line {
    bench: &'static str,
    sight: SightName,
    length: usize,
    window: usize,
    threads: usize,
    mask_ms: f64,
    forward_ms: f64,
    forward_and_back_ms: f64,
    peak_memory_bytes: Option<u64>,
}

impl Attention {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let sight = self.mask().resolve(self.length, self.length);
            let mask_ms = 1e3 * start.elapsed().as_secs_f64();
            let options = sight.on(AttentionOptions { n_heads: 8, ..AttentionOptions::default() });
            let inputs: Vec<Tensor> = (0..3).map(|stream| random(&[1, self.length, 512], stream)).collect();
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
            let line = Line {
                bench: "attention",
                sight: self.sight,
                length: self.length,
                window: self.window,
                threads: rayon::current_num_threads(),
                mask_ms,
                forward_ms,
                forward_and_back_ms,
                peak_memory_bytes: peak(),
            };
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(&line)?)?)
        })
    }

    fn mask(&self) -> Mask {
        match self.sight {
            SightName::Full => Mask::full(),
            SightName::Window => Mask::window(self.window / 2),
            SightName::Dilated => Mask::dilated(self.window / 2, 4),
            SightName::Global => Mask::window(self.window / 2).or(Mask::global((0..N_GLOBAL).collect())),
        }
    }
}
