//! `polyhead data`: check, clean and measure a parallel corpus; check labelled text; make puzzles and scenes.

mod check;
mod check_labels;
mod clean;
mod make;
mod scenes;
mod stats;

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{CheckOptions, Problem};

use crate::corpus_options::{CorpusOptions, two};
use crate::report::Misuse;

const EXAMPLES: &str = "\
Examples:
  polyhead data check --source train.en --target train.de
  polyhead data check --labels --csv train.csv --valid valid.csv
  polyhead data clean --tsv train.tsv --out clean.tsv --report dropped.jsonl
  polyhead data stats --tsv clean.tsv --tokenizer tokenizer.json
  polyhead data make sort --count 100000 --size 10 --out sort.jsonl
  polyhead data make scenes --out scenes";

/// Subcommands of `polyhead data`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Data {
    /// Find problems in a corpus, with line numbers
    Check(check::Check),
    /// Write the pairs without problems, and report every dropped pair
    Clean(clean::Clean),
    /// Count lines, words, characters and tokens
    Stats(stats::Stats),
    /// Make puzzles for pointer networks, or scenes for captioners
    Make(make::Make),
}

impl Data {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Check(check) => check.run(),
            Self::Clean(clean) => clean.run(),
            Self::Stats(stats) => stats.run(),
            Self::Make(make) => make.run(),
        }
    }
}

/// Thresholds and test sets of the problem checks.
#[derive(Debug, Args)]
struct ProblemOptions {
    /// Maximum length of a line, in characters
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().max_chars)]
    max_chars: usize,
    /// Maximum ratio of the longer side to the shorter (see --min-difference)
    #[arg(long, value_name = "X", default_value_t = CheckOptions::default().max_ratio)]
    max_ratio: f64,
    /// Apply --max-ratio only if the two lengths differ by more than N characters
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().min_difference)]
    min_difference: usize,
    /// Source sentences of a test set that must not occur in the corpus (with --test-target)
    #[arg(long, value_name = "FILE", requires = "test_target")]
    test_source: Option<PathBuf>,
    /// Target sentences of a test set that must not occur in the corpus (with --test-source)
    #[arg(long, value_name = "FILE", requires = "test_source")]
    test_target: Option<PathBuf>,
    /// Test set in a tab-separated file, with the columns of the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["test_source", "test_target"])]
    test_tsv: Option<PathBuf>,
    /// Languages of source and target, to find sides in another language or script: two of en, de, fr, tr; und is any
    #[arg(long, value_name = "S,T", value_parser = parse_languages)]
    languages: Option<[String; 2]>,
    /// Problems to ignore
    #[arg(long, value_name = "PROBLEM,…", value_delimiter = ',', value_parser = tolerable())]
    keep: Vec<String>,
}

fn tolerable() -> PossibleValuesParser {
    PossibleValuesParser::new(
        Problem::ALL.into_iter().filter(|problem| !problem.is_fatal()).map(Problem::name),
    )
}

fn parse_languages(text: &str) -> Result<[String; 2], String> {
    two(text).map(|codes| codes.map(str::to_owned))
}

impl ProblemOptions {
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
            (_, _, Some(path)) => Some(corpus.tsv(path.clone())?),
            _ => None,
        };
        let Self { max_chars, max_ratio, min_difference, .. } = *self;
        let is_ignored = |problem: &Problem| self.keep.iter().any(|name| name == problem.name());
        Ok(CheckOptions {
            max_chars,
            max_ratio,
            min_difference,
            test,
            languages: self.languages.clone(),
            ignore: Problem::ALL.into_iter().filter(is_ignored).collect(),
            ..CheckOptions::default()
        })
    }
}
