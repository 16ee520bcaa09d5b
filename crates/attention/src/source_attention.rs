//! Attention of a recurrent decoder to its source, with any score function, over all keys or a window of them.
//!
//! weights = softmax(score(query, key)) over the keys of a sentence, context = Σ weights · values; keys and values are the
//! encoder's states (Bahdanau, Cho & Bengio 2015; Luong, Pham & Manning 2015). What the score needs of the keys is
//! computed once for all steps ([`Memory`]).
//!
//! With coverage (See, Liu & Manning 2017, equation 11) the additive score of a key also depends on the attention that the
//! key has had so far: vᵀ·tanh(W·q + U·k + c·u), c being the sum of its weights in earlier steps.

use polyhead_tensor::ops::elementwise::{add, sigmoid};
use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::ops::masked_softmax::{Locality, masked_softmax};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::shape::concat;
use polyhead_tensor::{Indices, Init, ParameterId, Result, Tensor, Var};

use crate::builder::Builder;
use crate::layers::Linear;
use crate::pass::Pass;
use crate::score::{Score, ScoreOptions};
use crate::site::Site;

/// The keys that a query attends to (Luong, Pham & Manning 2015, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Local {
    /// All keys.
    #[default]
    Global,
    /// Local-m: keys within `distance` of the query's own position.
    Monotonic {
        /// D, in tokens.
        distance: usize,
    },
    /// Local-p: keys within `distance` of the position n·σ(vᵀ·tanh(W·q)), weighted by a Gaussian around it.
    Predictive {
        /// D, in tokens.
        distance: usize,
    },
}

/// Attention from a decoder to its source.
#[derive(Debug, Clone)]
pub struct SourceAttention {
    score: Score,
    local: Local,
    /// W and v of the predicted position.
    position: Option<[Linear; 2]>,
    /// u, with coverage.
    coverage: Option<ParameterId>,
    site: Site,
}

/// The encoder's states as keys and values.
#[derive(Debug, Clone)]
pub struct Memory {
    /// What the score compares with queries: batch × k_len × any.
    pub keys: Var,
    /// The states: batch × k_len × d_value.
    pub values: Var,
    /// Number of keys of each row.
    pub lengths: Indices,
}

impl SourceAttention {
    /// Declares the parameters of the score function, and `position.hidden` and `position.output` for local-p.
    ///
    /// # Errors
    /// If the function needs queries and keys of equal width and their widths differ.
    pub fn new(builder: &mut Builder<'_>, options: ScoreOptions, local: Local, site: Site) -> Result<Self> {
        let score = Score::new(&mut builder.at("score"), options)?;
        let predicts = matches!(local, Local::Predictive { .. });
        let position = predicts.then(|| {
            let d = options.d_query;
            [
                Linear::without_bias(&mut builder.at("position.hidden"), d, &[d]),
                Linear::without_bias(&mut builder.at("position.output"), d, &[1]),
            ]
        });
        Ok(Self { score, local, position, coverage: None, site })
    }

    /// The same with coverage, for an additive score with a hidden layer of `d_hidden`: declares `coverage`.
    #[must_use]
    pub fn with_coverage(self, builder: &mut Builder<'_>, d_hidden: usize) -> Self {
        // Small at first: the scores of a model without coverage.
        let coverage = Some(builder.declare("coverage", &[d_hidden, 1], Init::Xavier { d_out: d_hidden }));
        Self { coverage, ..self }
    }

    /// The memory of a step after those in which its keys had `covered` in sum: batch × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn covered(&self, pass: &Pass<'_>, memory: &Memory, covered: &Var) -> Result<Memory> {
        let Some(coverage) = self.coverage else { return Ok(memory.clone()) };
        let &[batch, k_len] = covered.shape() else { unreachable!("sums of weights have two axes") };
        let column = covered.reshaped(&[batch, k_len, 1]);
        let more = linear(pass.tape, &column, &pass.parameter(coverage), None, LinearOptions::default())?;
        Ok(Memory { keys: add(pass.tape, &memory.keys, &more)?, ..memory.clone() })
    }

    /// Keys and values of encoder states, batch × k_len × d_key.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn memory(&self, pass: &Pass<'_>, states: &Var, lengths: &Indices) -> Result<Memory> {
        Ok(Memory { keys: self.score.keys(pass, states)?, values: states.clone(), lengths: lengths.clone() })
    }

    /// Context (batch × q_len × d_value) and weights (batch × q_len × k_len) of queries (batch × q_len × d_query), the
    /// first of which is at position `start`.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn attend(&self, pass: &Pass<'_>, query: &Var, memory: &Memory, start: usize) -> Result<(Var, Var)> {
        let scores = self.score.compare(pass, query, &memory.keys)?;
        let centre = match &self.position {
            Some([hidden, output]) => {
                let options = LinearOptions { activation: Activation::Tanh, ..LinearOptions::default() };
                let share =
                    sigmoid(pass.tape, &output.forward(pass, &hidden.forward_with(pass, query, options)?)?);
                Some(share.reshaped(&query.shape()[..2]))
            }
            None => None,
        };
        let locality = match (self.local, &centre) {
            (Local::Predictive { distance }, Some(centre)) => Locality::Predictive { distance, centre },
            (Local::Monotonic { distance }, _) => Locality::Monotonic { distance, start },
            _ => Locality::Global,
        };
        let weights = masked_softmax(pass.tape, &scores, &memory.lengths, locality)?;
        let context = matmul(pass.tape, &weights, &memory.values, MatmulOptions::default())?;
        Ok((pass.scale_heads(self.site, context, 1)?, weights))
    }

    /// Records the weights of a pass, given for consecutive queries.
    ///
    /// # Errors
    /// If a device fails.
    pub fn capture(&self, pass: &Pass<'_>, weights: &[Var]) -> Result<()> {
        if !pass.capture.wants(self.site) || weights.is_empty() {
            return Ok(());
        }
        let parts: Vec<&Var> = weights.iter().collect();
        let all: Tensor = concat(pass.tape, &parts, 1)?.value().to_host()?;
        let &[batch, q_len, k_len] = all.shape() else { unreachable!("weights have three axes") };
        pass.capture.weights(self.site, &all.reshaped(&[batch, 1, q_len, k_len]));
        Ok(())
    }
}
