//! The content-based score, s = β·cos(q, k) = β·qᵀ·k/(|q|·|k|) (Graves, Wayne & Danihelka 2014, section 3.3.1).
//!
//! The sharpness β compensates for the cosine's range of [−1, 1]: the larger it is, the more peaked the weights.
//!
//! ```
//! use polyhead_attention::{Capture, Pass, score::Cosine};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let (tape, parameters, capture) = (Tape::inference(), Parameters::default(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let query = Var::constant(Tensor::new(&[1, 1, 2], vec![3.0, 4.0]));
//! let key = Var::constant(Tensor::new(&[1, 2, 2], vec![6.0, 8.0, 5.0, 0.0]));
//! let scores = Cosine { sharpness: 10.0 }.scores(&pass, &query, &key)?;
//! assert!((scores.value().data()[0] - 10.0).abs() < 1e-5 && (scores.value().data()[1] - 6.0).abs() < 1e-5);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::norm::NormOptions;
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::{Result, Tensor, Var};

use super::products;
use crate::pass::Pass;

/// Added to the mean square of a vector, so that a zero vector has a cosine of 0 with all others.
const EPSILON: f32 = 1e-12;

/// The content-based (cosine) score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cosine {
    /// β, the factor of the cosine; default: 1.
    pub sharpness: f32,
}

impl Default for Cosine {
    fn default() -> Self {
        Self { sharpness: 1.0 }
    }
}

impl Cosine {
    /// Query (batch × q_len × d) and key (batch × k_len × d) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        self.compare(pass, query, &Self::keys(pass, key)?)
    }

    /// Keys of norm 1, which all queries share.
    pub(super) fn keys(pass: &Pass<'_>, key: &Var) -> Result<Var> {
        with_norm(pass, key, 1.0)
    }

    /// The scores of queries with keys of norm 1.
    pub(super) fn compare(self, pass: &Pass<'_>, query: &Var, keys: &Var) -> Result<Var> {
        products(pass.tape, "cosine", &with_norm(pass, query, self.sharpness)?, keys)
    }
}

/// Rescales vectors to the norm `length`: x/|x| = x / (root mean square of x · √d).
fn with_norm(pass: &Pass<'_>, x: &Var, length: f32) -> Result<Var> {
    let d = x.shape().last().copied().unwrap_or(1);
    let gamma = Tensor::new(&[d], vec![length / (d as f32).sqrt(); d]);
    let gamma = Var::constant(gamma.to_device(&x.value().device())?);
    rms_norm(pass.tape, x, None, &gamma, NormOptions { epsilon: EPSILON, dropout: 0.0 })
}
