//! `polyhead bench translate`: decoding speed of an encoder-decoder Transformer with random weights.
//!
//! d_model 512, 8 heads, d_ff 2048, 6 + 6 layers, vocabulary 32000, 30 source tokens, exactly 30 target tokens.
//! Encoding, decoding and search are timed.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::Capture;
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken};
use polyhead_models::{Decoding, ModelConfig, SequenceToSequence};
use polyhead_random::Random;
use polyhead_tensor::{Device, Dtype, Parameters};
use serde::Serialize;

use super::{Measurement, memory_text, print};
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::option_help::{DEVICE, DTYPE, OVERWRITE_MODEL, THREADS};
use crate::output_format::LineFormat;
use crate::report::{Failure, grouped, thread_pool};
use polyhead_train::memory::peak;

const EXAMPLES: &str = "\
Examples:
  polyhead bench translate --batch 1 --dtype int8 --threads 1
  polyhead bench translate --batch 16 --beam 4 --dtype f32 --format jsonl
  polyhead bench translate --batch 512 --beam 4 --dtype bf16 --device cuda
  polyhead bench translate --out random --dtype int8
  polyhead bench translate --model random --dtype int8

The peak memory of a random model includes its initialisation; load a saved model to measure decoding alone.";

const VOCAB_SIZE: usize = 32_000;
const SOURCE_LENGTH: usize = 30;
const TARGET_LENGTH: usize = 30;

/// Options of `polyhead bench translate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchTranslate {
    /// Sentences per batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    batch: usize,
    /// Beam size; 1 is greedy search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    beam: usize,
    /// Load the weights from this model folder, which needs a vocabulary of 32000 [default: random weights]
    #[arg(short, long, value_name = "DIR", conflicts_with = "out")]
    model: Option<PathBuf>,
    /// Write the random model to this folder
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[arg(long, requires = "out", help = OVERWRITE_MODEL)]
    overwrite: bool,
    /// Distribution of the work over threads
    #[arg(long, value_enum, default_value_t = Spread::Batches)]
    spread: Spread,
    /// Number of timed runs, after a warm-up run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    repeats: usize,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = device_name, help_heading = "Compute",
          help = DEVICE)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::Int8, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// `--spread`: the parallelism of the threads.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Spread {
    /// One batch per thread
    Batches,
    /// One batch, whose operations use all threads
    Operations,
}

impl Measurement for TranslateMeasurement {
    fn text(&self) -> String {
        let Self { batch, beam, device, threads, .. } = self;
        let [median, best] =
            [self.tokens_per_s_median, self.tokens_per_s_best].map(|rate| grouped(rate as u64));
        format!(
            "batch {batch:<4} beam {beam:<3} {device:<7} {:<5} {threads:>3} threads  {median:>9} target tokens/s (best {best}){}",
            self.dtype.name(),
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchTranslate {
    pub(crate) fn run(self) -> Result<()> {
        if let Some(out) = self.out.as_ref().filter(|out| out.join("config.json").exists() && !self.overwrite)
        {
            let message = format!("{}: already holds config.json", out.display());
            return Err(Failure { message, hint: "name a new folder, or add --overwrite".into() }.into());
        }
        let pool = thread_pool(self.threads)?;
        let threads = pool.current_num_threads();
        let (device, dtype) = self.dtype.open(&self.device)?;
        let (model, parameters) = pool.install(|| self.model(&device, dtype))?;
        let workers = match self.spread {
            Spread::Batches if !device.policy().takes_turns => threads,
            Spread::Batches | Spread::Operations => 1,
        };
        let pools: Vec<rayon::ThreadPool> =
            (0..workers).map(|_| thread_pool(Some(threads / workers))).collect::<Result<_>>()?;
        let sources: Vec<Vec<u32>> = (0..(self.batch * workers) as u64).map(random_source).collect();
        let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
        let mut rates = Vec::new();
        for repeat in 0..=self.repeats {
            let start = Instant::now();
            let tokens = self.decode_all(&model, &parameters, &sources, &pools)?;
            if repeat > 0 {
                rates.push(tokens as f64 / start.elapsed().as_secs_f64());
            }
        }
        rates.sort_by(f64::total_cmp);
        let measurement = TranslateMeasurement {
            bench: "translate",
            workload: "G",
            batch: self.batch,
            beam: self.beam,
            tokens_per_s_median: rates[rates.len() / 2],
            tokens_per_s_best: rates[rates.len() - 1],
            peak_memory_bytes: device.peak_memory().map(|bytes| bytes as u64).or_else(peak),
            weights_bytes: parameters.bytes(),
            threads,
            spread: self.spread,
            dtype: self.dtype,
            device: device.name(),
            model: device.model().map(str::to_owned),
        };
        print(&measurement, self.format)
    }

    /// Decodes a batch on each of the pools in parallel; returns the number of tokens of the best hypotheses.
    fn decode_all(
        &self,
        model: &SequenceToSequence,
        parameters: &Parameters,
        sources: &[&[u32]],
        pools: &[rayon::ThreadPool],
    ) -> Result<usize> {
        std::thread::scope(|scope| {
            let batches = sources.chunks(self.batch).zip(pools);
            let running: Vec<_> = batches
                .map(|(batch, pool)| {
                    scope.spawn(move || {
                        pool.install(|| {
                            let capture = Capture::off();
                            self.decode(&Decoding::new(model, parameters, &capture), batch)
                        })
                    })
                })
                .collect();
            let counts = running.into_iter().map(|thread| thread.join().expect("decoding does not panic"));
            counts.sum()
        })
    }

    /// The model with its weights on the device: random, or those of a folder.
    fn model(&self, device: &Device, dtype: Dtype) -> Result<(SequenceToSequence, Parameters)> {
        if let Some(folder) = &self.model {
            let options = polyhead_engine::LoadOptions { device: device.clone(), dtype };
            let found = polyhead_engine::load(&crate::model_folder::resolve(folder)?, &options)?;
            return Ok((found.model.into_sequence_to_sequence()?, found.parameters));
        }
        let mut parameters = Parameters::default();
        let config = ModelConfig::preset("base", VOCAB_SIZE).expect("a known preset");
        let model = SequenceToSequence::new(&config, &mut parameters)?;
        parameters.initialise(7);
        if let Some(folder) = &self.out {
            if dtype == Dtype::Int8 {
                parameters.prepare(dtype);
            }
            save(folder, &config, &parameters, &SaveOptions::default())?;
        }
        if !device.policy().packs_weights {
            return Ok((model, parameters.to_device(device)?));
        }
        parameters.prepare(dtype);
        Ok((model, parameters))
    }

    /// Decodes all sources; returns the number of tokens of the best hypotheses.
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

/// Source `row` of the workload.
fn random_source(row: u64) -> Vec<u32> {
    let random = Random::new(1).stream(row);
    (0..SOURCE_LENGTH as u64).map(|at| 3 + random.below(VOCAB_SIZE - 3, at) as u32).collect()
}

/// A line of output.
#[derive(Serialize)]
struct TranslateMeasurement {
    bench: &'static str,
    workload: &'static str,
    batch: usize,
    beam: usize,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    weights_bytes: usize,
    threads: usize,
    spread: Spread,
    dtype: ComputeDtype,
    device: String,
    model: Option<String>,
}
