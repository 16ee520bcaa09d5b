//! Scores of labels: precision, recall and F1 of each, accuracy, and the macro average of F1.
//!
//! ```text
//! precision = right / found    recall = right / reference    F1 = 2 · right / (found + reference)
//! ```
//!
//! A ratio without a denominator is 0. Macro F1 is the mean over the labels that occur, as found or in the reference. All are as in
//! scikit-learn's `classification_report` with `zero_division=0`, in percent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Scores of one label, or of one type of spans, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelScore {
    /// The label.
    pub label: String,
    /// Share of those found that are right.
    pub precision: f64,
    /// Share of the reference that was found.
    pub recall: f64,
    /// Harmonic mean of both.
    pub f1: f64,
    /// Number in the reference.
    pub support: u64,
}

impl LabelScore {
    /// The scores of a label with the counts right, found, and in the reference.
    pub(crate) fn of(label: String, [right, found, support]: [u64; 3]) -> Self {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
        let (precision, recall) = (share(right, found), share(right, support));
        Self { label, precision, recall, f1: share(2 * right, found + support), support }
    }
}

/// Counts of labels found and of the reference.
///
/// ```
/// use polyhead_text::metrics::LabelCounts;
/// let mut counts = LabelCounts::default();
/// [("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")].iter().for_each(|(found, reference)| counts.add(found, reference));
/// let labels = counts.labels();
/// assert_eq!((counts.accuracy(), labels[0].precision, labels[0].recall), (75.0, 50.0, 100.0));
/// assert!((counts.macro_f1() - (200.0 / 3.0 + 80.0) / 2.0).abs() < 1e-9);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelCounts {
    /// Right, found, and in the reference, by label.
    by_label: BTreeMap<String, [u64; 3]>,
    right: u64,
    total: u64,
}

impl LabelCounts {
    /// Adds a label found and that of the reference.
    pub fn add(&mut self, found: &str, reference: &str) {
        let is_right = found == reference;
        self.count(found, 1);
        self.count(reference, 2);
        if is_right {
            self.count(found, 0);
        }
        self.right += u64::from(is_right);
        self.total += 1;
    }

    fn count(&mut self, label: &str, index: usize) {
        if !self.by_label.contains_key(label) {
            self.by_label.insert(label.to_owned(), [0; 3]);
        }
        self.by_label.get_mut(label).expect("it was inserted above")[index] += 1;
    }

    /// Share of right labels, in percent.
    pub fn accuracy(&self) -> f64 {
        100.0 * self.right as f64 / self.total.max(1) as f64
    }

    /// Mean of the F1 of all labels, in percent.
    pub fn macro_f1(&self) -> f64 {
        let labels = self.labels();
        labels.iter().map(|score| score.f1).sum::<f64>() / labels.len().max(1) as f64
    }

    /// The scores of each label, in the order of their names.
    pub fn labels(&self) -> Vec<LabelScore> {
        self.by_label.iter().map(|(label, counts)| LabelScore::of(label.clone(), *counts)).collect()
    }
}
