//! The general score, s = qᵀ·W·k (Luong, Pham & Manning 2015, section 3.1), with W of d_query × d_key.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, score::General};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let score = General::new(&mut Builder::new(&mut parameters).at("score"), 2, 3);
//! let weight = parameters.find("score.weight").expect("just declared");
//! parameters.set(weight, Tensor::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let query = Var::constant(Tensor::new(&[1, 1, 2], vec![0.0, 1.0]));
//! let key = Var::constant(Tensor::new(&[1, 2, 3], vec![1.0, 0.0, 0.0, 0.0, 1.0, 1.0]));
//! assert_eq!(score.scores(&pass, &query, &key)?.value().data(), [4.0, 11.0]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::{Init, ParameterId, Result, Var};

use super::products;
use crate::builder::Builder;
use crate::pass::Pass;

/// The general (bilinear) score.
#[derive(Debug, Clone)]
pub struct General {
    weight: ParameterId,
    d_query: usize,
}

impl General {
    /// Declares `weight` (W).
    pub fn new(builder: &mut Builder<'_>, d_query: usize, d_key: usize) -> Self {
        Self {
            weight: builder.declare("weight", &[d_query, d_key], Init::Xavier { d_out: d_query }),
            d_query,
        }
    }

    /// Query (batch × q_len × d_query) and key (batch × k_len × d_key) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        if query.shape().len() != 3 || query.shape()[2] != self.d_query {
            return shape("general", "query", query.shape(), format!("[batch, q_len, {}]", self.d_query));
        }
        let query = matmul(pass.tape, query, &pass.parameter(self.weight), MatmulOptions::default())?;
        products(pass.tape, "general", &query, key)
    }
}
