//! `polyhead bench translate`: decoding speed of an encoder-decoder Transformer with random weights.
//!
//! d_model 512, 8 heads, d_ff 2048, 6 + 6 layers, 32000 pieces, 30 source tokens, exactly 30 target tokens. Encoding,
//! decoding and the choice of tokens are timed.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::Capture;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken};
use polyhead_models::transformer::{Decoding, TransformerConfig, Translator};
use polyhead_random::Random;
use polyhead_tensor::{Parameters, Precision};
use serde::Serialize;

use crate::report::{peak_memory_bytes, thread_pool};

const EXAMPLES: &str = "Examples:
  polyhead bench translate --batch 1 --dtype int8 --threads 1
  polyhead bench translate --batch 16 --beam 4 --dtype f32";

const VOCAB_SIZE: usize = 32_000;
const SOURCE_LENGTH: usize = 30;
const TARGET_LENGTH: usize = 30;

/// Options of `polyhead bench translate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Translate {
    /// Sentences translated together
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Hypotheses followed for each sentence; 1 is greedy
    #[arg(long, value_name = "N", default_value_t = 1)]
    beam: usize,
    /// Numbers to compute with
    #[arg(long, value_enum, default_value_t = Dtype::Int8)]
    dtype: Dtype,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Repeats that are timed, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Dtype {
    F32,
    Int8,
}

impl Translate {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let config = TransformerConfig::base(VOCAB_SIZE);
            let mut parameters = Parameters::default();
            let model = Translator::new(&config, &mut parameters)?;
            parameters.initialise(7);
            parameters.prepare(match self.dtype {
                Dtype::F32 => Precision::F32,
                Dtype::Int8 => Precision::Int8,
            });
            let random = Random::new(1);
            let sources: Vec<Vec<u32>> = (0..self.batch as u64)
                .map(|row| {
                    (0..SOURCE_LENGTH as u64)
                        .map(|at| 3 + random.stream(row).below(VOCAB_SIZE - 3, at) as u32)
                        .collect()
                })
                .collect();
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            let capture = Capture::off();
            let decoding = Decoding { model: &model, parameters: &parameters, capture: &capture };
            let mut rates = Vec::new();
            for repeat in 0..=self.repeats.max(1) {
                let start = Instant::now();
                let tokens = self.decode(&decoding, &sources)?;
                if repeat > 0 {
                    rates.push(tokens as f64 / start.elapsed().as_secs_f64());
                }
            }
            rates.sort_by(f64::total_cmp);
            let line = Line {
                bench: "translate",
                workload: "G",
                batch: self.batch,
                beam: self.beam,
                tokens_per_s_median: rates[rates.len() / 2],
                tokens_per_s_best: rates[rates.len() - 1],
                peak_memory_bytes: peak_memory_bytes(),
                weights_bytes: parameters.bytes(),
                threads: rayon::current_num_threads(),
                dtype: self.dtype,
                device: "cpu",
            };
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(&line)?)?)
        })
    }

    /// Decodes all sources; the number of tokens of the best hypotheses.
    fn decode<M: NextToken>(&self, model: &M, sources: &[&[u32]]) -> Result<usize> {
        let lengths = Lengths { min: TARGET_LENGTH, max: TARGET_LENGTH, ..Lengths::default() };
        let decode = DecodeOptions { start_id: 1, end_id: 2, lengths, ..DecodeOptions::default() };
        if self.beam == 1 {
            return Ok(greedy(model, sources, &decode)?.iter().map(|hypothesis| hypothesis.ids.len()).sum());
        }
        let found =
            beam(model, sources, &BeamOptions { decode, beam_size: self.beam, ..BeamOptions::default() })?;
        Ok(found.iter().map(|hypotheses| hypotheses.first().map_or(0, |best| best.ids.len())).sum())
    }
}

/// One line of output.
#[derive(Serialize)]
struct Line {
    bench: &'static str,
    workload: &'static str,
    batch: usize,
    beam: usize,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    weights_bytes: usize,
    threads: usize,
    dtype: Dtype,
    device: &'static str,
}
