//! Length penalties: the sum of log-probabilities is divided by a function of the length, so that long hypotheses are not
//! always worse.
//!
//! ```
//! use polyhead_models::decode::length_penalty::LengthPenalty;
//! assert_eq!(LengthPenalty::Power(1.0).score(-6.0, 3), -2.0); // the mean
//! assert_eq!(LengthPenalty::Wu(1.0).score(-6.0, 7), -3.0); // (5 + 7) / 6 = 2
//! assert_eq!(LengthPenalty::Power(0.0).score(-6.0, 3), -6.0); // the sum
//! ```

/// The divisor for n tokens, the end token included. A larger α favours longer hypotheses; α = 0 leaves the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LengthPenalty {
    /// n^α, as in Hugging Face's `length_penalty` and fairseq's `lenpen`.
    Power(f64),
    /// ((5 + n) / 6)^α (Wu et al. 2016, equation 14).
    Wu(f64),
}

impl Default for LengthPenalty {
    /// The mean log-probability: n¹.
    fn default() -> Self {
        Self::Power(1.0)
    }
}

impl LengthPenalty {
    /// The score of `sum` over `length` tokens.
    pub fn score(self, sum: f64, length: usize) -> f64 {
        let n = length as f64;
        match self {
            Self::Power(alpha) => sum / n.powf(alpha),
            Self::Wu(alpha) => sum / ((5.0 + n) / 6.0).powf(alpha),
        }
    }

    /// The length in `length..=max` at which a constant sum has the highest score.
    pub(super) fn best_length(self, length: usize, max: usize) -> usize {
        let (Self::Power(alpha) | Self::Wu(alpha)) = self;
        if alpha > 0.0 { max } else { length }
    }
}
