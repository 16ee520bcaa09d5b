//! `polyhead vectors`: train word vectors, compare words, evaluate, draw and convert.

mod convert;
mod evaluate;
mod map;
mod nearest;
mod train;

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use polyhead_words::vectors::{Format, WordVectors};

use crate::report::{Failure, counted, detail, grouped};

const EXAMPLES: &str = "\
Examples:
  polyhead vectors train corpus.txt --out vectors.txt
  polyhead vectors nearest vectors.txt monday paris
  polyhead vectors analogy vectors.txt man king woman
  polyhead vectors evaluate vectors.txt wordsim353.txt questions-words.txt
  polyhead vectors map vectors.txt --out map.html
  polyhead vectors convert vectors.txt --out vectors.bin";

/// Subcommands of `polyhead vectors`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Vectors {
    /// Train word vectors on raw text
    Train(Box<train::VectorTraining>),
    /// List the words nearest to a word or a sum of words
    Nearest(nearest::Nearest),
    /// Answer analogies: a is to b as c is to …
    Analogy(nearest::Analogy),
    /// Score vectors on similarity and analogy test sets
    Evaluate(evaluate::VectorEvaluation),
    /// Draw a two-dimensional map of words
    Map(map::Map),
    /// Convert between the formats of word2vec, GloVe and fastText
    Convert(convert::VectorConversion),
}

impl Vectors {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Train(train) => train.run(),
            Self::Nearest(nearest) => nearest.run(),
            Self::Analogy(analogy) => analogy.run(),
            Self::Evaluate(evaluate) => evaluate.run(),
            Self::Map(map) => map.run(),
            Self::Convert(convert) => convert.run(),
        }
    }
}

/// Help text of the argument that names a file of vectors.
pub(crate) const VECTORS: &str = "Word vectors: word2vec text or binary, GloVe text, fastText .vec or .bin";

/// The file formats that vectors are written in.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FileFormat {
    /// word2vec text, which is fastText's .vec
    Word2vec,
    /// word2vec binary
    Word2vecBinary,
    /// GloVe text, without a first line
    Glove,
    /// fastText .bin, for vectors with character n-grams
    Fasttext,
}

impl FileFormat {
    fn format(self) -> Format {
        match self {
            Self::Word2vec => Format::Word2vecText,
            Self::Word2vecBinary => Format::Word2vecBinary,
            Self::Glove => Format::GloveText,
            Self::Fasttext => Format::FastTextBinary,
        }
    }
}

/// Loads a file of vectors.
pub(crate) fn load(path: &Path) -> Result<WordVectors> {
    let vectors = WordVectors::load(path)?;
    detail(|| {
        format!(
            "{}: {}, {}{}",
            path.display(),
            counted(vectors.len() as u64, "word"),
            counted(vectors.dimensions() as u64, "dimension"),
            vectors.subwords().map_or(String::new(), |subwords| format!(
                ", character n-grams of {} to {} in {} buckets",
                subwords.options.min_n,
                subwords.options.max_n,
                grouped(subwords.options.buckets as u64)
            ))
        )
    });
    Ok(vectors)
}

/// Failure if a file exists at `out` and `--overwrite` is missing.
fn check_out(out: &Path, overwrite: bool) -> Result<()> {
    if out.exists() && !overwrite {
        bail!(Failure {
            message: format!("{}: already exists, expected a new file", out.display()),
            hint: "name another file with --out, or add --overwrite".into(),
        });
    }
    Ok(())
}
