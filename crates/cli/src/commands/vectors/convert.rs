//! `polyhead vectors convert`: word vectors in another file format.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_words::vectors::{Format, Vocabulary, WordVectors};

use super::{FileFormat, VECTORS, check_out, load};
use crate::report::{counted, note};

const EXAMPLES: &str = "\
Examples:
  polyhead vectors convert glove.6B.50d.txt --out glove.bin
  polyhead vectors convert cc.en.300.bin --out top.vec --max-words 50000
  polyhead vectors convert vectors.bin --file-format glove --out glove.txt

The format of the input is detected by its content. fastText's quantised models (.ftz) cannot be read.";

/// Options of `polyhead vectors convert`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VectorConversion {
    #[arg(value_name = "VECTORS", help = VECTORS)]
    vectors: PathBuf,
    /// Vectors to write
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// File format [default: by the name of --out]
    #[arg(long, value_enum, value_name = "FORMAT")]
    file_format: Option<FileFormat>,
    /// Write the first words only, which are the most frequent [default: all]
    #[arg(long, value_name = "N")]
    max_words: Option<usize>,
}

impl VectorConversion {
    pub(crate) fn run(self) -> Result<()> {
        check_out(&self.out, self.overwrite)?;
        let mut vectors = load(&self.vectors)?;
        if let Some(n) = self.max_words.filter(|&n| n < vectors.len()) {
            vectors = first_words(&vectors, n);
        }
        let format =
            self.file_format.map_or_else(|| Format::of_path(&self.out, &vectors), FileFormat::format);
        vectors.save(&self.out, format)?;
        note(&format!(
            "wrote {} as {}: {}, {}",
            self.out.display(),
            format.name(),
            counted(vectors.len() as u64, "word"),
            counted(vectors.dimensions() as u64, "dimension")
        ));
        Ok(())
    }
}

/// The first `n` words, without n-grams.
fn first_words(vectors: &WordVectors, n: usize) -> WordVectors {
    let vocabulary = vectors.vocabulary();
    let entries = vocabulary.words().iter().cloned().zip(vocabulary.counts().iter().copied()).take(n);
    let numbers = vectors.numbers()[..n * vectors.dimensions()].to_vec();
    WordVectors::new(Vocabulary::new(entries.collect::<Vec<_>>()), vectors.dimensions(), numbers)
}
