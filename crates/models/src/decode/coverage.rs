//! The coverage penalty: a finished translation pays for source tokens that it paid little attention to.
//!
//! cp = β · Σ_i log min(Σ_t a_ti, 1), added to the score (Wu et al. 2016, equation 14). a_ti is the weight of source
//! token i when target token t was chosen: the mean over the heads of the last decoder layer.
//!
//! ```
//! use polyhead_models::decode::coverage::coverage_penalty;
//! assert_eq!(coverage_penalty(0.2, &[1.0, 1.7]), 0.0); // all was looked at
//! assert!((coverage_penalty(0.2, &[1.7, 0.5]) - 0.2 * 0.5_f64.ln()).abs() < 1e-12);
//! ```

use super::path::Path;
use super::rows::Scores;
use crate::{Error, Result};

/// The penalty for `coverage`, the sum of the weights of each source token; 0 or less.
pub fn coverage_penalty(beta: f64, coverage: &[f64]) -> f64 {
    if beta == 0.0 {
        return 0.0;
    }
    // A weight can vanish in float32; its logarithm stays finite.
    let seen = |sum: &f64| sum.clamp(f64::from(f32::MIN_POSITIVE), 1.0).ln();
    beta * coverage.iter().map(seen).sum::<f64>()
}

/// Adds the weights of a row's step to what its hypothesis has looked at.
pub(super) fn look(path: &mut Path, scores: &Scores<'_>, row: usize, source_length: usize) -> Result<()> {
    let message = "a coverage penalty for a model that shows no attention to its source";
    let weights = scores.attention(row).ok_or_else(|| Error::Request { message: message.into() })?;
    path.coverage.resize(source_length, 0.0);
    for (sum, &weight) in path.coverage.iter_mut().zip(weights) {
        *sum += f64::from(weight);
    }
    Ok(())
}
