//! `polyhead embed`: a vector for each text.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::lines::Lines;
use polyhead_words::vectors::{Tokenization, WordVectors};
use serde_json::json;

use super::vectors::load;
use crate::output_format::LineFormat;
use crate::report::note;

const EXAMPLES: &str = "\
Examples:
  polyhead embed --vectors vectors.txt 'The cat ate the mouse.'
  polyhead embed --vectors vectors.bin < sentences.txt > sentences.tsv
  polyhead embed --vectors vectors.txt --format jsonl < sentences.txt

Each text gives one line: the numbers of its vector, separated by tabs; --format jsonl has `text` and `vector`. The vector of a text is the mean of its words' vectors; words without a vector are left out, and a text without any gives zeros, with a note.";

/// Options of `polyhead embed`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Embed {
    /// Texts to embed [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Word vectors to average: word2vec text or binary, GloVe text, fastText .vec or .bin
    #[arg(long, value_name = "VECTORS", required = true)]
    vectors: Option<PathBuf>,
    /// Words of a text: words (lower case, without punctuation) or spaces (as they are)
    #[arg(long, value_name = "HOW", default_value = "words")]
    tokenize: String,
    #[command(flatten)]
    format: LineFormat,
}

impl Embed {
    pub(crate) fn run(self) -> Result<()> {
        let tokenization = Tokenization::parse(&self.tokenize)?;
        let path = self.vectors.as_ref().expect("required");
        let averages = Averages { vectors: load(path)?, tokenization, format: self.format };
        if !self.texts.is_empty() {
            return self.texts.iter().zip(1..).try_for_each(|(text, number)| averages.write(text, number));
        }
        let mut lines = Lines::open("-")?;
        let mut number = 0;
        while let Some(line) = lines.next_text()? {
            number += 1;
            averages.write(line, number)?;
        }
        Ok(())
    }
}

/// Means of word vectors.
struct Averages {
    vectors: WordVectors,
    tokenization: Tokenization,
    format: LineFormat,
}

impl Averages {
    fn write(&self, text: &str, number: u64) -> Result<()> {
        let mut words = Vec::new();
        self.tokenization.split(text, |word| words.push(word.to_owned()));
        let (vector, n_known) = self.vectors.mean(words.iter().map(String::as_str));
        if n_known == 0 {
            note(&format!("text {number}: no word has a vector; the result is zeros"));
        }
        let mut out = std::io::stdout().lock();
        if self.format.is_jsonl() {
            writeln!(out, "{}", json!({"text": text, "vector": vector}))?;
        } else {
            let numbers: Vec<String> = vector.iter().map(ToString::to_string).collect();
            writeln!(out, "{}", numbers.join("\t"))?;
        }
        Ok(())
    }
}
