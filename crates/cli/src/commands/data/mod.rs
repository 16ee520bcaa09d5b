//! `polyhead data`: look after a parallel corpus.

mod check;
mod clean;
mod stats;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::CheckOptions;

use crate::corpus_options::CorpusOptions;
use crate::report::Misuse;

/// The commands about corpora.
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Find what is wrong with a corpus, with line numbers
    Check(check::Check),
    /// Keep the good pairs and report every other one with its reason
    Clean(clean::Clean),
    /// Measure a corpus: lines, words, characters, tokens
    Stats(stats::Stats),
}

impl Data {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Check(check) => check.run(),
            Self::Clean(clean) => clean.run(),
            Self::Stats(stats) => stats.run(),
        }
    }
}

/// What counts as a fault.
#[derive(Debug, Args)]
struct FaultOptions {
    /// Longest line allowed, in characters
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().max_chars)]
    max_chars: usize,
    /// Largest ratio of the two lengths allowed, where they differ by more than --min-difference
    #[arg(long, value_name = "X", default_value_t = CheckOptions::default().max_ratio)]
    max_ratio: f64,
    /// Difference of the two lengths, in characters, that --max-ratio lets pass
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().min_difference)]
    min_difference: usize,
    /// Test sentences that must not occur in the corpus, source side
    #[arg(long, value_name = "FILE", requires = "test_target")]
    test_source: Option<PathBuf>,
    /// Test sentences that must not occur in the corpus, target side
    #[arg(long, value_name = "FILE", requires = "test_source")]
    test_target: Option<PathBuf>,
    /// Test pairs that must not occur in the corpus, columns as in the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["test_source", "test_target"])]
    test_tsv: Option<PathBuf>,
}

impl FaultOptions {
    fn resolve(&self, corpus: &CorpusOptions) -> Result<CheckOptions> {
        if self.max_ratio.is_nan() || self.max_ratio < 1.0 {
            return Err(Misuse {
                message: format!("--max-ratio: {}, expected 1 or more", self.max_ratio),
                hint: format!("the default is {}", CheckOptions::default().max_ratio),
            }
            .into());
        }
        let test = match (&self.test_source, &self.test_target, &self.test_tsv) {
            (Some(source), Some(target), _) => {
                Some(Corpus::LineFiles { source: source.clone(), target: target.clone() })
            }
            (_, _, Some(path)) => Some(corpus.tsv(path.clone())),
            _ => None,
        };
        let Self { max_chars, max_ratio, min_difference, .. } = *self;
        Ok(CheckOptions { max_chars, max_ratio, min_difference, test, ..CheckOptions::default() })
    }
}
