//! `polyhead ngram perplexity|generate|convert|info`, and the lines of `polyhead score --lm`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_words::ngram::{GenerateOptions, NgramModel, TextScore, TextUnit};
use serde_json::json;

use crate::decode_options::positive;
use crate::input::{ChunkFill, Chunks, InputLine};
use crate::option_help::{SEED, THREADS};
use crate::output_format::{DocumentFormat, LineFormat};
use crate::report::{
    aligned, bytes, counted, detail, grouped, note, print_json, print_text, thread_pool, time,
};

const PERPLEXITY_EXAMPLES: &str = "\
Examples:
  polyhead ngram perplexity --model en.ngram test.en
  polyhead ngram perplexity --model en.arpa --format json < test.en

Perplexity is per word, the end of each line included. Unknown words have the probability of <unk>; the second value leaves them out. Bits per character are of the whole text, line breaks included.";

/// Options of `polyhead ngram perplexity`.
#[derive(Debug, Args)]
#[command(after_help = PERPLEXITY_EXAMPLES)]
pub(crate) struct Perplexity {
    /// Text, one sentence per line; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    text: PathBuf,
    /// Model, ARPA or binary
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    format: DocumentFormat,
    #[arg(long, value_name = "N", help = THREADS)]
    threads: Option<usize>,
}

fn load(path: &Path) -> Result<NgramModel> {
    let start = Instant::now();
    let model = NgramModel::load(path)?;
    detail(|| format!("{}: loaded in {}", path.display(), time(start.elapsed().as_secs_f64())));
    Ok(model)
}

impl Perplexity {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let model = load(&self.model)?;
            let start = Instant::now();
            let found = model.score_text(&self.text, &mut |_, _| Ok(()))?;
            let seconds = start.elapsed().as_secs_f64();
            detail(|| format!("{} lines/s", grouped((found.lines as f64 / seconds) as u64)));
            if self.format.is_json() {
                return print_json(&as_json(&found));
            }
            let unit = if model.unit() == TextUnit::Character { "character" } else { "word" };
            let rows = [
                ("lines", grouped(found.lines as u64)),
                ("tokens", format!("{} (line ends included)", grouped(found.total.words as u64))),
                ("unknown", grouped(found.total.unknown as u64)),
                ("log10", format!("{:.4}", found.total.log10)),
                (
                    "perplexity",
                    format!(
                        "{:.4} ({:.4} without unknown tokens)",
                        found.perplexity(),
                        found.perplexity_known()
                    ),
                ),
                (
                    "bits",
                    format!(
                        "{:.4} per {unit}, {:.4} per character",
                        found.bits_per_word(),
                        found.bits_per_character()
                    ),
                ),
            ];
            print_text(&aligned(&rows))
        })
    }
}

fn as_json(found: &TextScore) -> serde_json::Value {
    json!({
        "lines": found.lines,
        "tokens": found.total.words,
        "unknown": found.total.unknown,
        "log10": found.total.log10,
        "perplexity": found.perplexity(),
        "perplexity_known": found.perplexity_known(),
        "bits_per_token": found.bits_per_word(),
        "bits_per_character": found.bits_per_character(),
    })
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  polyhead ngram generate --model en.ngram
  polyhead ngram generate --model en.ngram --seed 3 'the house is' 'a man'
  polyhead ngram generate --model en.ngram --temperature 0 < prompts.txt

Each prompt is printed with its continuation up to the end of the line.";

/// Options of `polyhead ngram generate`.
#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct NgramGenerate {
    /// Texts to continue [default: the lines of standard input, on a terminal the empty text]
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    /// Model, ARPA or binary
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    /// Maximum number of new words or characters
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = positive)]
    max_new_tokens: usize,
    /// Temperature of sampling; 0 takes the most probable word
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    temperature: f64,
    #[arg(long, value_name = "N", default_value_t = 0, help = SEED)]
    seed: u64,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "N", help = THREADS)]
    threads: Option<usize>,
}

