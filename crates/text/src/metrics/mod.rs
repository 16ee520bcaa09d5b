//! Metrics on strings: BLEU, chrF, TER, ROUGE, accuracy, error rates, and correlation of numbers.
//!
//! Every metric maps a sentence to a vector of sufficient statistics, and a sum of such vectors to a score. A sentence
//! score is that of one vector, a corpus score that of the sum over the corpus, and the score of a bootstrap sample
//! ([`bootstrap`]) that of a sum over sentences drawn with replacement:
//!
//! ```text
//! corpus score = f( Σ_i s(hypothesis_i, references_i) )
//! ```
//!
//! All scores are percentages. BLEU, chrF and TER are those of sacreBLEU 2.6 (Post 2018, *A call for clarity in
//! reporting BLEU scores*), signature included.
//!
//! ```
//! use polyhead_text::metrics::{Bleu, BleuOptions, Statistics, signature};
//! let bleu = Bleu::new(BleuOptions::default());
//! let hypotheses = ["The cat sat on the mat ."];
//! let references = [vec!["The cat sat on a mat ."]];
//! let statistics = Statistics::collect(&bleu, &hypotheses, &references)?;
//! assert!((statistics.score(&bleu) - 48.892_302).abs() < 1e-6);
//! assert!(signature(&bleu, 1, None).starts_with("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|"));
//! # Ok::<(), polyhead_text::Error>(())
//! ```

pub mod accuracy;
pub mod bleu;
pub mod bootstrap;
pub mod chrf;
pub mod correlation;
pub mod error_rate;
pub mod labels;
mod ngrams;
pub mod randomization;
pub mod rouge;
pub mod samples;
pub mod significance;
pub mod ter;
mod ter_shifts;
pub mod tokenize;

pub use accuracy::{Accuracy, SequenceErrorRate};
pub use bleu::{Bleu, BleuOptions, BleuScore, Smoothing};
pub use bootstrap::{Bootstrap, Interval};
pub use chrf::{Chrf, ChrfOptions};
pub use correlation::{pearson, spearman};
pub use error_rate::{EditUnit, TokenErrorRate};
pub use labels::{LabelCounts, LabelScore};
pub use randomization::Randomization;
pub use rouge::{Rouge, RougeVariant};
pub use samples::SampleScore;
pub use significance::{PairedResults, PairedTest, SystemComparison};
pub use ter::{Ter, TerOptions};
pub use tokenize::{PieceTokenization, Tokenization};

use rayon::prelude::*;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// A metric: additive statistics of a sentence, and the score of their sum.
pub trait Metric: Send + Sync {
    /// Name as printed in papers: `BLEU`, `chrF2++`, `TER`.
    fn name(&self) -> String;

    /// Statistics of one sentence against its references; the same number of values for every sentence.
    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64>;

    /// Score in percent, from the statistics of a sentence or a sum of them.
    fn score(&self, statistics: &[f64]) -> f64;

    /// Score of a sample, from a sum in single precision, in the arithmetic of sacreBLEU.
    fn sample_score(&self, total: &[f32]) -> SampleScore {
        SampleScore::Double(self.score(&doubles(total)))
    }

    /// Settings as (key, value), in the order of the signature.
    fn settings(&self) -> Vec<(&'static str, String)>;

    /// Components of the score, for a report.
    fn details(&self, statistics: &[f64]) -> Map<String, Value>;

    /// Components of the score as one line of text; empty if there are none.
    fn verbose(&self, _statistics: &[f64]) -> String {
        String::new()
    }
}

/// Statistics of a corpus: one row per sentence.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    width: usize,
    values: Vec<f64>,
}

