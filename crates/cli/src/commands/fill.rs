//! `polyhead fill`: the words that a masked language model expects in place of masks.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_engine::encoder::fill::{FilledWord, Filler};
use serde_json::json;

use crate::decode_options::positive;
use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::output_format::LineFormat;

const EXAMPLES: &str = "\
Examples:
  polyhead fill --model bert-base-uncased 'Paris is the [MASK] of France.'
  polyhead fill --model roberta-base --top 3 'A <mask> barks.'
  polyhead fill --model bert-base-uncased --format jsonl < sentences.txt

Each word gives one line: its probability, the word, and the text with it, separated by tabs; an empty line follows each mask. --format jsonl has a line for each text: `text` and `masks`, a list of words for each mask. The mask is written as the model's tokeniser spells it, [MASK] or <mask>; of several masks in a text each is predicted with the others in place.";

/// Options of `polyhead fill`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Fill {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder of a masked language model, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Number of words for each mask
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    top: usize,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Fill {
    pub(crate) fn run(self) -> Result<()> {
        self.options.with_model(
            &self.model,
            |folder, options| Filler::load(folder, options),
            |filler| {
                let encoder = filler.encoder();
                self.inputs.for_each_chunk(encoder.parameters(), |texts, first| {
                    let found = filler.fill(texts, self.top, self.options.long())?;
                    let mut out = std::io::stdout().lock();
                    for ((text, found), number) in texts.iter().zip(found).zip(first..) {
                        let found = taken(found, number, |found| found.cut_from, encoder.max_len())?;
                        let line = if self.format.is_jsonl() {
                            json_line(text, &found.masks)
                        } else {
                            lines(&found.masks)
                        };
                        writeln!(out, "{line}")?;
                    }
                    Ok(())
                })
            },
        )
    }
}

fn lines(masks: &[Vec<FilledWord>]) -> String {
    let line = |word: &FilledWord| format!("{:.4}\t{}\t{}\n", word.probability, word.word, word.text);
    let each: Vec<String> = masks.iter().map(|words| words.iter().map(line).collect()).collect();
    each.join("\n")
}

fn json_line(text: &str, masks: &[Vec<FilledWord>]) -> String {
    let word =
        |word: &FilledWord| json!({ "word": word.word, "probability": word.probability, "text": word.text });
    let masks: Vec<Vec<_>> = masks.iter().map(|words| words.iter().map(word).collect()).collect();
    json!({ "text": text, "masks": masks }).to_string()
}
