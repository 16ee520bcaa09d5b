//! The additive score, s = vᵀ·tanh(W·q + U·k) (Bahdanau, Cho & Bengio 2015, appendix A.1.2).
//!
//! A small network for each pair of query and key; the backward pass stores batch × q_len × k_len × d_hidden activations.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, score::Additive};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let score = Additive::new(&mut Builder::new(&mut parameters).at("score"), [1, 1], 1);
//! for (name, shape, value) in [("weight", &[1, 1][..], 1.0), ("key_weight", &[1, 1], 2.0), ("vector", &[1], 3.0)] {
//!     let id = parameters.find(&format!("score.{name}")).expect("just declared");
//!     parameters.set(id, Tensor::new(shape, vec![value]));
//! }
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let [query, key] = [0.5, 0.25].map(|number| Var::constant(Tensor::new(&[1, 1, 1], vec![number])));
//! let scores = score.scores(&pass, &query, &key)?;
//! assert!((scores.value().data()[0] - 3.0 * 1_f32.tanh()).abs() < 1e-6);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::elementwise::{add, tanh};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Init, ParameterId, Result, Var};

use super::sizes;
use crate::builder::Builder;
use crate::pass::Pass;

/// The additive score: a network with one hidden layer.
#[derive(Debug, Clone)]
pub struct Additive {
    weight: ParameterId,
    key_weight: ParameterId,
    vector: ParameterId,
    d_hidden: usize,
}

impl Additive {
    /// Declares `weight` (W), `key_weight` (U) and `vector` (v).
    pub fn new(builder: &mut Builder<'_>, [d_query, d_key]: [usize; 2], d_hidden: usize) -> Self {
        let init = Init::Xavier { d_out: d_hidden };
        Self {
            weight: builder.declare("weight", &[d_hidden, d_query], init),
            key_weight: builder.declare("key_weight", &[d_hidden, d_key], init),
            vector: builder.declare("vector", &[d_hidden], Init::Xavier { d_out: 1 }),
            d_hidden,
        }
    }

    /// Query (batch × q_len × d_query) and key (batch × k_len × d_key) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        let [batch, q_len, k_len] = sizes("additive", query, key)?;
        let project =
            |x: &Var, weight| linear(pass.tape, x, &pass.parameter(weight), None, LinearOptions::default());
        let query = project(query, self.weight)?.reshaped(&[batch, q_len, 1, self.d_hidden]);
        let key = project(key, self.key_weight)?.reshaped(&[batch, 1, k_len, self.d_hidden]);
        let hidden = tanh(pass.tape, &add(pass.tape, &query, &key)?);
        let vector = pass.parameter(self.vector).reshaped(&[1, self.d_hidden]);
        let scores = linear(pass.tape, &hidden, &vector, None, LinearOptions::default())?;
        Ok(scores.reshaped(&[batch, q_len, k_len]))
    }
}
