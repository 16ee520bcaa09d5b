//! Accuracy: the share of lines equal to a reference; and its complement, the sequence error rate.
//!
//! Work on grapheme-to-phoneme conversion calls the sequence error rate *word* error rate: a line is the pronunciation
//! of one word. It is not [`super::TokenErrorRate`].

use serde_json::{Map, Value, json};

use super::tokenize::words;
use super::{Metric, case_setting, cased};

/// Share of lines whose words equal those of a reference, in percent. Statistics: equal lines, lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accuracy {
    /// Ignores case; default: false.
    pub lowercase: bool,
}

/// Share of lines that equal no reference, in percent. Statistics: unequal lines, lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceErrorRate {
    /// Ignores case; default: false.
    pub lowercase: bool,
}

impl Metric for Accuracy {
    fn name(&self) -> String {
        "accuracy".into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        vec![f64::from(equals_any(hypothesis, references, self.lowercase)), 1.0]
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        100.0 * statistics[0] / statistics[1]
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![case_setting(self.lowercase)]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("correct".into(), json!(statistics[0] as u64));
        details.insert("lines".into(), json!(statistics[1] as u64));
        details
    }
}

impl Metric for SequenceErrorRate {
    fn name(&self) -> String {
        "SER".into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        vec![f64::from(!equals_any(hypothesis, references, self.lowercase)), 1.0]
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        100.0 * statistics[0] / statistics[1]
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![case_setting(self.lowercase)]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("wrong".into(), json!(statistics[0] as u64));
        details.insert("lines".into(), json!(statistics[1] as u64));
        details
    }
}

/// True if the words equal those of a reference; the amount of white space between them does not matter.
fn equals_any(hypothesis: &str, references: &[&str], lowercase: bool) -> bool {
    let hypothesis = cased(hypothesis, lowercase);
    references.iter().any(|reference| words(&hypothesis).eq(words(&cased(reference, lowercase))))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_lines_is_right() {
        let statistics = |hypothesis: &str| Accuracy::default().statistics(hypothesis, &["K AE T", "K A T"]);
        assert_eq!(statistics("K A  T "), [1.0, 1.0]);
        assert_eq!(statistics("K E T"), [0.0, 1.0]);
        assert_eq!(Accuracy::default().score(&[1.0, 2.0]), 50.0);
        assert_eq!(SequenceErrorRate { lowercase: true }.statistics("k ae t", &["K AE T"]), [0.0, 1.0]);
    }
}
