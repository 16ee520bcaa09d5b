//! Bootstrap resampling (Koehn 2004, *Statistical significance tests for machine translation evaluation*): confidence
//! intervals of a score, and the significance of the difference of two systems.
//!
//! A sample draws as many sentences as the corpus has, with replacement, and is scored from the sum of their
//! statistics. The interval spans the middle 95 % of the sample scores. Two systems are compared on the same samples:
//!
//! ```text
//! p = (1 + #{ samples with |d*| − mean |d*| > |d| }) / (1 + samples)
//! ```
//!
//! where d is the difference of the corpus scores and d* that of a sample. Both are sacreBLEU's estimators; the random
//! numbers are ours, so intervals and p-values agree with its own up to sampling noise.

use polyhead_random::Random;
use rayon::prelude::*;

use super::{Metric, Statistics};
use crate::{Error, Result};

/// Options of bootstrap resampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of samples; default: 1000.
    pub samples: usize,
    /// Random seed; default: 12345.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { samples: 1000, seed: 12345 }
    }
}

/// 95 % confidence interval of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean of the sample scores.
    pub mean: f64,
    /// Half the distance from `lower` to `upper`: the number that sacreBLEU prints after `±`.
    pub half_width: f64,
    /// The score that 2.5 % of the samples fall below.
    pub lower: f64,
    /// The score that 2.5 % of the samples exceed.
    pub upper: f64,
}

/// Comparison of a system with a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemComparison {
    /// The baseline's corpus score.
    pub baseline_score: f64,
    /// The system's corpus score less the baseline's.
    pub difference: f64,
    /// Probability of a difference this large between two equally good systems.
    pub p_value: f64,
    /// The system's interval.
    pub interval: Interval,
    /// The baseline's interval, on the same samples.
    pub baseline_interval: Interval,
}

impl Bootstrap {
    /// Scores of the samples.
    pub fn scores(&self, metric: &dyn Metric, statistics: &Statistics) -> Vec<f64> {
        let len = statistics.len();
        let random = Random::new(self.seed);
        (0..self.samples as u64)
            .into_par_iter()
            .map(|sample| {
                let draws = (0..len as u64).map(|draw| random.stream(sample).below(len, draw));
                metric.score(&statistics.total_of(draws))
            })
            .collect()
    }

    /// Confidence interval of a corpus score.
    pub fn interval(&self, metric: &dyn Metric, statistics: &Statistics) -> Result<Interval> {
        self.check()?;
        Ok(Interval::of(self.scores(metric, statistics)))
    }

    /// Significance of the difference between `system` and `baseline`, both scored against the same references.
    pub fn compare(
        &self,
        metric: &dyn Metric,
        system: &Statistics,
        baseline: &Statistics,
    ) -> Result<SystemComparison> {
        self.check()?;
        if system.len() != baseline.len() {
            return Err(Error::LineCounts {
                source_path: "system".into(),
                target_path: "baseline".into(),
                source_lines: system.len() as u64,
                target_lines: baseline.len() as u64,
            });
        }
        let (scores, baseline_scores) = (self.scores(metric, system), self.scores(metric, baseline));
        let baseline_score = baseline.score(metric);
        let difference = system.score(metric) - baseline_score;
        let distances: Vec<f64> = scores.iter().zip(&baseline_scores).map(|(a, b)| (a - b).abs()).collect();
        let mean = distances.iter().sum::<f64>() / distances.len() as f64;
        // For two systems that never differ sacreBLEU's strict comparison would count no sample: p is 1 instead.
        let same = distances.iter().all(|&distance| distance == 0.0);
        let larger = distances.iter().filter(|&&distance| same || distance - mean > difference.abs()).count();
        Ok(SystemComparison {
            baseline_score,
            difference,
            p_value: (larger + 1) as f64 / (distances.len() + 1) as f64,
            interval: Interval::of(scores),
            baseline_interval: Interval::of(baseline_scores),
        })
    }

    fn check(&self) -> Result<()> {
        if self.samples == 0 {
            return Err(Error::Option {
                name: "samples",
                found: "0".into(),
                expected: "at least 1".into(),
                hint: "the default is 1000".into(),
            });
        }
        Ok(())
    }
}

impl Interval {
    fn of(mut scores: Vec<f64>) -> Self {
        scores.sort_by(f64::total_cmp);
        let cut = scores.len() / 40;
        let (lower, upper) = (scores[cut], scores[scores.len() - cut - 1]);
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        Self { mean, half_width: 0.5 * (upper - lower), lower, upper }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "whole numbers are exact")]
mod tests {
    use super::super::Accuracy;
    use super::*;

    /// The mean of n coin tosses has standard deviation √(p·(1 − p) / n); 1.96 of them make the half width.
    #[test]
    fn the_interval_of_a_proportion() {
        let hypotheses: Vec<&str> = (0..400).map(|i| if i % 5 == 0 { "wrong" } else { "right" }).collect();
        let accuracy = Accuracy::default();
        let statistics = Statistics::collect(&accuracy, &hypotheses, &[vec!["right"; 400]]).unwrap();
        let bootstrap = Bootstrap { samples: 4000, ..Bootstrap::default() };
        let interval = bootstrap.interval(&accuracy, &statistics).unwrap();
        let expected = 100.0 * 1.96 * (0.2 * 0.8 / 400.0_f64).sqrt();
        // Five standard errors: 0.0158 σ for the mean, 0.03 σ for the half width, which moves in steps of 0.25.
        assert!((interval.mean - 80.0).abs() < 0.16, "{interval:?}");
        assert!((interval.half_width - expected).abs() < 0.3 + 0.25, "{interval:?}");
        assert!(interval.lower < 80.0 && 80.0 < interval.upper);
    }

    #[test]
    fn a_system_never_differs_from_itself() {
        let accuracy = Accuracy::default();
        let statistics = Statistics::collect(&accuracy, &["a", "b", "c"], &[vec!["a", "b", "x"]]).unwrap();
        let comparison = Bootstrap::default().compare(&accuracy, &statistics, &statistics).unwrap();
        assert_eq!((comparison.difference, comparison.p_value), (0.0, 1.0));
    }
}
