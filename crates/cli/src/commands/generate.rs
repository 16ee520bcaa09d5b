//! `polyhead generate`: continues prompts with a language model.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::generate::{GenerateOptions, Generated};
use polyhead_engine::{Generator, LoadOptions};
use serde_json::json;

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::input::{ChunkFill, Chunks, InputLine};
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, SEED, THREADS};
use crate::output_format::LineFormat;
use crate::report::thread_pool;

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/shakespeare-dnn2.toml
  polyhead generate --model runs/shakespeare-dnn2/model 'ROMEO:'
  polyhead generate --model runs/shakespeare-dnn2/model --lines 8 \\
      --temperature 0.7 --max-new-tokens 400 'ROMEO:'
  polyhead generate --model runs/shakespeare-dnn2/model --temperature 0 \\
      --format jsonl < prompts.txt

Each prompt is printed with its continuation, which ends with the line, unless --lines asks for more, or after --max-new-tokens. The same prompt, options and seed give the same text, alone or among others. --format jsonl has the prompt, the text after it, its token ids and the natural logarithm of its probability.

Language models are trained by polyhead train with task = \"language-model\" from a text file.";

/// Options of `polyhead generate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Generate {
    /// Texts to continue [default: the lines of standard input]
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    /// Model folder or run folder of a language model, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Maximum number of new tokens
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = positive)]
    max_new_tokens: usize,
    /// Number of lines to generate, the rest of the prompt's line included
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    lines: usize,
    /// Temperature of sampling; 0 takes the most probable token
    #[arg(long, value_name = "T", default_value_t = 1.0, help_heading = "Sampling")]
    temperature: f32,
    /// Sample from the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Sampling")]
    top_k: usize,
    /// Sample from the most probable tokens of this total probability
    #[arg(long, value_name = "P", default_value_t = 1.0, help_heading = "Sampling")]
    top_p: f32,
    /// Beam size; more than 1 searches instead of sampling
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive, help_heading = "Sampling")]
    beam: usize,
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling", help = SEED)]
    seed: u64,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl Generate {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let folder = resolve(&self.model)?;
            let generator = Generator::load(&folder, &LoadOptions { device, dtype })?;
            let device = generator.parameters().device();
            report_loaded(&folder, &device, self.dtype.name(), start);
            if !self.prompts.is_empty() {
                return self.write(&generator, &self.prompts);
            }
            let fill = ChunkFill::for_device(&device);
            for chunk in Chunks::of_standard_input(device.policy().texts, fill)? {
                let prompts: Vec<String> = chunk?.into_iter().map(InputLine::into_text).collect();
                self.write(&generator, &prompts)?;
            }
            Ok(())
        })
    }

    fn options(&self) -> GenerateOptions {
        let &Self { max_new_tokens, lines, temperature, top_k, top_p, beam, seed, .. } = self;
        GenerateOptions { max_new_tokens, lines, temperature, top_k, top_p, beam_size: beam, seed }
    }

    /// Prints the continuation of each prompt.
    fn write(&self, generator: &Generator, prompts: &[String]) -> Result<()> {
        let borrowed: Vec<&str> = prompts.iter().map(String::as_str).collect();
        let mut out = std::io::stdout().lock();
        for (prompt, found) in prompts.iter().zip(generator.generate(&borrowed, &self.options())?) {
            let Generated { text, ids, log_probability } = found;
            let line = if self.format.is_jsonl() {
                json!({ "prompt": prompt, "text": text, "ids": ids, "log_probability": log_probability })
                    .to_string()
            } else {
                format!("{prompt}{text}")
            };
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}
