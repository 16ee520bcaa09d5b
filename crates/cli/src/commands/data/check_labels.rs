//! `polyhead data check --labels`: a report of the problems of labelled texts, or of words with tags.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{LabelReport, check_labels};

use crate::corpus_options::CorpusOptions;
use crate::label_report::summary;
use crate::output_format::DocumentFormat;
use crate::report::{Failure, Misuse, print_json, print_text};

/// Options about labelled text.
#[derive(Debug, Args)]
pub(super) struct LabelOptions {
    /// Check labelled texts: the target is the label of the source
    #[arg(long)]
    labels: bool,
    /// Check lists of words and of their tags in the fields of --jsonl
    #[arg(long, requires = "jsonl", conflicts_with = "labels")]
    tags: bool,
    /// Check a file with a word and its tag on each line and an empty line after each sentence
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "target", "tsv", "csv", "jsonl"])]
    conll: Option<PathBuf>,
    /// Validation text in the format of the corpus (with --labels, --tags or --conll)
    #[arg(long, value_name = "FILE")]
    valid: Option<PathBuf>,
}

impl LabelOptions {
    /// True if labelled text is to be checked.
    pub(super) fn are_wanted(&self) -> bool {
        self.labels || self.tags || self.conll.is_some() || self.valid.is_some()
    }

    /// Prints the report.
    pub(super) fn check(
        &self,
        corpus: &CorpusOptions,
        n_examples: usize,
        format: DocumentFormat,
    ) -> Result<()> {
        let training = self.training(corpus)?;
        let validation = self.valid.as_ref().map(|path| moved(&training, path)).transpose()?;
        let validation: Vec<Corpus> = validation.into_iter().collect();
        let report = check_labels(&[training], &validation, n_examples)?;
        if format.is_json() {
            print_json(&report)?;
        } else {
            print_text(&summary(&report))?;
        }
        if report.is_usable() { Ok(()) } else { bail!(failure(&report)) }
    }

    fn training(&self, corpus: &CorpusOptions) -> Result<Corpus> {
        if let Some(path) = &self.conll {
            return Ok(Corpus::Conll { path: path.clone(), word_column: None, tag_column: None });
        }
        if !self.labels && !self.tags {
            return Err(Misuse {
                message: "--valid without labels, expected --labels, --tags or --conll".into(),
                hint:
                    "pairs are checked against a test set with --test-tsv, or --test-source and --test-target"
                        .into(),
            }
            .into());
        }
        Ok(match corpus.corpus()? {
            Corpus::Jsonl { path, source_field, target_field } if self.tags => {
                let own = [("source", source_field, "tokens"), ("target", target_field, "tags")];
                let [words_field, tags_field] =
                    own.map(|(pairs, given, own)| if given == pairs { own.to_owned() } else { given });
                Corpus::TokensJsonl { path, words_field, tags_field }
            }
            other => other,
        })
    }
}

/// The corpus with another file.
fn moved(corpus: &Corpus, to: &Path) -> Result<Corpus> {
    let mut corpus = corpus.clone();
    match &mut corpus {
        Corpus::LineFiles { .. } | Corpus::SeveralFiles { .. } => {
            return Err(Misuse {
                message: "--valid with line files, expected --tsv, --csv, --jsonl or --conll".into(),
                hint: "paste train.txt train.labels > train.tsv makes one file of two".into(),
            }
            .into());
        }
        Corpus::Tsv { path, .. }
        | Corpus::SeveralColumns { path, .. }
        | Corpus::Csv { path, .. }
        | Corpus::Conll { path, .. }
        | Corpus::TokensJsonl { path, .. }
        | Corpus::Jsonl { path, .. }
        | Corpus::Text { path } => to.clone_into(path),
    }
    Ok(corpus)
}

fn failure(report: &LabelReport) -> Failure {
    let unseen = report
        .findings
        .iter()
        .any(|finding| finding.problem == polyhead_text::doctor::LabelProblem::UnseenLabel);
    Failure {
        message: "a model cannot be trained on the text as it is".into(),
        hint: if unseen {
            "correct the labels that training lacks, or train on texts that have them".into()
        } else {
            "repair or remove the rows that cannot be read".into()
        },
    }
}
