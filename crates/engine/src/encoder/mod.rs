//! Encoders on text: vectors of texts and tokens ([`embed`]), classes of tokens ([`tag`]), masked words ([`fill`]), and scores of
//! pairs of texts ([`rerank`]). Class scores of texts are in [`crate::classify`].
//!
//! A [`HeadedEncoder`] is an encoder with whatever head it has.
//!
//! A [`TextEncoder`] is a model folder: Polyhead's, Hugging Face's, or one of sentence-transformers with its [`modules`].

pub(crate) mod batch;
pub mod embed;
pub mod fill;
mod headed;
pub mod modules;
mod prepare;
pub mod rerank;
pub mod tag;

use std::path::{Path, PathBuf};

use polyhead_attention::{Capture, Pass, Watch};
use polyhead_models::encoder::EncoderHead;
use polyhead_models::{Encoder, Ids};
use polyhead_tensor::{Parameters, Tape};
use polyhead_text::tokenizer::{Encoding, Tokenizer};
use rayon::prelude::*;

pub use self::headed::HeadedEncoder;
use self::modules::SentenceModules;
pub use self::prepare::EncoderSummary;
use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

/// An encoder with its tokeniser. It may be used by several threads at once.
#[derive(Debug)]
pub struct TextEncoder {
    folder: PathBuf,
    model: Encoder,
    parameters: Parameters,
    tokenizer: Tokenizer,
    max_len: usize,
    modules: Option<SentenceModules>,
}

/// What happens to a text with more tokens than the model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongTexts {
    /// It is an error.
    #[default]
    Refuse,
    /// Its end is cut off.
    Truncate,
}

/// A text, or a pair of texts, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextInput {
    /// Ids, tokens and offsets, special tokens included. Of a pair there are only ids.
    pub encoding: Encoding,
    /// The token type of each id; empty if all are 0.
    pub types: Vec<u32>,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