impl NgramGenerate {
    pub(crate) fn run(self) -> Result<()> {
        use std::io::IsTerminal as _;
        thread_pool(self.threads)?.install(|| {
            let model = load(&self.model)?;
            let mut number = 0;
            if !self.prompts.is_empty() || std::io::stdin().is_terminal() {
                let empty = [String::new()];
                let prompts = if self.prompts.is_empty() { &empty[..] } else { &self.prompts };
                return prompts.iter().try_for_each(|prompt| self.write(&model, prompt, &mut number));
            }
            let fill = ChunkFill::for_device(&polyhead_tensor::Device::default());
            for chunk in Chunks::of_standard_input(64, fill)? {
                for prompt in chunk?.into_iter().map(InputLine::into_text) {
                    self.write(&model, &prompt, &mut number)?;
                }
            }
            Ok(())
        })
    }

    fn write(&self, model: &NgramModel, prompt: &str, number: &mut u64) -> Result<()> {
        let options = GenerateOptions {
            max_words: self.max_new_tokens,
            temperature: self.temperature,
            seed: self.seed,
        };
        let found = model.generate(prompt, *number, &options)?;
        *number += 1;
        let line = if self.format.is_jsonl() {
            json!({ "prompt": prompt, "text": found.text, "log10": found.log10 }).to_string()
        } else {
            format!("{prompt}{}", found.text)
        };
        Ok(writeln!(std::io::stdout().lock(), "{line}")?)
    }
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  polyhead ngram convert en.arpa.gz en.ngram
  polyhead ngram convert en.ngram en.arpa";

/// Options of `polyhead ngram convert`.
#[derive(Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
pub(crate) struct NgramConvert {
    /// Model to read, ARPA (plain or gzip) or binary
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Model to write: .arpa, or any other name for the binary format
    #[arg(value_name = "OUT")]
    output: PathBuf,
}

impl NgramConvert {
    pub(crate) fn run(self) -> Result<()> {
        load(&self.input)?.save(&self.output)?;
        note(&format!("written: {}", self.output.display()));
        Ok(())
    }
}

const INFO_EXAMPLES: &str = "\
Examples:
  polyhead ngram info en.ngram
  polyhead ngram info --format json en.arpa";

/// Options of `polyhead ngram info`.
#[derive(Debug, Args)]
#[command(after_help = INFO_EXAMPLES)]
pub(crate) struct NgramInfo {
    /// Model, ARPA or binary
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    #[command(flatten)]
    format: DocumentFormat,
}

impl NgramInfo {
    pub(crate) fn run(self) -> Result<()> {
        let model = load(&self.model)?;
        let counts = model.counts();
        let size = std::fs::metadata(&self.model).map_or(0, |found| found.len());
        let unit = if model.unit() == TextUnit::Character { "characters" } else { "words" };
        if self.format.is_json() {
            return print_json(&json!({
                "order": model.order(), "unit": unit, "vocabulary": model.vocab_size(), "ngrams": counts, "bytes": size,
            }));
        }
        let each: Vec<String> = counts.iter().map(|count| grouped(*count as u64)).collect();
        let rows = [
            ("order", model.order().to_string()),
            ("unit", unit.to_owned()),
            ("vocabulary", format!("{} (with <unk>, <s> and </s>)", grouped(model.vocab_size() as u64))),
            ("n-grams", each.join(" + ")),
            ("file", bytes(size)),
        ];
        print_text(&aligned(&rows))
    }
}

/// Prints the probability of every line of a text: log10, words with the line end, unknown words, and the line.
pub(crate) fn score_lines(model: &Path, text: &Path, format: DocumentFormat) -> Result<()> {
    let model = load(model)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut failed = Ok(());
    let total = model.score_text(text, &mut |lines, scores| {
        for (line, score) in lines.iter().zip(scores) {
            if failed.is_err() || format.is_json() {
                break;
            }
            failed = writeln!(out, "{:.4}\t{}\t{}\t{line}", score.log10, score.words, score.unknown);
        }
        Ok(())
    })?;
    failed?;
    out.flush()?;
    if format.is_json() {
        return print_json(&as_json(&total));
    }
    let tokens = counted(total.total.words as u64, "token");
    note(&format!("perplexity {:.4} over {tokens}", total.perplexity()));
    Ok(())
}
