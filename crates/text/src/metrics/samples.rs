//! The scores of resampled corpora, in the arithmetic of sacreBLEU on NumPy 2.
//!
//! sacreBLEU sums the statistics of a sample in single precision, and NumPy computes in single precision whatever a
//! single-precision number is part of. The last digits matter: a p-value counts the samples beyond a threshold.

use super::Metric;
use super::Statistics;

/// The score of one sample, in the precision that NumPy gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleScore {
    /// Single precision.
    Single(f32),
    /// Double precision.
    Double(f64),
}

/// The scores of all samples: an array of single precision only if every score is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SampleScores {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl SampleScores {
    pub(super) fn new(scores: &[SampleScore]) -> Self {
        let single = |score: &SampleScore| match *score {
            SampleScore::Single(score) => Some(score),
            SampleScore::Double(_) => None,
        };
        let double = |score: &SampleScore| match *score {
            SampleScore::Single(score) => f64::from(score),
            SampleScore::Double(score) => score,
        };
        match scores.iter().map(single).collect() {
            Some(scores) => Self::Single(scores),
            None => Self::Double(scores.iter().map(double).collect()),
        }
    }

    /// The scores in double precision.
    pub(super) fn doubles(&self) -> Vec<f64> {
        match self {
            Self::Single(scores) => scores.iter().copied().map(f64::from).collect(),
            Self::Double(scores) => scores.clone(),
        }
    }

    /// The scores in ascending order.
    pub(super) fn sorted(mut self) -> Self {
        match &mut self {
            Self::Single(scores) => scores.sort_by(f32::total_cmp),
            Self::Double(scores) => scores.sort_by(f64::total_cmp),
        }
        self
    }

    /// `numpy.mean`.
    pub(super) fn mean(&self) -> f64 {
        match self {
            Self::Single(scores) => f64::from(pairwise_sum(scores, 0.0) / scores.len() as f32),
            Self::Double(scores) => pairwise_sum(scores, 0.0) / scores.len() as f64,
        }
    }

    /// The mean as Python's `statistics.mean`, which sacreBLEU uses for one system: without rounding on the way.
    pub(super) fn exact_mean(&self) -> f64 {
        let scores = self.doubles();
        self.rounded(scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// `number` in the precision of the scores.
    pub(super) fn rounded(&self, number: f64) -> f64 {
        match self {
            Self::Single(_) => to_single(number),
            Self::Double(_) => number,
        }
    }

    /// |self − other|, sample by sample.
    pub(super) fn distances(&self, other: &Self) -> Self {
        if let (Self::Single(a), Self::Single(b)) = (self, other) {
            Self::Single(a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect())
        } else {
            let (a, b) = (self.doubles(), other.doubles());
            Self::Double(a.iter().zip(b).map(|(a, b)| (a - b).abs()).collect())
        }
    }

    /// Number of scores that exceed their mean by more than `threshold`.
    pub(super) fn above_mean_by(&self, threshold: f64) -> usize {
        let mean = self.mean();
        match self {
            Self::Single(scores) => {
                scores.iter().filter(|&&score| score - mean as f32 > threshold as f32).count()
            }
            Self::Double(scores) => scores.iter().filter(|&&score| score - mean > threshold).count(),
        }
    }
}

impl Statistics {
    /// The sum over the sentences at `indices`, in single precision, one after the other.
    pub(super) fn single_total_of(&self, indices: &[u32]) -> Vec<f32> {
        let mut total = vec![0.0; self.width];
        for &index in indices {
            for (sum, &value) in total.iter_mut().zip(self.row(index as usize)) {
                *sum += value as f32;
            }
        }
        total
    }

    /// The score of the sample that has the sentences at `indices`.
    pub(super) fn sample_score(&self, metric: &dyn Metric, indices: &[u32]) -> SampleScore {
        metric.sample_score(&self.single_total_of(indices))
    }
}

/// The arithmetic of rounding every result to single precision.
pub(super) fn to_single(number: f64) -> f64 {
    f64::from(number as f32)
}

/// NumPy's sum of a contiguous array: eight interleaved sums per block of 128, blocks added in pairs.
fn pairwise_sum<T: Copy + std::ops::Add<Output = T>>(numbers: &[T], zero: T) -> T {
    const BLOCK: usize = 128;
    if numbers.len() < 8 {
        return numbers.iter().fold(zero, |sum, &number| sum + number);
    }
    if numbers.len() > BLOCK {
        let half = numbers.len() / 2;
        let (left, right) = numbers.split_at(half - half % 8);
        return pairwise_sum(left, zero) + pairwise_sum(right, zero);
    }
    let (eights, rest) = numbers.as_chunks::<8>();
    let mut sums = eights[0];
    for eight in &eights[1..] {
        for (sum, &number) in sums.iter_mut().zip(eight) {
            *sum = *sum + number;
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(sum, |sum, &number| sum + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy.mean of 1 / (1 + i) in single precision, for lengths around the blocks of the sum.
    #[test]
    fn means_equal_numpy_in_single_precision() {
        let known = [
            (5, 0x4236_aaaa),
            (8, 0x4207_e492),
            (77, 0x40cc_c77e),
            (128, 0x4087_d424),
            (129, 0x4086_f7d0),
            (1000, 0x3f3f_a0c8),
            (4003, 0x3e62_f4e1),
        ];
        for (len, bits) in known {
            let scores: Vec<SampleScore> =
                (0..len).map(|i| SampleScore::Single(100.0 / (1.0 + i as f32))).collect();
            let mean = SampleScores::new(&scores).mean();
            assert_eq!((mean as f32).to_bits(), bits, "{len} numbers: {mean}");
        }
    }

    #[test]
    fn one_score_of_double_precision_makes_all_double() {
        let scores = SampleScores::new(&[SampleScore::Single(0.1), SampleScore::Double(0.0)]);
        assert_eq!(scores, SampleScores::Double(vec![f64::from(0.1_f32), 0.0]));
    }
}
