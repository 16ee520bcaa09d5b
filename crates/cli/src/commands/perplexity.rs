//! `polyhead perplexity`: measures how well a language model predicts a text.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::perplexity::{Perplexity, PerplexityOptions, perplexity};
use polyhead_engine::{Generator, LoadOptions};

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::input::{read_bytes, shown};
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::output_format::DocumentFormat;
use crate::report::{Misuse, aligned, detail, grouped, print_json, print_text, progress, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead perplexity --model runs/shakespeare-dnn2/model test.txt
  polyhead perplexity --model gpt2 --stride 512 wikitext-test.txt
  polyhead perplexity --model gpt2 --context 256 --format json < test.txt

A text longer than the context is cut into windows that move on by --stride; each token is predicted once, with at least context − stride tokens before it. A shorter stride costs more and gives every token more to go by. With a stride as long as the context the first token of each window is not predicted; per character and byte it counts with the mean of the others. Bits per character and per byte compare models with different tokenisers.

A model that polyhead train made from lines reads lines, each with its end token; any other reads the whole file as one text, line breaks included. The perplexity of n-gram models: polyhead ngram perplexity.";

/// Options of `polyhead perplexity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PerplexityCommand {
    /// Text; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    text: PathBuf,
    /// Model folder or run folder of a language model, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Tokens of a window [default: the model's context, or 1024 if it has no limit]
    #[arg(long, value_name = "N", value_parser = positive)]
    context: Option<usize>,
    /// Tokens by which windows move on [default: half of the context]
    #[arg(long, value_name = "N", value_parser = positive)]
    stride: Option<usize>,
    #[command(flatten)]
    format: DocumentFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl PerplexityCommand {
    pub(crate) fn run(self) -> Result<()> {
        let folder = resolve(&self.model)?;
        if folder.is_file() {
            let message = format!("{}: a file, expected a model folder", folder.display());
            return Err(Misuse {
                message,
                hint: "polyhead ngram perplexity measures with n-gram models".into(),
            }
            .into());
        }
        let place = shown(&self.text).display().to_string();
        let bytes = read_bytes(&self.text)?;
        let text = String::from_utf8(bytes).map_err(|error| Misuse {
            message: format!(
                "{place}: invalid UTF-8 at byte {}, expected text",
                error.utf8_error().valid_up_to() + 1
            ),
            hint: "convert the file to UTF-8".into(),
        })?;
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let generator = Generator::load(&folder, &LoadOptions { device, dtype })?;
            report_loaded(&folder, &generator.parameters().device(), self.dtype.name(), start);
            let start = Instant::now();
            let options = PerplexityOptions { context: self.context, stride: self.stride };
            let bar = progress("tokens");
            let found = perplexity(&generator, &text, options, |done, total| {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
            })?;
            bar.finish_and_clear();
            let seconds = start.elapsed().as_secs_f64();
            detail(|| format!("{} tokens/s", grouped((found.predicted as f64 / seconds) as u64)));
            self.print(&found)
        })
    }

    fn print(&self, found: &Perplexity) -> Result<()> {
        if self.format.is_json() {
            return print_json(found);
        }
        let Perplexity { tokens, predicted, unknown, windows, context, stride, .. } = found;
        let predicted = if predicted < tokens {
            format!(", {} predicted", grouped(*predicted as u64))
        } else {
            String::new()
        };
        let unknown =
            if *unknown > 0 { format!(", {} unknown", grouped(*unknown as u64)) } else { String::new() };
        print_text(&aligned(&[
            ("perplexity", format!("{:.4}", found.perplexity)),
            ("nats", format!("{:.4} per token", found.nats_per_token)),
            (
                "bits",
                format!(
                    "{:.4} per token, {:.4} per character, {:.4} per byte",
                    found.bits_per_token, found.bits_per_character, found.bits_per_byte
                ),
            ),
            ("tokens", format!("{}{predicted}{unknown}", grouped(*tokens as u64))),
            ("windows", format!("{} of {context} tokens, {stride} further each", grouped(*windows as u64))),
        ]))
    }
}
