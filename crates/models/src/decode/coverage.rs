//! The coverage penalty: a finished translation is penalised for source tokens that received little attention.
//!
//! cp = β · Σ_i log min(Σ_t a_ti, 1), added to the score (Wu et al. 2016, equation 14). a_ti is the attention weight of
//! source token i at target token t, averaged over the heads of the last decoder layer.
//!
//! ```
//! use polyhead_models::decode::coverage::coverage_penalty;
//! assert_eq!(coverage_penalty(0.2, &[1.0, 1.7]), 0.0); // fully covered
//! assert!((coverage_penalty(0.2, &[1.7, 0.5]) - 0.2 * 0.5_f64.ln()).abs() < 1e-12);
//! ```

use super::partial::PartialHypothesis;
use super::rows::Scores;
use crate::{Error, Result};

/// The penalty for `coverage`, the sum of the attention weights of each source token; at most 0.
pub fn coverage_penalty(beta: f64, coverage: &[f64]) -> f64 {
    if beta == 0.0 {
        return 0.0;
    }
    // A weight can underflow to 0 in f32; the clamp keeps its logarithm finite.
    let log = |sum: &f64| sum.clamp(f64::from(f32::MIN_POSITIVE), 1.0).ln();
    beta * coverage.iter().map(log).sum::<f64>()
}

/// Adds the attention weights of a row's step to the coverage of its hypothesis.
pub(super) fn accumulate(
    partial: &mut PartialHypothesis,
    scores: &Scores<'_>,
    row: usize,
    source_length: usize,
) -> Result<()> {
    let message = "a coverage penalty for a model without cross-attention";
    let weights = scores.attention(row).ok_or_else(|| Error::Request { message: message.into() })?;
    partial.coverage.resize(source_length, 0.0);
    for (sum, &weight) in partial.coverage.iter_mut().zip(weights) {
        *sum += f64::from(weight);
    }
    Ok(())
}
