//! Approximate randomisation (Riezler & Maxwell 2005, *On some pitfalls in automatic evaluation and significance testing
//! for MT*): the significance of the difference of two systems, without assumptions about the distribution of scores.
//!
//! A trial exchanges the outputs of the two systems for each sentence with probability ½ and scores both mixtures:
//!
//! ```text
//! p = (1 + #{ trials with |d*| > |d| }) / (1 + trials)
//! ```
//!
//! where d is the difference of the corpus scores and d* that of a trial. Random numbers are sacreBLEU's, so the same
//! seed gives the same p-values.

use polyhead_random::numpy::Pcg64;
use rayon::prelude::*;

use super::significance::{SystemComparison, p_value};
use super::{Metric, Statistics};

/// Number of drawn bits held in memory at once.
const BLOCK_DRAWS: usize = 1 << 20;

/// Options of approximate randomisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Randomization {
    /// Number of trials; default: 10000.
    pub trials: usize,
    /// Random seed; default: 12345.
    pub seed: u64,
}

impl Default for Randomization {
    fn default() -> Self {
        Self { trials: 10_000, seed: 12345 }
    }
}

impl Randomization {
    /// The comparison of each of the systems with the baseline.
    pub(super) fn compare(
        &self,
        metric: &dyn Metric,
        baseline: &Statistics,
        systems: &[Statistics],
    ) -> Vec<SystemComparison> {
        let baseline_score = baseline.score(metric);
        let comparisons = systems.iter().map(|system| {
            let difference = system.score(metric) - baseline_score;
            let distances = self.distances(metric, baseline, system);
            // For two systems that never differ sacreBLEU's strict comparison would count no trial: p is 1 instead.
            let same = distances.iter().all(|&distance| distance == 0.0);
            let beyond = distances.iter().filter(|&&distance| same || distance > difference.abs()).count();
            SystemComparison { difference, p_value: p_value(beyond, self.trials), interval: None }
        });
        comparisons.collect()
    }

    /// |d*| of each trial.
    fn distances(&self, metric: &dyn Metric, baseline: &Statistics, system: &Statistics) -> Vec<f64> {
        let len = baseline.len();
        let mut generator = Pcg64::new(self.seed);
        let mut bits = generator.bits();
        let mut distances = Vec::with_capacity(self.trials);
        let block = (BLOCK_DRAWS / len).max(1);
        while distances.len() < self.trials {
            let n_trials = block.min(self.trials - distances.len());
            let is_own: Vec<bool> = bits.by_ref().take(n_trials * len).collect();
            distances.par_extend(is_own.par_chunks(len).map(|is_own| {
                let [first, second] = mixtures(baseline, system, is_own);
                (metric.score(&first) - metric.score(&second)).abs()
            }));
        }
        distances
    }
}

/// The sums of both mixtures: the first has the baseline's sentences where `is_own` holds, the second the others.
fn mixtures(baseline: &Statistics, system: &Statistics, is_own: &[bool]) -> [Vec<f64>; 2] {
    let mut sums = [vec![0.0; baseline.width], vec![0.0; baseline.width]];
    for (index, &is_own) in is_own.iter().enumerate() {
        let [first, second] = &mut sums;
        let (for_baseline, for_system) = if is_own { (first, second) } else { (second, first) };
        for (sum, value) in for_baseline.iter_mut().zip(baseline.row(index)) {
            *sum += value;
        }
        for (sum, value) in for_system.iter_mut().zip(system.row(index)) {
            *sum += value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::Accuracy;
    use super::*;

    /// Two systems that differ in six sentences, all in favour of one: |d*| reaches |d| in 2 of 2⁶ trials and exceeds it
    /// in none; where they differ three to three, in all but the 20 of 64 trials that exchange evenly.
    #[test]
    fn p_values_of_few_sentences() {
        let accuracy = Accuracy::default();
        let references = [vec!["a"; 12]];
        let statistics = |right: std::ops::Range<usize>| {
            let lines: Vec<&str> =
                (0..12).map(|line| if right.contains(&line) { "a" } else { "b" }).collect();
            Statistics::collect(&accuracy, &lines, &references).unwrap()
        };
        let randomization = Randomization::default();
        let p = |system| randomization.compare(&accuracy, &statistics(0..6), &[system])[0].p_value;
        assert_eq!(p(statistics(0..0)), 1.0 / 10_001.0);
        let found = p(statistics(3..9));
        assert!((found - 44.0 / 64.0).abs() < 5.0 * (0.6875_f64 * 0.3125 / 10_000.0).sqrt(), "{found}");
    }
}
