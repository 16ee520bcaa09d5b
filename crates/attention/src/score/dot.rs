//! The dot product, s = qᵀ·k (Luong, Pham & Manning 2015, section 3.1): no parameters, equal widths of query and key.
//!
//! ```
//! use polyhead_attention::{Capture, Pass, score::Dot};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let (tape, parameters, capture) = (Tape::inference(), Parameters::default(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! // Keys A A B A with A = [1, 0] and B = [0, 1]; the query is B.
//! let key = Var::constant(Tensor::new(&[1, 4, 2], vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]));
//! let query = Var::constant(Tensor::new(&[1, 1, 2], vec![0.0, 1.0]));
//! assert_eq!(Dot.scores(&pass, &query, &key)?.value().data(), [0.0, 0.0, 1.0, 0.0]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::{Result, Var};

use super::products;
use crate::pass::Pass;

/// The dot product of query and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dot;

impl Dot {
    /// Query (batch × q_len × d) and key (batch × k_len × d) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        products(pass.tape, "dot", query, key)
    }
}
