//! `polyhead search`: the texts of an index that are most similar to a query.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_engine::TextEncoder;
use polyhead_engine::search::{PROBE, SearchIndex};
use serde_json::json;

use super::embed::vector;
use crate::decode_options::positive;
use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::output_format::LineFormat;
use crate::report::{Misuse, grouped, note};

const EXAMPLES: &str = "\
Examples:
  polyhead search index --model all-MiniLM-L6-v2 --file texts.txt -o texts.index
  polyhead search find texts.index 'how do I cook rice'";

const INDEX_EXAMPLES: &str = "\
Examples:
  polyhead search index --model all-MiniLM-L6-v2 --file texts.txt -o texts.index
  gzip -dc texts.gz | polyhead search index --model bert --out texts.index

The index holds the texts and their vectors (the same as polyhead embed, with length 1), in one file.";

const FIND_EXAMPLES: &str = "\
Examples:
  polyhead search find texts.index 'how do I cook rice'
  polyhead search find texts.index --top 3 --format jsonl < questions.txt
  polyhead search find texts.index --model models/minilm 'another place'

Compares each query with all texts of the index. Each text that is found gives one line: the cosine, the number of its line and the text, separated by tabs; several queries are separated by empty lines. --format jsonl has a line for each query: `query` and `found`.";

/// Options of `polyhead search`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Search {
    /// Write an index of texts
    Index(Index),
    /// Find the texts that are most similar to a query
    Find(Find),
}

/// Options of `polyhead search index`.
#[derive(Debug, Args)]
#[command(after_help = INDEX_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Index {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder of an encoder, run folder, or installed model
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Index to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    options: EncoderOptions,
}

/// Options of `polyhead search find`.
#[derive(Debug, Args)]
#[command(after_help = FIND_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Find {
    /// Index to search in
    #[arg(value_name = "INDEX")]
    index: PathBuf,
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder [default: the one that made the index]
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Number of texts to find for each query
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    top: usize,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Search {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Index(index) => index.run(),
            Self::Find(find) => find.run(),
        }
    }
}

impl Index {
    fn run(self) -> Result<()> {
        self.options.with_model(
            &self.model,
            |folder, options| TextEncoder::load(folder, options),
            |encoder| {
                let model = self.model.canonicalize().unwrap_or_else(|_| self.model.clone());
                let mut index =
                    SearchIndex::new(model.to_string_lossy(), vector(encoder, PROBE, &self.options)?);
                self.inputs.for_each_chunk(encoder.parameters(), |texts, first| {
                    let found = encoder.embed(texts, self.options.long())?;
                    for ((text, found), number) in texts.iter().zip(found).zip(first..) {
                        let found = taken(found, number, |found| found.cut_from, encoder.max_len())?;
                        index.add(text, found.vector);
                    }
                    Ok(())
                })?;
                if index.is_empty() {
                    let message = "no texts, expected at least one".to_owned();
                    return Err(Misuse { message, hint: "each line of the input is a text".into() }.into());
                }
                index.save(&self.out)?;
                let (texts, width) = (grouped(index.len() as u64), index.width());
                note(&format!("wrote {}: {texts} texts with vectors of {width} numbers", self.out.display()));
                Ok(())
            },
        )
    }
}

impl Find {
    fn run(self) -> Result<()> {
        let index = SearchIndex::load(&self.index)?;
        let model = self.model.clone().unwrap_or_else(|| Path::new(&index.model).to_owned());
        self.options.with_model(&model, |folder, options| TextEncoder::load(folder, options), |encoder| {
            index.check(&self.index, &vector(encoder, PROBE, &self.options)?)?;
            self.inputs.for_each_chunk(encoder.parameters(), |texts, first| {
                let found = encoder.embed(texts, self.options.long())?;
                let mut out = std::io::stdout().lock();
                for ((text, found), number) in texts.iter().zip(found).zip(first..) {
                    let query = taken(found, number, |found| found.cut_from, encoder.max_len())?;
                    let hits = index.search(&query.vector, self.top);
                    if self.format.is_jsonl() {
                        let hits: Vec<_> = hits
                            .iter()
                            .map(|hit| json!({ "line": hit.index + 1, "cosine": hit.cosine, "text": hit.text }))
                            .collect();
                        writeln!(out, "{}", json!({ "query": text, "found": hits }))?;
                        continue;
                    }
                    if number > 1 {
                        writeln!(out)?;
                    }
                    for hit in hits {
                        writeln!(out, "{:.4}\t{}\t{}", hit.cosine, hit.index + 1, hit.text)?;
                    }
                }
                Ok(())
            })
        })
    }
}
