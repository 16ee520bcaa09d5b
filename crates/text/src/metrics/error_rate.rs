//! Token error rates: WER over words, PER over phonemes, CER over characters.
//!
//! ```text
//! rate = 100 · Σ edits / Σ length of the reference
//! ```
//!
//! Edits are insertions, deletions and substitutions (Levenshtein 1966). The rate may exceed 100. Against references
//! without a single token every token is an edit and the length counts as one, as in `jiwer`. With several references
//! the one that needs the fewest edits counts. The share of whole lines that are wrong is
//! [`super::SequenceErrorRate`].

use serde_json::{Map, Value, json};

use super::tokenize::{is_space, words};
use super::{Metric, cased, ngrams};

/// What an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Words between white space: WER. The default.
    #[default]
    Words,
    /// Phonemes between white space: PER. The same computation under the name the field uses.
    Phonemes,
    /// Characters, inner white space included: CER.
    Characters,
}

/// A token error rate. Statistics: edits, reference length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenErrorRate {
    /// What an edit changes; words.
    pub unit: Unit,
    /// Whether upper and lower case are the same; no.
    pub lowercase: bool,
}

impl TokenErrorRate {
    fn tokens(self, lines: &[&str]) -> Vec<Vec<u32>> {
        let lines: Vec<_> = lines.iter().map(|line| cased(line, self.lowercase)).collect();
        match self.unit {
            Unit::Words | Unit::Phonemes => {
                ngrams::word_ids(&lines.iter().map(|line| words(line).collect()).collect::<Vec<_>>())
            }
            Unit::Characters => lines
                .iter()
                .map(|line| line.trim_matches(is_space).chars().map(u32::from).collect())
                .collect(),
        }
    }
}

impl Metric for TokenErrorRate {
    fn name(&self) -> String {
        match self.unit {
            Unit::Words => "WER",
            Unit::Phonemes => "PER",
            Unit::Characters => "CER",
        }
        .into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let lines: Vec<&str> = std::iter::once(hypothesis).chain(references.iter().copied()).collect();
        let sequences = self.tokens(&lines);
        let (hypothesis, references) = sequences.split_first().expect("the hypothesis was put in first");
        let costs =
            references.iter().map(|reference| (edit_distance(hypothesis, reference), reference.len()));
        let (edits, len) = costs.min_by_key(|&(edits, _)| edits).expect("at least one reference");
        vec![edits as f64, len as f64]
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        100.0 * statistics[0] / statistics[1].max(1.0)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let tokens = if self.unit == Unit::Characters { "char" } else { "none" };
        vec![("case", if self.lowercase { "lc" } else { "mixed" }.into()), ("tok", tokens.into())]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("edits".into(), json!(statistics[0] as u64));
        details.insert("reference_len".into(), json!(statistics[1] as u64));
        details
    }
}

/// The fewest insertions, deletions and substitutions that turn `a` into `b`.
pub fn edit_distance<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    let mut costs: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.iter().enumerate() {
        let mut diagonal = costs[0];
        costs[0] = row + 1;
        for (column, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = costs[column + 1];
            costs[column + 1] = replaced.min(diagonal + 1).min(costs[column] + 1);
        }
    }
    costs[b.len()]
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn known_distances() {
        let distance = |a: &str, b: &str| edit_distance(a.as_bytes(), b.as_bytes());
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("sunday", "saturday"), 3);
    }

    #[test]
    fn a_line_more_than_wrong() {
        let rate = TokenErrorRate::default();
        assert_eq!(rate.score(&rate.statistics("a b c", &["d"])), 300.0);
        assert_eq!(rate.score(&rate.statistics("a b", &[""])), 200.0);
        assert_eq!(rate.score(&rate.statistics("", &[" "])), 0.0);
        assert_eq!(rate.statistics("x y", &["a b c", "x z"]), [1.0, 2.0]);
    }
}
