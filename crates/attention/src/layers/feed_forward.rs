//! The position-wise feed-forward layer: FFN(x) = W₂·act(W₁·x + b₁) + b₂ (Vaswani et al. 2017, section 3.3), or with a gate
//! FFN(x) = W₂·(act(W_g·x + b_g) ∘ (W₁·x + b₁)) + b₂ (Shazeer 2020), whose W_g and W₁ are one matrix.
//!
//! ```
//! use polyhead_attention::{Builder, layers::{FeedForward, feed_forward::FeedForwardOptions}};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! let options = FeedForwardOptions { d_model: 512, d_ff: 2048, ..FeedForwardOptions::default() };
//! FeedForward::new(&mut Builder::new(&mut parameters).at("feed_forward"), options);
//! assert_eq!(parameters.count(), 2 * 512 * 2048 + 2048 + 512);
//! ```

use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::gated::gated;
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::{Result, Var};

use super::linear::{Bias, Linear};
use crate::builder::Builder;
use crate::pass::Pass;

/// Sizes and settings of a feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedForwardOptions {
    /// Width of input and output; default: 512.
    pub d_model: usize,
    /// Width of the hidden layer; default: 2048.
    pub d_ff: usize,
    /// Activation of the hidden layer; default: ReLU.
    pub activation: Activation,
    /// Dropout probability after the activation; default: 0.
    pub dropout: f32,
    /// The gate; default: none.
    pub gate: Gate,
    /// Biases; default: present.
    pub bias: Bias,
}

/// The gate of a feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// None.
    #[default]
    Absent,
    /// The activation of a second projection multiplies the first.
    Present,
}

impl Default for FeedForwardOptions {
    fn default() -> Self {
        Self {
            d_model: 512,
            d_ff: 2048,
            activation: Activation::Relu,
            dropout: 0.0,
            gate: Gate::Absent,
            bias: Bias::Present,
        }
    }
}

/// Two linear layers with an activation between them.
#[derive(Debug, Clone)]
pub struct FeedForward {
    inner: Linear,
    outer: Linear,
    options: LinearOptions,
    gate: Gate,
}

impl FeedForward {
    /// Declares `inner` (W₁, b₁; below the rows of a gate, if there is one) and `outer` (W₂, b₂).
    pub fn new(builder: &mut Builder<'_>, options: FeedForwardOptions) -> Self {
        let FeedForwardOptions { d_model, d_ff, activation, dropout, gate, bias } = options;
        let inner = match (gate, bias) {
            (Gate::Absent, bias) => Linear::with(&mut builder.at("inner"), d_model, d_ff, bias),
            (Gate::Present, Bias::Present) => {
                Linear::stacked(&mut builder.at("inner"), d_model, &[d_ff, d_ff])
            }
            (Gate::Present, Bias::Absent) => {
                Linear::without_bias(&mut builder.at("inner"), d_model, &[d_ff, d_ff])
            }
        };
        let outer = Linear::with(&mut builder.at("outer"), d_ff, d_model, bias);
        Self { inner, outer, options: LinearOptions { activation, dropout }, gate }
    }

    /// FFN(x): … × d_model → … × d_model.
    ///
    /// # Errors
    /// If the last axis of x is not d_model.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let hidden = match self.gate {
            Gate::Absent => self.inner.forward_with(pass, x, self.options)?,
            Gate::Present => {
                let both = self.inner.forward(pass, x)?;
                let hidden = gated(pass.tape, &both, self.options.activation)?;
                dropout(pass.tape, &hidden, self.options.dropout)?
            }
        };
        self.outer.forward(pass, &hidden)
    }
}
