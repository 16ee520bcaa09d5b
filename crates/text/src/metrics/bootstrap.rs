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
//! where d is the difference of the corpus scores and d* that of a sample. Estimators, random numbers and arithmetic are
//! sacreBLEU's, so the same seed gives the same intervals and p-values.

use polyhead_random::numpy::Pcg64;
use rayon::prelude::*;

use super::samples::{SampleScore, SampleScores};
use super::significance::{SystemComparison, check_counts, p_value};
use super::{Metric, Statistics};
use crate::Result;

/// Number of draws held in memory at once.
const BLOCK_DRAWS: usize = 1 << 20;

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

impl Bootstrap {
    /// Scores of the samples.
    pub fn scores(&self, metric: &dyn Metric, statistics: &Statistics) -> Vec<f64> {
        self.sample_scores(metric, statistics).doubles()
    }

    /// Confidence interval of a corpus score.
    pub fn interval(&self, metric: &dyn Metric, statistics: &Statistics) -> Result<Interval> {
        check_counts(self.samples, statistics, &[])?;
        let scores = self.sample_scores(metric, statistics);
        let mean = scores.exact_mean();
        Ok(Interval { mean, ..Interval::of(scores) })
    }

    /// The baseline's interval, and the comparison of each of the systems with it.
    pub(super) fn compare(
        &self,
        metric: &dyn Metric,
        baseline: &Statistics,
        systems: &[Statistics],
    ) -> (Interval, Vec<SystemComparison>) {
        let baseline_scores = self.sample_scores(metric, baseline);
        let baseline_score = baseline.score(metric);
        let comparisons = systems.iter().map(|system| {
            let scores = self.sample_scores(metric, system);
            let difference = system.score(metric) - baseline_score;
            let distances = scores.distances(&baseline_scores);
            // For two systems that never differ sacreBLEU's strict comparison would count no sample: p is 1 instead.
            let same = distances.doubles().iter().all(|&distance| distance == 0.0);
            let beyond = if same { self.samples } else { distances.above_mean_by(difference.abs()) };
            let interval = Some(Interval::of(scores));
            SystemComparison { difference, p_value: p_value(beyond, self.samples), interval }
        });
        let comparisons = comparisons.collect();
        (Interval::of(baseline_scores), comparisons)
    }

    fn sample_scores(&self, metric: &dyn Metric, statistics: &Statistics) -> SampleScores {
        let len = statistics.len();
        let mut generator = Pcg64::new(self.seed);
        let mut scores: Vec<SampleScore> = Vec::with_capacity(self.samples);
        let block = (BLOCK_DRAWS / len).max(1);
        while scores.len() < self.samples {
            let n_samples = block.min(self.samples - scores.len());
            let draws: Vec<u32> = (0..n_samples * len).map(|_| generator.below(len as u32)).collect();
            scores.par_extend(draws.par_chunks(len).map(|draws| statistics.sample_score(metric, draws)));
        }
        SampleScores::new(&scores)
    }
}

impl Interval {
    fn of(scores: SampleScores) -> Self {
        let scores = scores.sorted();
        let (mean, values) = (scores.mean(), scores.doubles());
        let cut = values.len() / 40;
        let (lower, upper) = (values[cut], values[values.len() - cut - 1]);
        Self { mean, half_width: 0.5 * scores.rounded(upper - lower), lower, upper }
    }
}

#[cfg(test)]
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
}
