//! `polyhead embed`: a vector for each text, from an encoder or from word vectors.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_engine::TextEncoder;
use polyhead_text::lines::Lines;
use polyhead_words::vectors::{Tokenization, WordVectors};
use serde_json::json;

use super::vectors::load;
use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::report::{Failure, Misuse, note};
use crate::vector_output::{VectorFormat, VectorOutput, numbers};

const EXAMPLES: &str = "\
Examples:
  polyhead embed --model all-MiniLM-L6-v2 'The cat ate the mouse.'
  polyhead embed --model all-MiniLM-L6-v2 --format jsonl < sentences.txt
  polyhead embed --model bert --file texts.gz --format npy --out vectors.npy
  polyhead embed --model bert --tokens --format jsonl 'by the bank of a river'
  polyhead embed --vectors vectors.txt --format jsonl < sentences.txt

Each text gives one line: the numbers of its vector, separated by tabs; --format jsonl has `text` and `vector`. npy and safetensors are an array with a row for each text, in order, and need --out.

With --model the vector is what the folder's modules.json says (sentence-transformers: pooling, linear layers, normalisation), without that file the mean of the states of all tokens. --tokens prints the state of each token in its context instead. A text that is too long for the model is an error unless --truncate cuts it; an empty text is read as the special tokens alone.

With --vectors the vector of a text is the mean of its words' vectors; words without a vector are left out, and a text without any gives zeros, with a note.";

/// Options of `polyhead embed`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Embed {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder of an encoder, run folder, or installed model
    #[arg(short, long, value_name = "DIR", required_unless_present = "vectors")]
    model: Option<PathBuf>,
    /// Word vectors to average: word2vec text or binary, GloVe text, fastText .vec or .bin
    #[arg(long, value_name = "VECTORS", conflicts_with_all = ["model", "tokens", "truncate"])]
    vectors: Option<PathBuf>,
    /// Words of a text with --vectors: words (lower case, without punctuation) or spaces (as they are)
    #[arg(long, value_name = "HOW", default_value = "words")]
    tokenize: String,
    /// Print a vector for each token in its context
    #[arg(long)]
    tokens: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = VectorFormat::PARSER)]
    format: VectorFormat,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Embed {
    pub(crate) fn run(self) -> Result<()> {
        if self.tokens && matches!(self.format, VectorFormat::Npy | VectorFormat::Safetensors) {
            return Err(Misuse {
                message: "--tokens with an array, expected --format text or jsonl".into(),
                hint: "texts have different numbers of tokens".into(),
            }
            .into());
        }
        let Some(model) = &self.model else { return self.average() };
        self.options.with_model(
            model,
            |folder, options| TextEncoder::load(folder, options),
            |encoder| {
                if encoder.pools_by_default() && !self.tokens {
                    note("note: no modules.json in the folder; vectors are means over all tokens");
                }
                let mut out = VectorOutput::new(self.format, self.out.as_deref())?;
                self.inputs.for_each_chunk(encoder.parameters(), |texts, first| {
                    if self.tokens {
                        self.tokens(encoder, texts, first, &mut out)
                    } else {
                        self.texts(encoder, texts, first, &mut out)
                    }
                })?;
                out.finish()
            },
        )
    }

    /// Writes the vectors of texts, of which the first has the number `first`.
    fn texts(
        &self,
        encoder: &TextEncoder,
        texts: &[&str],
        first: usize,
        out: &mut VectorOutput,
    ) -> Result<()> {
        let found = encoder.embed(texts, self.options.long())?;
        for ((text, found), number) in texts.iter().zip(found).zip(first..) {
            let found = taken(found, number, |found| found.cut_from, encoder.max_len())?;
            out.vector(text, &found.vector)?;
        }
        Ok(())
    }

    /// Writes the vectors of the tokens of texts; as text, an empty line follows each text.
    fn tokens(
        &self,
        encoder: &TextEncoder,
        texts: &[&str],
        first: usize,
        out: &mut VectorOutput,
    ) -> Result<()> {
        let found = encoder.embed_tokens(texts, self.options.long())?;
        for ((text, found), number) in texts.iter().zip(found).zip(first..) {
            let found = taken(found, number, |found| found.cut_from, encoder.max_len())?.tokens;
            if out.is_jsonl() {
                let place = |at: usize| text[..at].chars().count();
                let tokens: Vec<_> = found
                    .iter()
                    .map(|token| json!({
                        "token": token.token, "start": place(token.range.start), "end": place(token.range.end),
                        "vector": token.vector,
                    }))
                    .collect();
                out.line(&json!({ "text": text, "tokens": tokens }).to_string())?;
            } else {
                found.iter().try_for_each(|token| {
                    out.line(&format!("{}\t{}", token.token, numbers(&token.vector)))
                })?;
                out.line("")?;
            }
        }
        Ok(())
    }

    /// Writes means of word vectors.
    fn average(&self) -> Result<()> {
        let tokenization = Tokenization::parse(&self.tokenize)?;
        let Some(path) = &self.vectors else { unreachable!("required without a model") };
        let vectors = load(path)?;
        let mut out = VectorOutput::new(self.format, self.out.as_deref())?;
        let mut write = |text: &str, number: u64| {
            let vector = mean(&vectors, tokenization, text, number);
            out.vector(text, &vector)
        };
        if self.inputs.texts.is_empty() {
            let path = self.inputs.file.clone().unwrap_or_else(|| "-".into());
            let mut lines = Lines::open(path)?;
            let mut number = 0;
            while let Some(line) = lines.next_text()? {
                number += 1;
                write(line, number)?;
            }
        } else {
            self.inputs.texts.iter().zip(1..).try_for_each(|(text, number)| write(text, number))?;
        }
        out.finish()
    }
}

/// The mean of the vectors of a text's words.
fn mean(vectors: &WordVectors, tokenization: Tokenization, text: &str, number: u64) -> Vec<f32> {
    let mut words = Vec::new();
    tokenization.split(text, |word| words.push(word.to_owned()));
    let (vector, n_known) = vectors.mean(words.iter().map(String::as_str));
    if n_known == 0 {
        note(&format!("text {number}: no word has a vector; the result is zeros"));
    }
    vector
}

/// The vector of one text.
pub(crate) fn vector(encoder: &TextEncoder, text: &str, options: &EncoderOptions) -> Result<Vec<f32>> {
    let mut found = encoder.embed(&[text], options.long())?;
    let found =
        found.pop().ok_or_else(|| Failure { message: "no vector".into(), hint: "try again".into() })?;
    Ok(taken(found, 1, |found| found.cut_from, encoder.max_len())?.vector)
}