impl TextEncoder {
    /// Loads an encoder from a model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is not an encoder.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let modules = SentenceModules::of_folder(folder)?;
        let own = modules.as_ref().map_or(folder, |modules| &modules.folder);
        let checkpoint = load(own, options)?;
        let model = checkpoint.model.into_encoder().map_err(|error| {
            let hint = error.hint();
            Error::file(own, error.to_string(), hint)
        })?;
        if let Some(modules) = &modules {
            modules.check(model.config().d_model())?;
        }
        let tokenizer = Tokenizer::load_encoder(own)?;
        if tokenizer.vocab_size() > model.vocab_size() {
            let message = format!(
                "the tokeniser has {} entries, the embedding {} rows",
                tokenizer.vocab_size(),
                model.vocab_size()
            );
            return Err(Error::file(own, message, "does the tokeniser belong to another model?"));
        }
        let stated = modules.as_ref().and_then(|modules| modules.max_len);
        let max_len = stated.unwrap_or(usize::MAX).min(model.max_len());
        let folder = folder.to_owned();
        Ok(Self { folder, model, parameters: checkpoint.parameters, tokenizer, max_len, modules })
    }

    /// The model.
    pub fn model(&self) -> &Encoder {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokeniser.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The modules of a sentence-transformers folder.
    pub fn modules(&self) -> Option<&SentenceModules> {
        self.modules.as_ref()
    }

    /// Longest text in tokens, special tokens included.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// An error unless the model has this head.
    ///
    /// # Errors
    /// If the head is another one.
    pub(crate) fn expect_head(&self, expected: EncoderHead) -> Result<()> {
        let found = self.model.head();
        if found == expected {
            return Ok(());
        }
        let ((name, hint), (wanted, _)) = (found.describe(), expected.describe());
        Err(Error::file(&self.folder, format!("{name}, expected {wanted}"), hint))
    }

    /// The tokens of a text that the model reads.
    ///
    /// # Errors
    /// If the text has no tokens, or more than the model accepts and `long` does not cut it.
    pub fn read(&self, text: &str, long: LongTexts) -> Result<TextInput> {
        self.read_with(&self.tokenizer, text, long)
    }

    /// [`TextEncoder::read`] with another tokeniser of the same ids.
    fn read_with(&self, tokenizer: &Tokenizer, text: &str, long: LongTexts) -> Result<TextInput> {
        let mut encoding = if self.model.has_special_tokens() {
            tokenizer.encode_with_special(text)?
        } else {
            tokenizer.encode(text)?
        };
        encoding.keep(encoding.len() - self.model.truncate(&encoding.ids).len()..encoding.len());
        if encoding.is_empty() {
            return Err(Error::request("an empty text, expected at least one token", "pass some text"));
        }
        let mut cut_from = None;
        if encoding.len() > self.max_len {
            self.check_length(encoding.len(), long)?;
            cut_from = Some(encoding.len());
            encoding = self.cut(&tokenizer.encode(text)?.ids, encoding);
        }
        Ok(TextInput { encoding, types: Vec::new(), cut_from })
    }

    /// The first tokens of a text, with its special tokens; `plain` are its tokens without them.
    fn cut(&self, plain: &[u32], mut encoding: Encoding) -> Encoding {
        let n_special = encoding.len().saturating_sub(plain.len());
        let start = (0..=n_special).find(|start| encoding.ids[*start..].starts_with(plain)).unwrap_or(0);
        let n_kept = self.max_len.saturating_sub(n_special);
        let after = encoding.ids.len() - (n_special - start);
        encoding.remove(start + n_kept..after);
        encoding
    }

    fn check_length(&self, length: usize, long: LongTexts) -> Result<()> {
        if long == LongTexts::Truncate {
            return Ok(());
        }
        let message =
            format!("{length} tokens, expected at most {}, the model's maximum length", self.max_len);
        Err(Error::request(message, "shorten the text, or add --truncate to cut off its end"))
    }

    /// The tokens of a pair of texts, as in reranking. Of a pair that is too long, the second text is cut.
    ///
    /// # Errors
    /// If the pair has more tokens than the model accepts and `long` does not cut it.
    pub fn read_pair(&self, first: &str, second: &str, long: LongTexts) -> Result<TextInput> {
        let mut pair = self.tokenizer.encode_pair(first, second)?;
        let mut cut_from = None;
        if pair.ids.len() > self.max_len {
            self.check_length(pair.ids.len(), long)?;
            cut_from = Some(pair.ids.len());
            let excess = pair.ids.len() - self.max_len;
            let own = self.tokenizer.encode(second)?.ids;
            // The second text is before the last special token.
            let end = pair.ids.len() - 1;
            if excess > own.len() || !pair.ids[..end].ends_with(&own) {
                let message = format!(
                    "{} tokens of a pair, of which {} are the second text, expected at most {}",
                    pair.ids.len(),
                    own.len(),
                    self.max_len
                );
                return Err(Error::request(message, "shorten the first text: only the second is cut"));
            }
            pair.ids.drain(end - excess..end);
            pair.types.drain(end - excess..end);
        }
        let types = if self.model.token_types() < 2 { Vec::new() } else { pair.types };
        Ok(TextInput { encoding: Encoding { ids: pair.ids, ..Encoding::default() }, types, cut_from })
    }

    /// [`TextEncoder::read`] of each text, by all threads.
    pub(crate) fn read_all(&self, texts: &[&str], long: LongTexts) -> Vec<Result<TextInput>> {
        texts.par_iter().map(|text| self.read(text, long)).collect()
    }

    /// Runs `run` on batches of the inputs that are no errors; it returns a result for each row of its batch.
    pub(crate) fn run<T: Send>(
        &self,
        inputs: Vec<Result<TextInput>>,
        run: impl Fn(&Pass<'_>, &Ids, &[&TextInput]) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<Result<(T, TextInput)>>> {
        let read: Vec<&TextInput> = inputs.iter().flatten().collect();
        let mut found = self.run_read(&read, None, run)?.into_iter();
        let paired = |input: Result<TextInput>| input.map(|input| found.next().map(|found| (found, input)));
        let all = inputs.into_iter().map(paired);
        Ok(all.map(|input| input.map(|both| both.expect("a result for each input"))).collect())
    }

    /// Runs `run` on batches of inputs, as long as they are wanted; it returns a result for each row of its batch.
    pub(crate) fn run_read<T: Send>(
        &self,
        inputs: &[&TextInput],
        watch: Option<Watch<'_>>,
        run: impl Fn(&Pass<'_>, &Ids, &[&TextInput]) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        let lengths: Vec<usize> = inputs.iter().map(|input| input.encoding.len()).collect();
        batch::in_batches(&self.parameters.device(), &lengths, |batch| {
            let (tape, capture) = (Tape::inference(), Capture::off());
            let pass = Pass { watch, ..Pass::new(&tape, &self.parameters, &capture) };
            let rows: Vec<&TextInput> = batch.iter().map(|&index| inputs[index]).collect();
            run(&pass, &self.ids(&rows)?, &rows)
        })
    }

    fn ids(&self, rows: &[&TextInput]) -> Result<Ids> {
        let ids: Vec<&[u32]> = rows.iter().map(|row| row.encoding.ids.as_slice()).collect();
        let mut batch = self.model.ids(&ids);
        if rows.iter().any(|row| !row.types.is_empty()) {
            let zeros: Vec<Vec<u32>> = rows.iter().map(|row| vec![0; row.encoding.len()]).collect();
            let types: Vec<&[u32]> = rows
                .iter()
                .zip(&zeros)
                .map(|(row, zeros)| if row.types.is_empty() { zeros.as_slice() } else { &row.types })
                .collect();
            batch = batch.with_types(&types);
        }
        Ok(batch.to_device(&self.parameters.device())?)
    }
}
