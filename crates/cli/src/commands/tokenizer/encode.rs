//! `polyhead tokenizer encode` and `decode`: lines of text to pieces or ids, and back.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_random::Random;
use polyhead_text::Error;
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::{Dropout, Encoding, Tokenizer};

use super::TokenizerOptions;
use crate::report::{Misuse, progress_beside_results};

const ENCODE_EXAMPLES: &str = "Examples:
  echo 'The cat ate the mouse.' | polyhead tokenizer encode --tokenizer tokenizer.json
  polyhead tokenizer encode --tokenizer source.spm --format ids train.en > train.ids
  polyhead tokenizer encode --tokenizer tokenizer.json --dropout 0.1 --seed 7 --format json train.en
  polyhead tokenizer encode --codes bpe.codes --dictionary dict.en.txt tokenised.en";

/// Options of `polyhead tokenizer encode`.
#[derive(Debug, Args)]
#[command(after_help = ENCODE_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Encode {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    /// What to print for each line
    #[arg(long, value_enum, default_value_t = Format::Pieces)]
    format: Format,
    /// Add the special tokens that the files ask for, such as the end of the sentence
    #[arg(long)]
    special: bool,
    /// Skip each merge of BPE with this probability
    #[arg(long, value_name = "P", conflicts_with = "special")]
    dropout: Option<f64>,
    /// Names the random numbers of --dropout
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Text, one sentence a line
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Pieces with spaces between
    Pieces,
    /// Ids with spaces between
    Ids,
    /// An object with ids, pieces and byte offsets
    Json,
}

impl Encode {
    pub(crate) fn run(self) -> Result<()> {
        if let Some(p) = self.dropout.filter(|p| !(0.0..=1.0).contains(p)) {
            return Err(Misuse {
                message: format!("--dropout: {p}, expected a probability from 0 to 1"),
                hint: "the paper takes 0.1".into(),
            }
            .into());
        }
        let tokenizer = self.tokenizer.load()?;
        let mut lines = Lines::open(&self.input)?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let bar = progress_beside_results("lines encoded");
        while let Some(text) = lines.next_text()? {
            let text = text.to_owned();
            let encoding = self.encode(&tokenizer, &text, lines.line())?;
            match self.format {
                Format::Pieces => writeln!(out, "{}", encoding.pieces.join(" "))?,
                Format::Ids => writeln!(out, "{}", joined(&encoding.ids))?,
                Format::Json => writeln!(out, "{}", json(&encoding))?,
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(out.flush()?)
    }

    fn encode(&self, tokenizer: &Tokenizer, text: &str, line: u64) -> Result<Encoding> {
        Ok(match self.dropout {
            Some(probability) => {
                let random = Random::new(self.seed).stream(line);
                tokenizer.encode_with_dropout(text, &Dropout { probability, random })?
            }
            None if self.special => tokenizer.encode_with_special(text)?,
            None => tokenizer.encode(text)?,
        })
    }
}

fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Offsets as pairs, as other tools print them.
fn json(encoding: &Encoding) -> serde_json::Value {
    let offsets: Vec<[usize; 2]> = encoding.offsets.iter().map(|span| [span.start, span.end]).collect();
    serde_json::json!({ "ids": encoding.ids, "pieces": encoding.pieces, "offsets": offsets })
}

const DECODE_EXAMPLES: &str = "Example:
  echo '17 42 2' | polyhead tokenizer decode --tokenizer tokenizer.json";

/// Options of `polyhead tokenizer decode`.
#[derive(Debug, Args)]
#[command(after_help = DECODE_EXAMPLES)]
pub(crate) struct Decode {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    /// Ids with spaces between, one sentence a line
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
}

impl Decode {
    pub(crate) fn run(self) -> Result<()> {
        let tokenizer = self.tokenizer.load()?;
        let mut lines = Lines::open(&self.input)?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let bar = progress_beside_results("lines decoded");
        while let Some(text) = lines.next_text()?.map(str::to_owned) {
            let ids = text.split_whitespace().map(|word| {
                word.parse().map_err(|_| Error::Format {
                    path: lines.path().to_owned(),
                    line: Some(lines.line()),
                    found: format!("{word:?}"),
                    expected: "ids with spaces between".into(),
                    hint: "ids come from: polyhead tokenizer encode --format ids".into(),
                })
            });
            let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
            let text = tokenizer.decode(&ids).map_err(|error| match error {
                Error::Unknown { found, vocab_size } => Error::Format {
                    path: lines.path().to_owned(),
                    line: Some(lines.line()),
                    found,
                    expected: format!("less than {vocab_size}, the size of the vocabulary"),
                    hint: "do the ids come from this tokeniser?".into(),
                },
                error => error,
            })?;
            writeln!(out, "{text}")?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(out.flush()?)
    }
}
