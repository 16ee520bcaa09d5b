//! `polyhead similar`: how similar texts are, by the cosine of their vectors.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_engine::TextEncoder;
use polyhead_engine::encoder::embed::cosine;
use serde_json::json;

use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::output_format::LineFormat;
use crate::report::{Misuse, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead similar --model all-MiniLM-L6-v2 'a dog barks' 'a hound bays' 'rain'
  polyhead similar --model all-MiniLM-L6-v2 --file sentences.txt
  polyhead similar --model bert --format jsonl 'first text' 'second text'

Prints a table of cosines, from -1 to 1: a row and a column for each text, and the text at the end of its row. --format jsonl has a line for each pair: `first` and `second` (numbers of the texts from 0), `cosine`. polyhead search finds the most similar of many texts.";

/// The largest table.
const MAX_TEXTS: usize = 1000;

/// Options of `polyhead similar`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Similar {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder of an encoder, run folder, or installed model
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Similar {
    pub(crate) fn run(self) -> Result<()> {
        let texts = self.inputs.all()?;
        if texts.len() < 2 || texts.len() > MAX_TEXTS {
            return Err(Misuse {
                message: format!("{} texts, expected 2 to {MAX_TEXTS}", texts.len()),
                hint: "polyhead search finds the most similar of many texts".into(),
            }
            .into());
        }
        self.options.with_model(
            &self.model,
            |folder, options| TextEncoder::load(folder, options),
            |encoder| {
                let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
                let found = encoder.embed(&borrowed, self.options.long())?;
                let taken = |(found, number)| {
                    taken(
                        found,
                        number,
                        |found: &polyhead_engine::encoder::embed::TextVector| found.cut_from,
                        encoder.max_len(),
                    )
                };
                let vectors = found.into_iter().zip(1..).map(taken).collect::<Result<Vec<_>>>()?;
                let mut out = String::new();
                for (row, text) in texts.iter().enumerate() {
                    let cosines = vectors.iter().map(|other| cosine(&vectors[row].vector, &other.vector));
                    if self.format.is_jsonl() {
                        for (column, cosine) in cosines.enumerate().skip(row + 1) {
                            let _ = writeln!(
                                out,
                                "{}",
                                json!({ "first": row, "second": column, "cosine": cosine })
                            );
                        }
                    } else {
                        let cells: Vec<String> = cosines.map(|cosine| format!("{cosine:7.4}")).collect();
                        let _ = writeln!(out, "{}  {text}", cells.join(" "));
                    }
                }
                print_text(&out)
            },
        )
    }
}
