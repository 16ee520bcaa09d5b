//! The additive score, s = vᵀ·tanh(W·q + U·k) (Bahdanau, Cho & Bengio 2015, appendix A.1.2).
//!
//! A small network for each pair of query and key, whose activations are never stored.
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

use polyhead_tensor::ops::additive::additive_scores;
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
}

impl Additive {
    /// Declares `weight` (W), `key_weight` (U) and `vector` (v).
    pub fn new(builder: &mut Builder<'_>, [d_query, d_key]: [usize; 2], d_hidden: usize) -> Self {
        let init = Init::Xavier { d_out: d_hidden };
        Self {
            weight: builder.declare("weight", &[d_hidden, d_query], init),
            key_weight: builder.declare("key_weight", &[d_hidden, d_key], init),
            vector: builder.declare("vector", &[d_hidden], Init::Xavier { d_out: 1 }),
        }
    }

    /// Query (batch × q_len × d_query) and key (batch × k_len × d_key) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        sizes("additive", query, key)?;
        self.compare(pass, query, &self.keys(pass, key)?)
    }

    /// U·k, which all queries share: batch × k_len × d_hidden.
    pub(super) fn keys(&self, pass: &Pass<'_>, key: &Var) -> Result<Var> {
        linear(pass.tape, key, &pass.parameter(self.key_weight), None, LinearOptions::default())
    }

    /// The scores of queries with projected keys.
    pub(super) fn compare(&self, pass: &Pass<'_>, query: &Var, keys: &Var) -> Result<Var> {
        let query = linear(pass.tape, query, &pass.parameter(self.weight), None, LinearOptions::default())?;
        additive_scores(pass.tape, &query, keys, &pass.parameter(self.vector))
    }
}
