//! Token error rates: WER over words, PER over phonemes, CER over characters.
//!
//! ```text
//! rate = 100 · Σ edits / Σ length of the reference
//! ```
//!
//! Edits are insertions, deletions and substitutions (Levenshtein 1966). The rate may exceed 100. If the references
//! have no token, every token is an edit and the length counts as one, as in `jiwer`. With several references the one
//! with the fewest edits counts. The share of wrong lines is [`super::SequenceErrorRate`].

use serde_json::{Map, Value, json};
use strsim::generic_levenshtein;

use super::tokenize::{is_space, words};
use super::{Metric, case_setting, cased, ngrams};

/// Unit of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EditUnit {
    /// Words between white space: WER. The default.
    #[default]
    Words,
    /// Phonemes between white space: PER, computed as WER.
    Phonemes,
    /// Characters, inner white space included: CER.
    Characters,
}

/// A token error rate. Statistics: edits, reference length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenErrorRate {
    /// Unit of an edit; default: words.
    pub unit: EditUnit,
    /// Ignores case; default: false.
    pub lowercase: bool,
}

impl TokenErrorRate {
    fn tokens(self, lines: &[&str]) -> Vec<Vec<u32>> {
        let lines: Vec<_> = lines.iter().map(|line| cased(line, self.lowercase)).collect();
        match self.unit {
            EditUnit::Words | EditUnit::Phonemes => {
                ngrams::word_ids(&lines.iter().map(|line| words(line).collect()).collect::<Vec<_>>())
            }
            EditUnit::Characters => lines
                .iter()
                .map(|line| line.trim_matches(is_space).chars().map(u32::from).collect())
                .collect(),
        }
    }
}

impl Metric for TokenErrorRate {
    fn name(&self) -> String {
        match self.unit {
            EditUnit::Words => "WER",
            EditUnit::Phonemes => "PER",
            EditUnit::Characters => "CER",
        }
        .into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let lines: Vec<&str> = std::iter::once(hypothesis).chain(references.iter().copied()).collect();
        let sequences = self.tokens(&lines);
        let (hypothesis, references) = sequences.split_first().expect("the hypothesis was put in first");
        let costs =
            references.iter().map(|reference| (generic_levenshtein(hypothesis, reference), reference.len()));
        let (edits, len) = costs.min_by_key(|&(edits, _)| edits).expect("at least one reference");
        vec![edits as f64, len as f64]
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        100.0 * statistics[0] / statistics[1].max(1.0)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let tokens = if self.unit == EditUnit::Characters { "char" } else { "none" };
        vec![case_setting(self.lowercase), ("tok", tokens.into())]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("edits".into(), json!(statistics[0] as u64));
        details.insert("reference_len".into(), json!(statistics[1] as u64));
        details
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn known_distances() {
        let distance = |a: &str, b: &str| generic_levenshtein(&a.as_bytes().to_vec(), &b.as_bytes().to_vec());
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("sunday", "saturday"), 3);
    }

    #[test]
    fn the_rate_may_exceed_100() {
        let rate = TokenErrorRate::default();
        assert_eq!(rate.score(&rate.statistics("a b c", &["d"])), 300.0);
        assert_eq!(rate.score(&rate.statistics("a b", &[""])), 200.0);
        assert_eq!(rate.score(&rate.statistics("", &[" "])), 0.0);
        assert_eq!(rate.statistics("x y", &["a b c", "x z"]), [1.0, 2.0]);
    }
}
