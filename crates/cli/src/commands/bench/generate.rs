//! `polyhead bench generate`: a GPT-2 (124 million parameters, vocabulary 50304) with random weights reads prompts in one
//! pass and generates greedily. Prefill and decoding are timed apart.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::Capture;
use polyhead_models::decode::NextToken;
use polyhead_models::{DataSpec, LanguageModel, LanguageModelDecoding, ModelConfig};
use polyhead_random::Random;
use polyhead_tensor::ops::best_tokens::best_tokens;
use polyhead_tensor::{Device, Dtype, Parameters};
use polyhead_train::memory::peak;
use serde::Serialize;
use serde_json::json;

use super::{Measurement, memory_text, print};
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::output_format::LineFormat;
use crate::report::{grouped, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead bench generate --batch 1 --threads 2
  polyhead bench generate --batch 16 --device cuda --dtype bf16 --format jsonl
  polyhead bench generate --model models/gpt2 --dtype int8

tokens_per_s counts new tokens over the whole time; prefill_tokens_per_s counts those of the prompts, decode_tokens_per_s the new ones without the time of the prefill.";

const VOCAB_SIZE: usize = 50_304;

/// Options of `polyhead bench generate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchGenerate {
    /// Prompts that are continued together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    batch: usize,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    prompt: usize,
    /// New tokens
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    new_tokens: usize,
    /// Model folder or GGUF file of a language model [default: a GPT-2 with random weights]
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Number of timed runs, after a warm-up run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
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

/// A line of output.
#[derive(Serialize)]
struct GenerateMeasurement {
    bench: &'static str,
    workload: &'static str,
    batch: usize,
    prompt: usize,
    new_tokens: usize,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    prefill_tokens_per_s: f64,
    decode_tokens_per_s: f64,
    peak_memory_bytes: Option<u64>,
    weights_bytes: usize,
    threads: usize,
    dtype: ComputeDtype,
    device: String,
    model: Option<String>,
}

impl Measurement for GenerateMeasurement {
    fn text(&self) -> String {
        let Self { batch, device, threads, .. } = self;
        let rates = [
            self.tokens_per_s_median,
            self.tokens_per_s_best,
            self.prefill_tokens_per_s,
            self.decode_tokens_per_s,
        ];
        let [median, best, prefill, decode] = rates.map(|rate| grouped(rate as u64));
        format!(
            "batch {batch:<4} {device:<7} {:<5} {threads:>3} threads  {median:>9} tokens/s (best {best})  \
             prefill {prefill}, decoding {decode} tokens/s{}",
            self.dtype.name(),
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchGenerate {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let (device, dtype) = self.dtype.open(&self.device)?;
            let (model, parameters) = self.model(&device, dtype)?;
            let mut seconds = Vec::new();
            for repeat in 0..=self.repeats {
                let found = self.generate(&device, &model, &parameters)?;
                if repeat > 0 {
                    seconds.push(found);
                }
            }
            seconds.sort_by(|a, b| (a[0] + a[1]).total_cmp(&(b[0] + b[1])));
            let [prefill, decode] = seconds[seconds.len() / 2];
            let tokens = (self.batch * self.new_tokens) as f64;
            let measurement = GenerateMeasurement {
                bench: "generate",
                workload: if self.model.is_some() { "model" } else { "gpt2" },
                batch: self.batch,
                prompt: self.prompt,
                new_tokens: self.new_tokens,
                tokens_per_s_median: tokens / (prefill + decode),
                tokens_per_s_best: tokens / (seconds[0][0] + seconds[0][1]),
                prefill_tokens_per_s: (self.batch * self.prompt) as f64 / prefill,
                decode_tokens_per_s: tokens / decode,
                peak_memory_bytes: device.peak_memory().map(|bytes| bytes as u64).or_else(peak),
                weights_bytes: parameters.bytes(),
                threads: rayon::current_num_threads(),
                dtype: self.dtype,
                device: device.name(),
                model: device.model().map(str::to_owned),
            };
            print(&measurement, self.format)
        })
    }

    /// Seconds of the prefill and of the steps after it.
    fn generate(&self, device: &Device, model: &LanguageModel, parameters: &Parameters) -> Result<[f64; 2]> {
        let capture = Capture::off();
        let decoding = LanguageModelDecoding::new(model, parameters, &capture);
        let prompts: Vec<Vec<u32>> =
            (0..self.batch as u64).map(|row| self.random_prompt(model, row)).collect();
        let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let start = Instant::now();
        let mut state = decoding.start(&prompts, self.batch)?;
        device.synchronize()?;
        let prefill = start.elapsed().as_secs_f64();
        let mut tokens: Vec<u32> = prompts.iter().filter_map(|prompt| prompt.last()).copied().collect();
        for _ in 0..self.new_tokens {
            let logits = decoding.step(&mut state, &tokens)?;
            tokens = best_tokens(&logits, 1)?.iter().filter_map(|best| Some(best.first()?.id)).collect();
        }
        Ok([prefill, start.elapsed().as_secs_f64() - prefill])
    }

    fn random_prompt(&self, model: &LanguageModel, row: u64) -> Vec<u32> {
        let random = Random::new(1).stream(row);
        (0..self.prompt as u64).map(|at| random.below(model.vocab_size(), at) as u32).collect()
    }

    /// The model with its weights on the device: random, or those of a folder.
    fn model(&self, device: &Device, dtype: Dtype) -> Result<(LanguageModel, Parameters)> {
        if let Some(folder) = &self.model {
            let options = polyhead_engine::LoadOptions { device: device.clone(), dtype };
            let found = polyhead_engine::load(crate::model_folder::resolve(folder)?, &options)?;
            return Ok((found.model.into_language_model()?, found.parameters));
        }
        let keys = json!({ "model_type": "transformer_language_model", "preset": "gpt2" });
        let data = DataSpec { vocab_sizes: [VOCAB_SIZE; 2], ..DataSpec::default() };
        let config = ModelConfig::from_recipe(keys.as_object().expect("an object"))?.with_data(&data)?;
        let mut parameters = Parameters::default();
        let model = LanguageModel::new(&config, &mut parameters)?;
        parameters.initialise(7);
        if !device.policy().packs_weights {
            return Ok((model, parameters.to_device(device)?));
        }
        parameters.prepare(dtype);
        Ok((model, parameters))
    }
}
