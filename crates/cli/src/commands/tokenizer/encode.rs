//! `polyhead tokenizer encode` and `decode`: lines of text to tokens or ids, and back.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_random::Random;
use polyhead_text::Error;
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::{BpeDropout, Encoding, Tokenizer};

use super::TokenizerOptions;
use crate::choices::Choices;
use crate::option_help::SEED;
use crate::output_format::JSONL_REASON;
use crate::report::{Misuse, progress_beside_results};

const ENCODE_EXAMPLES: &str = "\
Examples:
  echo 'The cat ate the mouse.' | polyhead tokenizer encode -t tokenizer.json
  polyhead tokenizer encode -t source.spm --format ids train.en > train.ids
  polyhead tokenizer encode -t t.json --dropout 0.1 --format jsonl train.en
  polyhead tokenizer encode --codes bpe.codes --dictionary dict.en.txt test.en";

/// Options of `polyhead tokenizer encode`.
#[derive(Debug, Args)]
#[command(after_help = ENCODE_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Encode {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = EncodingFormat::CHOICES)]
    format: EncodingFormat,
    /// Add special tokens, such as the end token
    #[arg(long)]
    special: bool,
    /// BPE dropout: skip each merge with probability P (Provilkov et al. 2020)
    #[arg(long, value_name = "P", conflicts_with = "special")]
    dropout: Option<f64>,
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    /// Text, one sentence per line; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
}

/// `--format`: the output for each line of text.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EncodingFormat {
    /// Tokens, separated by spaces
    Text,
    /// Ids, separated by spaces
    Ids,
    /// An object with ids, tokens and byte offsets
    Jsonl,
}

impl EncodingFormat {
    const CHOICES: Choices<Self> = Choices::new(&[Self::Text, Self::Ids, Self::Jsonl]).answering(&[
        ("json", "jsonl", JSONL_REASON),
        ("pieces", "text", "the format is called text now, and is the default"),
    ]);
}

impl Encode {
    pub(crate) fn run(self) -> Result<()> {
        if let Some(p) = self.dropout.filter(|p| !(0.0..=1.0).contains(p)) {
            return Err(Misuse {
                message: format!("--dropout: {p}, expected a probability from 0 to 1"),
                hint: "for example 0.1, as in the paper".into(),
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
                EncodingFormat::Text => writeln!(out, "{}", encoding.pieces.join(" "))?,
                EncodingFormat::Ids => writeln!(out, "{}", joined(&encoding.ids))?,
                EncodingFormat::Jsonl => writeln!(out, "{}", json(&encoding))?,
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
                tokenizer.encode_with_dropout(text, &BpeDropout { probability, random })?
            }
            None if self.special => tokenizer.encode_with_special(text)?,
            None => tokenizer.encode(text)?,
        })
    }
}

fn joined(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// One line of JSON; offsets are pairs of start and end.
fn json(encoding: &Encoding) -> serde_json::Value {
    let offsets: Vec<[usize; 2]> = encoding.offsets.iter().map(|span| [span.start, span.end]).collect();
    serde_json::json!({ "ids": encoding.ids, "pieces": encoding.pieces, "offsets": offsets })
}

const DECODE_EXAMPLES: &str = "\
Examples:
  echo '17 42 2' | polyhead tokenizer decode -t tokenizer.json
  polyhead tokenizer decode -t source.spm train.ids > train.en";

/// Options of `polyhead tokenizer decode`.
#[derive(Debug, Args)]
#[command(after_help = DECODE_EXAMPLES)]
pub(crate) struct Decode {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    /// Ids, separated by spaces, one sentence per line; - is standard input
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
                    expected: "ids, separated by spaces".into(),
                    hint: "polyhead tokenizer encode --format ids prints ids".into(),
                })
            });
            let ids: Vec<u32> = ids.collect::<Result<_, _>>()?;
            let text = tokenizer.decode(&ids).map_err(|error| match error {
                Error::UnknownToken { found, vocab_size } => Error::Format {
                    path: lines.path().to_owned(),
                    line: Some(lines.line()),
                    found,
                    expected: format!("less than {vocab_size}, the size of the vocabulary"),
                    hint: "were the ids encoded with this tokeniser?".into(),
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
