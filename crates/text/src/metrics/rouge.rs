//! ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004, *ROUGE: a package for automatic evaluation of summaries*), as in Google's
//! `rouge_score` without stemming.
//!
//! ```text
//! P = overlap / hypothesis,   R = overlap / reference,   F = 2 · P · R / (P + R)
//! ```
//!
//! The overlap is the number of common n-grams or, in ROUGE-L, the length of the longest common subsequence. Words are
//! runs of a–z and 0–9 after lower-casing; accented letters and other scripts split words. The corpus score is the mean
//! F of the sentences; with several references the one with the highest F counts.

use serde_json::{Map, Value, json};

use super::{Metric, ngrams};

/// Unit of the overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RougeVariant {
    /// n-grams of this length, at least 1.
    Ngram(usize),
    /// Longest common subsequence: ROUGE-L.
    LongestSubsequence,
}

/// ROUGE. Statistics: precision, recall and F of a sentence, and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rouge {
    variant: RougeVariant,
}

impl Rouge {
    /// ROUGE of this variant.
    pub fn new(variant: RougeVariant) -> Self {
        Self { variant }
    }

    fn overlap(self, sequences: &[Vec<u32>]) -> [f64; 3] {
        match self.variant {
            RougeVariant::Ngram(n) => {
                let order = ngrams::orders(sequences, n).pop().expect("n is at least 1");
                let shared = ngrams::matches(&order.counts(0), &order.counts(1));
                [f64::from(shared), order.ids[0].len() as f64, order.ids[1].len() as f64]
            }
            RougeVariant::LongestSubsequence => {
                let shared = common_subsequence(&sequences[0], &sequences[1]);
                [shared as f64, sequences[0].len() as f64, sequences[1].len() as f64]
            }
        }
    }
}

impl Metric for Rouge {
    fn name(&self) -> String {
        match self.variant {
            RougeVariant::Ngram(n) => format!("ROUGE-{n}"),
            RougeVariant::LongestSubsequence => "ROUGE-L".into(),
        }
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let hypothesis = hypothesis.to_lowercase();
        let mut best = vec![0.0, 0.0, -1.0, 1.0];
        for reference in references {
            let reference = reference.to_lowercase();
            let sequences = ngrams::word_ids(&[tokens(&hypothesis), tokens(&reference)]);
            let [shared, hypothesis_len, reference_len] = self.overlap(&sequences);
            let (precision, recall) = (shared / hypothesis_len.max(1.0), shared / reference_len.max(1.0));
            let f = if shared > 0.0 { 2.0 * precision * recall / (precision + recall) } else { 0.0 };
            if f > best[2] {
                best = vec![precision, recall, f, 1.0];
            }
        }
        best
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        100.0 * statistics[2] / statistics[3]
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("case", "lc".into()), ("tok", "rouge".into()), ("stem", "no".into())]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("precision".into(), json!(100.0 * statistics[0] / statistics[3]));
        details.insert("recall".into(), json!(100.0 * statistics[1] / statistics[3]));
        details
    }
}

fn tokens(lowercase: &str) -> Vec<&str> {
    let is_separator = |c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit();
    lowercase.split(is_separator).filter(|token| !token.is_empty()).collect()
}

/// The length of the longest common subsequence, one row of the table at a time.
fn common_subsequence(a: &[u32], b: &[u32]) -> usize {
    let mut lengths = vec![0; b.len() + 1];
    for x in a {
        let mut diagonal = 0;
        for (column, y) in b.iter().enumerate() {
            let above = lengths[column + 1];
            lengths[column + 1] = if x == y { diagonal + 1 } else { above.max(lengths[column]) };
            diagonal = above;
        }
    }
    lengths[b.len()]
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::*;

    /// The example of the paper: "police kill the gunman" shares a subsequence of 2 with the reference of 4.
    #[test]
    fn the_example_of_the_paper() {
        let rouge = Rouge::new(RougeVariant::LongestSubsequence);
        let score = |hypothesis| rouge.score(&rouge.statistics(hypothesis, &["police killed the gunman"]));
        assert_eq!(score("police kill the gunman"), 75.0);
        assert_eq!(score("the gunman kill police"), 50.0);
    }
}
