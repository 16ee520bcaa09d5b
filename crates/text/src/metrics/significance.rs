//! Paired tests: the significance of the difference between systems and a baseline, scored against the same references.
//!
//! ```
//! use polyhead_text::metrics::{Bleu, PairedTest, Statistics};
//! let bleu = Bleu::default();
//! let references = [vec!["The cat sat on the mat.", "It slept."]];
//! let statistics = |lines: [&str; 2]| Statistics::collect(&bleu, &lines, &references);
//! let baseline = statistics(["The cat sat on a mat.", "It slept."])?;
//! let system = statistics(["The cat sat on the mat.", "It slept."])?;
//! let results = PairedTest::default().compare(&bleu, &baseline, &[system])?;
//! assert!(results.systems[0].difference > 0.0);
//! # Ok::<(), polyhead_text::Error>(())
//! ```

use super::bootstrap::{Bootstrap, Interval};
use super::randomization::Randomization;
use super::{Metric, Statistics};
use crate::{Error, Result};

/// A paired test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairedTest {
    /// Paired bootstrap resampling. The default, with 1000 samples.
    Bootstrap(Bootstrap),
    /// Paired approximate randomisation.
    Randomization(Randomization),
}

impl Default for PairedTest {
    fn default() -> Self {
        Self::Bootstrap(Bootstrap::default())
    }
}

/// The results of a paired test.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedResults {
    /// The baseline's corpus score.
    pub baseline_score: f64,
    /// The baseline's interval; only of bootstrap resampling.
    pub baseline_interval: Option<Interval>,
    /// The comparison of each system with the baseline.
    pub systems: Vec<SystemComparison>,
}

/// Comparison of a system with a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemComparison {
    /// The system's corpus score less the baseline's.
    pub difference: f64,
    /// Probability of a difference this large between two equally good systems.
    pub p_value: f64,
    /// The system's interval; only of bootstrap resampling.
    pub interval: Option<Interval>,
}

impl PairedTest {
    /// Compares each of `systems` with `baseline`.
    ///
    /// # Errors
    /// If there are no samples or trials, or the numbers of sentences differ.
    pub fn compare(
        &self,
        metric: &dyn Metric,
        baseline: &Statistics,
        systems: &[Statistics],
    ) -> Result<PairedResults> {
        let baseline_score = baseline.score(metric);
        Ok(match self {
            Self::Bootstrap(bootstrap) => {
                check_counts(bootstrap.samples, baseline, systems)?;
                let (interval, systems) = bootstrap.compare(metric, baseline, systems);
                PairedResults { baseline_score, baseline_interval: Some(interval), systems }
            }
            Self::Randomization(randomization) => {
                check_counts(randomization.trials, baseline, systems)?;
                let systems = randomization.compare(metric, baseline, systems);
                PairedResults { baseline_score, baseline_interval: None, systems }
            }
        })
    }

    /// Settings as (key, value), in the order of the signature.
    pub(super) fn settings(&self) -> [(&'static str, String); 2] {
        match self {
            Self::Bootstrap(Bootstrap { samples, seed }) => {
                [("bs", samples.to_string()), ("seed", seed.to_string())]
            }
            Self::Randomization(Randomization { trials, seed }) => {
                [("ar", trials.to_string()), ("seed", seed.to_string())]
            }
        }
    }
}

/// The p-value for `beyond` of `n` samples or trials beyond the difference found.
pub(super) fn p_value(beyond: usize, n: usize) -> f64 {
    (beyond + 1) as f64 / (n + 1) as f64
}

/// Error if there are no samples, or systems have other numbers of sentences than the baseline.
pub(super) fn check_counts(samples: usize, baseline: &Statistics, systems: &[Statistics]) -> Result<()> {
    if samples == 0 {
        return Err(Error::Option {
            name: "samples",
            found: "0".into(),
            expected: "at least 1".into(),
            hint: "the default is 1000 samples, or 10000 trials of approximate randomisation".into(),
        });
    }
    match systems.iter().find(|system| system.len() != baseline.len()) {
        Some(system) => Err(Error::LineCounts {
            source_path: "system".into(),
            target_path: "baseline".into(),
            source_lines: system.len() as u64,
            target_lines: baseline.len() as u64,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::super::Accuracy;
    use super::*;

    #[test]
    fn a_system_never_differs_from_itself() {
        let accuracy = Accuracy::default();
        let statistics = Statistics::collect(&accuracy, &["a", "b", "c"], &[vec!["a", "b", "x"]]).unwrap();
        for test in [PairedTest::default(), PairedTest::Randomization(Randomization::default())] {
            let results = test.compare(&accuracy, &statistics, std::slice::from_ref(&statistics)).unwrap();
            assert_eq!((results.systems[0].difference, results.systems[0].p_value), (0.0, 1.0));
        }
    }

    #[test]
    fn counts_must_agree() {
        let accuracy = Accuracy::default();
        let two = Statistics::collect(&accuracy, &["a", "b"], &[vec!["a", "b"]]).unwrap();
        let one = Statistics::collect(&accuracy, &["a"], &[vec!["a"]]).unwrap();
        let error = PairedTest::default().compare(&accuracy, &two, &[one]).unwrap_err();
        assert_eq!(error.to_string(), "system has 1 lines, baseline has 2: expected the same number");
    }
}
