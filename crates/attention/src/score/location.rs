//! The location-based score, s = W·q (Luong, Pham & Manning 2015, section 3.1): positions are scored from the query
//! alone, whatever the keys are.
//!
//! W has a row for each position up to max_len; k_len keys use the first k_len rows. Keys receive no gradient.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, score::Location};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let score = Location::new(&mut Builder::new(&mut parameters).at("score"), 1, 3);
//! let weight = parameters.find("score.weight").expect("just declared");
//! parameters.set(weight, Tensor::new(&[3, 1], vec![7.0, 8.0, 9.0]));
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let query = Var::constant(Tensor::new(&[1, 1, 1], vec![2.0]));
//! let keys = |k_len| Var::constant(Tensor::zeros(&[1, k_len, 5]));
//! assert_eq!(score.scores(&pass, &query, &keys(2))?.value().data(), [14.0, 16.0]);
//! assert!(score.scores(&pass, &query, &keys(4)).is_err());
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::ops::shape::slice;
use polyhead_tensor::{Init, ParameterId, Result, Var};

use super::sizes;
use crate::builder::Builder;
use crate::pass::Pass;

/// The location-based score.
#[derive(Debug, Clone)]
pub struct Location {
    weight: ParameterId,
    max_len: usize,
}

impl Location {
    /// Declares `weight` (W).
    pub fn new(builder: &mut Builder<'_>, d_query: usize, max_len: usize) -> Self {
        Self {
            weight: builder.declare("weight", &[max_len, d_query], Init::Xavier { d_out: max_len }),
            max_len,
        }
    }

    /// Query (batch × q_len × d_query) and key (batch × k_len × any) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match or there are more than max_len keys.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        let [_, _, k_len] = sizes("location", query, key)?;
        if k_len > self.max_len {
            return shape("location", "key", key.shape(), format!("at most {} keys", self.max_len));
        }
        let weight = slice(pass.tape, &pass.parameter(self.weight), 0, 0..k_len)?;
        linear(pass.tape, query, &weight, None, LinearOptions::default())
    }
}
