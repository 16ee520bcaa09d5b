//! `polyhead rerank`: documents ordered by their score for a query, from a cross-encoder.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_engine::encoder::rerank::{RerankScore, Reranker};
use serde_json::json;

use crate::decode_options::positive;
use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::output_format::LineFormat;

const EXAMPLES: &str = "\
Examples:
  polyhead rerank -m reranker --query 'cooking rice' --file docs.txt
  polyhead rerank -m reranker --query 'rice' 'boil it' 'a grain' --top 1
  polyhead rerank -m reranker --query 'rice' --raw --format jsonl < docs.txt

Reads the query together with each document, and prints one line for each, the best first: the score, the number of the document from 1 and its text, separated by tabs. The score is between 0 and 1 (the sigmoid of the model's output); --raw prints the output itself. --format jsonl has `document`, `score` and `text`. Of a pair that is too long for the model, --truncate cuts the document.";

/// Options of `polyhead rerank`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Rerank {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder of a classifier with one label, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// The query
    #[arg(long, value_name = "TEXT")]
    query: String,
    /// Number of documents printed [default: all]
    #[arg(long, value_name = "N", value_parser = positive)]
    top: Option<usize>,
    /// Print the model's output instead of a score between 0 and 1
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Rerank {
    pub(crate) fn run(self) -> Result<()> {
        let documents = self.inputs.all()?;
        self.options.with_model(
            &self.model,
            |folder, options| Reranker::load(folder, options),
            |reranker| {
                let borrowed: Vec<&str> = documents.iter().map(String::as_str).collect();
                let found = reranker.scores(&self.query, &borrowed, self.options.long())?;
                let max_len = reranker.encoder().max_len();
                let taken =
                    |(found, number)| taken(found, number, |score: &RerankScore| score.cut_from, max_len);
                let mut scores = found.into_iter().zip(1..).map(taken).collect::<Result<Vec<_>>>()?;
                scores.sort_by(|a, b| b.logit.total_cmp(&a.logit).then(a.document.cmp(&b.document)));
                scores.truncate(self.top.unwrap_or(usize::MAX));
                let mut out = std::io::stdout().lock();
                for found in &scores {
                    let score = if self.raw { f64::from(found.logit) } else { found.probability() };
                    let (number, text) = (found.document + 1, borrowed[found.document]);
                    if self.format.is_jsonl() {
                        writeln!(out, "{}", json!({ "document": number, "score": score, "text": text }))?;
                    } else {
                        writeln!(out, "{score:.4}\t{number}\t{}", text.replace(['\n', '\r'], " "))?;
                    }
                }
                Ok(())
            },
        )
    }
}
