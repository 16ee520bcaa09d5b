//! The scaled dot product, s = qᵀ·k/√d (Vaswani et al. 2017, section 3.2.1).
//!
//! Dot products of d components of unit variance have variance d; divided by √d they keep softmax out of saturation.
//!
//! ```
//! use polyhead_attention::{Capture, Pass, score::ScaledDot};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let (tape, parameters, capture) = (Tape::inference(), Parameters::default(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! // Products of 112 and 96 with d = 64: 14 and 12.
//! let query = Var::constant(Tensor::new(&[1, 1, 64], vec![1.0; 64]));
//! let key = Var::constant(Tensor::new(&[1, 2, 64], [[1.75; 64], [1.5; 64]].concat()));
//! assert_eq!(ScaledDot.scores(&pass, &query, &key)?.value().data(), [14.0, 12.0]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::{Result, Var};

use super::products;
use crate::pass::Pass;

/// The dot product of query and key, divided by √d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledDot;

impl ScaledDot {
    /// Query (batch × q_len × d) and key (batch × k_len × d) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        let d = query.shape().last().copied().unwrap_or(1);
        let query = scale(pass.tape, query, 1.0 / (d as f32).sqrt());
        products(pass.tape, "scaled_dot", &query, key)
    }
}