impl Statistics {
    /// Compares `hypotheses` with `references`: one list per reference translation, each as long as `hypotheses`.
    /// Sentences are compared in parallel; the result does not depend on the number of threads.
    pub fn collect<H, R>(metric: &dyn Metric, hypotheses: &[H], references: &[Vec<R>]) -> Result<Self>
    where
        H: AsRef<str> + Sync,
        R: AsRef<str> + Sync,
    {
        check_lengths(hypotheses.len(), references)?;
        let rows: Vec<Vec<f64>> = hypotheses
            .par_iter()
            .enumerate()
            .map(|(line, hypothesis)| {
                let references: Vec<&str> = references.iter().map(|lines| lines[line].as_ref()).collect();
                metric.statistics(hypothesis.as_ref(), &references)
            })
            .collect();
        Ok(Self { width: rows[0].len(), values: rows.concat() })
    }

    /// The number of sentences.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Always false: a corpus has at least one sentence.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The statistics of the sentence at `index`.
    pub fn row(&self, index: usize) -> &[f64] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// The sum over the corpus.
    pub fn total(&self) -> Vec<f64> {
        self.total_of(0..self.len())
    }

    /// The sum over the sentences at `indices`.
    pub fn total_of(&self, indices: impl IntoIterator<Item = usize>) -> Vec<f64> {
        let mut total = vec![0.0; self.width];
        for index in indices {
            for (sum, value) in total.iter_mut().zip(self.row(index)) {
                *sum += value;
            }
        }
        total
    }

    /// The corpus score.
    pub fn score(&self, metric: &dyn Metric) -> f64 {
        metric.score(&self.total())
    }

    /// The score of every sentence.
    pub fn sentence_scores(&self, metric: &dyn Metric) -> Vec<f64> {
        (0..self.len()).map(|index| metric.score(self.row(index))).collect()
    }
}

/// Signature that makes a score reproducible, in sacreBLEU's format but with our version.
pub fn signature(metric: &dyn Metric, n_references: usize, test: Option<&PairedTest>) -> String {
    let mut settings = vec![("nrefs", n_references.to_string())];
    settings.extend(test.into_iter().flat_map(PairedTest::settings));
    settings.extend(metric.settings());
    let mut parts: Vec<String> = settings.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    parts.push(concat!("version:polyhead-", env!("CARGO_PKG_VERSION")).into());
    parts.join("|")
}

fn check_lengths<R>(hypotheses: usize, references: &[Vec<R>]) -> Result<()> {
    if references.is_empty() {
        return Err(Error::Empty { what: "references".into() });
    }
    for (index, lines) in references.iter().enumerate() {
        if lines.len() != hypotheses {
            return Err(Error::LineCounts {
                source_path: "hypotheses".into(),
                target_path: format!("reference {}", index + 1).into(),
                source_lines: hypotheses as u64,
                target_lines: lines.len() as u64,
            });
        }
    }
    if hypotheses == 0 {
        return Err(Error::Empty { what: "hypotheses".into() });
    }
    Ok(())
}

fn doubles(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}

/// `text`, in lower case if `lowercase`.
fn cased(text: &str, lowercase: bool) -> std::borrow::Cow<'_, str> {
    if lowercase { text.to_lowercase().into() } else { text.into() }
}

/// Setting `case` of a signature: `lc` if case is ignored, else `mixed`.
fn case_setting(lowercase: bool) -> (&'static str, String) {
    ("case", if lowercase { "lc" } else { "mixed" }.into())
}

/// `yes` or `no`, as in signatures.
fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_agree_and_a_corpus_must_not_be_empty() {
        let accuracy = Accuracy::default();
        let none: [&str; 0] = [];
        let error = Statistics::collect(&accuracy, &["a"], &[vec!["a"], vec!["a", "b"]]).unwrap_err();
        assert_eq!(error.to_string(), "hypotheses has 1 lines, reference 2 has 2: expected the same number");
        assert!(matches!(Statistics::collect(&accuracy, &none, &[vec!["a"; 0]]), Err(Error::Empty { .. })));
        assert!(matches!(Statistics::collect::<_, &str>(&accuracy, &["a"], &[]), Err(Error::Empty { .. })));
    }
}
