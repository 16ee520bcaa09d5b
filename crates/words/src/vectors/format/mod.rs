//! Files of word vectors: word2vec text (fastText's `.vec`), word2vec binary, GloVe text, fastText's `.bin`.

mod binary;
mod fasttext;
mod text;

use std::path::Path;

use polyhead_text::output::Output;

use super::{TrainOptions, WordVectors};
use crate::{Error, Result};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line "count dimensions", then a line for each word: the word and its numbers. fastText's `.vec` is the same.
    Word2vecText,
    /// A line "count dimensions", then for each word its spelling, a space and its numbers as f32.
    Word2vecBinary,
    /// A line for each word, without a first line.
    GloveText,
    /// fastText's `.bin`: words, n-grams and output vectors.
    FastTextBinary,
}

impl Format {
    /// Names in options.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("word2vec", Self::Word2vecText),
        ("word2vec-binary", Self::Word2vecBinary),
        ("glove", Self::GloveText),
        ("fasttext", Self::FastTextBinary),
    ];

    /// The format called `name`.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            Error::request(
                format!("unknown format {name:?}, expected word2vec, word2vec-binary, glove or fasttext"),
                "fastText's .vec files are in the format word2vec",
            )
        })
    }

    /// The format that a file's name suggests: `.bin` is binary (fastText's for vectors with n-grams), all others are word2vec
    /// text.
    pub fn of_path(path: &Path, vectors: &WordVectors) -> Self {
        let is_binary = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("bin"));
        match (is_binary, vectors.subwords().is_some()) {
            (false, _) => Self::Word2vecText,
            (true, true) => Self::FastTextBinary,
            (true, false) => Self::Word2vecBinary,
        }
    }

    /// Name in options.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

impl WordVectors {
    /// Reads a file in any of the formats, plain or gzip where it is text; detected by content.
    ///
    /// # Errors
    /// If the file cannot be read, or its rows do not have the promised number or width: the message names the line.
    pub fn load(path: &Path) -> Result<Self> {
        if fasttext::is_fasttext(path)? {
            return fasttext::read(path);
        }
        if binary::is_binary(path)? {
            return binary::read(path);
        }
        text::read(path)
    }

    /// Writes the vectors; gzip if the name ends in `.gz`.
    ///
    /// # Errors
    /// If the file cannot be written, or the format needs what the vectors do not have.
    pub fn save(&self, path: &Path, format: Format) -> Result<()> {
        if let (Format::Word2vecText | Format::GloveText | Format::Word2vecBinary, Some(word)) =
            (format, self.vocabulary().words().iter().find(|word| word.contains(char::is_whitespace)))
        {
            return Err(Error::request(
                format!(
                    "the word {word:?} contains a space, which ends a word in the format {}",
                    format.name()
                ),
                "choose the format fasttext, or leave the word out",
            ));
        }
        let mut output = Output::create(path)?;
        match format {
            Format::Word2vecText | Format::GloveText => text::write(self, &mut output, format)?,
            Format::Word2vecBinary => binary::write(self, &mut output)?,
            Format::FastTextBinary => fasttext::write(self, &mut output, &TrainOptions::default())?,
        }
        Ok(output.finish()?)
    }
}
