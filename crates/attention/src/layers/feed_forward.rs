//! The position-wise feed-forward layer: FFN(x) = W₂·act(W₁·x + b₁) + b₂ (Vaswani et al. 2017, section 3.3).
//!
//! ```
//! use polyhead_attention::{Builder, layers::{FeedForward, feed_forward::FeedForwardOptions}};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! let options = FeedForwardOptions { d_model: 512, d_ff: 2048, ..FeedForwardOptions::default() };
//! FeedForward::new(&mut Builder::new(&mut parameters).at("feed_forward"), options);
//! assert_eq!(parameters.count(), 2 * 512 * 2048 + 2048 + 512);
//! ```

use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::{Result, Var};

use super::linear::Linear;
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
}

impl Default for FeedForwardOptions {
    fn default() -> Self {
        Self { d_model: 512, d_ff: 2048, activation: Activation::Relu, dropout: 0.0 }
    }
}

/// Two linear layers with an activation between them.
#[derive(Debug, Clone)]
pub struct FeedForward {
    inner: Linear,
    outer: Linear,
    options: LinearOptions,
}

impl FeedForward {
    /// Declares `inner` (W₁, b₁) and `outer` (W₂, b₂).
    pub fn new(builder: &mut Builder<'_>, options: FeedForwardOptions) -> Self {
        let FeedForwardOptions { d_model, d_ff, activation, dropout } = options;
        Self {
            inner: Linear::new(&mut builder.at("inner"), d_model, d_ff),
            outer: Linear::new(&mut builder.at("outer"), d_ff, d_model),
            options: LinearOptions { activation, dropout },
        }
    }

    /// FFN(x): … × d_model → … × d_model.
    ///
    /// # Errors
    /// If the last axis of x is not d_model.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.outer.forward(pass, &self.inner.forward_with(pass, x, self.options)?)
    }
}
