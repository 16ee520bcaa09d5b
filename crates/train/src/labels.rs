//! Labels of texts and of words: their weights, and the loss that classifiers and taggers share.

use std::collections::BTreeMap;

use polyhead_attention::Pass;
use polyhead_models::encoder::NO_LABEL;
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::ops::weighted_cross_entropy::{ClassWeights, weighted_cross_entropy};
use polyhead_tensor::{Indices, Tensor, Var};
use polyhead_text::spelling::nearest;

use crate::config::{ClassWeighting, ClassesConfig, WeightRule};
use crate::objective::LossOptions;
use crate::{Error, Result};

/// Labels of the training text with the number of their texts or words.
pub(crate) type LabelCounts = BTreeMap<String, usize>;

/// The weight of each label in the order of their names; `None` if all are equal.
pub(crate) fn weights(config: &ClassesConfig, labels: &LabelCounts) -> Result<Option<Vec<f32>>> {
    match &config.weights {
        None => Ok(None),
        Some(ClassWeighting::Rule(WeightRule::Balanced)) => {
            let whole = labels.values().sum::<usize>() as f64 / labels.len() as f64;
            Ok(Some(labels.values().map(|&count| (whole / count as f64) as f32).collect()))
        }
        Some(ClassWeighting::Table(table)) => {
            if let Some(unknown) = table.keys().find(|label| !labels.contains_key(*label)) {
                let nearest = nearest(unknown, labels.keys().map(String::as_str)).unwrap_or_default();
                return Err(Error::config(
                    "classes.weights",
                    format!("{unknown:?}, expected labels of the training text"),
                    format!("did you mean {nearest:?}?"),
                ));
            }
            Ok(Some(labels.keys().map(|label| table.get(label).copied().unwrap_or(1.0)).collect()))
        }
    }
}

/// The labels of a batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchLabels {
    /// One for each row of the logits, of all copies of the batch; [`NO_LABEL`] where there is none.
    pub(crate) labels: Indices,
    /// Weights of the labels, if they are not equal.
    pub(crate) weights: Option<ClassWeights>,
    /// Number of labels of one copy.
    pub(crate) count: usize,
    /// Σ of the weights of these labels; their number without weights.
    pub(crate) share: f64,
}

impl BatchLabels {
    /// The labels of a copy, `copies` times.
    pub(crate) fn new(labels: &[u32], copies: usize, weights: Option<&[f32]>) -> Self {
        let known = || labels.iter().filter(|&&label| label != NO_LABEL);
        let count = known().count();
        let share = weights
            .map_or(count as f64, |weights| known().map(|&label| f64::from(weights[label as usize])).sum());
        Self { labels: labels.repeat(copies).into(), weights: weights.map(ClassWeights::new), count, share }
    }

    /// Its integer lists.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Indices> {
        std::iter::once(&self.labels).chain(self.weights.as_ref().map(ClassWeights::bits))
    }

    /// The same with other lists.
    pub(crate) fn with(&self, lists: &[Indices]) -> Self {
        let weights = lists.get(1).cloned().map(ClassWeights::from_bits);
        Self { labels: lists[0].clone(), weights, ..*self }
    }

    /// The loss of logits, a row for each label, and their cross-entropy.
    pub(crate) fn loss(&self, pass: &Pass<'_>, logits: &Var, options: LossOptions) -> Result<(Var, Tensor)> {
        let LossOptions { label_smoothing, r_drop: weight, is_weighted } = options;
        let options = CrossEntropyOptions { label_smoothing, ignored_id: Some(NO_LABEL) };
        if weight > 0.0 {
            // The two passes of a batch follow each other, with the same labels.
            let options = RDropOptions { weight, cross_entropy: options };
            let once = self.labels.first(self.labels.len() / 2);
            let RDrop { loss, cross_entropy, .. } = r_drop(pass.tape, logits, &once, options)?;
            return Ok((loss, cross_entropy));
        }
        let loss = match &self.weights {
            Some(weights) if is_weighted => {
                weighted_cross_entropy(pass.tape, logits, &self.labels, weights, options)?
            }
            _ => cross_entropy(pass.tape, logits, &self.labels, options)?,
        };
        let value = loss.value().clone();
        Ok((loss, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> LabelCounts {
        [("a", 6), ("b", 3), ("c", 1)].map(|(label, count)| (label.to_owned(), count)).into()
    }

    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        let config = ClassesConfig { weights: Some(ClassWeighting::Rule(WeightRule::Balanced)) };
        let found = weights(&config, &labels()).unwrap().unwrap();
        // compute_class_weight("balanced"): n / (k · n_c).
        let expected = [10.0 / 18.0, 10.0 / 9.0, 10.0 / 3.0];
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6),
            "{found:?}"
        );
    }

    #[test]
    fn a_table_names_labels() {
        let table = |label: &str| ClassesConfig {
            weights: Some(ClassWeighting::Table([(label.to_owned(), 4.0)].into())),
        };
        assert_eq!(weights(&table("b"), &labels()).unwrap(), Some(vec![1.0, 4.0, 1.0]));
        assert_eq!(weights(&ClassesConfig::default(), &labels()).unwrap(), None);
        let error = weights(&table("B"), &labels()).unwrap_err();
        assert_eq!(error.to_string(), "classes.weights: \"B\", expected labels of the training text");
    }

    #[test]
    fn a_batch_counts_its_labels_and_their_weights() {
        let found = BatchLabels::new(&[2, NO_LABEL, 0], 2, Some(&[1.0, 4.0, 0.5]));
        assert_eq!((found.count, found.share, found.labels.len()), (2, 1.5, 6));
        let lists: Vec<Indices> = found.lists().cloned().collect();
        assert_eq!(found.with(&lists).weights, found.weights);
    }
}
