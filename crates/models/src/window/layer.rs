//! The hidden layer of a fixed-window network over tokens x₁ … x_w.
//!
//! One-hot tokens, a weight matrix for each position: h = act(Σᵢ Wᵢ[xᵢ]). A one-hot vector selects a row, and as one row of
//! each matrix is always selected, the rows include the bias. Embedded tokens: h = act(W·[E(x₁) … E(x_w)] + b).

use polyhead_attention::layers::{Dropout, Embedding, Linear};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::Var;
use polyhead_tensor::ops::elementwise::{add, gelu, gelu_tanh, quick_gelu, relu, sigmoid, silu, tanh};
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::ops::shape::split;
use serde::{Deserialize, Serialize};

use crate::ids::Ids;
use crate::transformer::validate;
use crate::{Error, Result};

/// The representation of a token at the input of the hidden layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowInput {
    /// A one-hot vector of the vocabulary, with a weight matrix for each position of the window.
    OneHot,
    /// A learned embedding, shared by all positions.
    #[default]
    Embedding,
}

/// Sizes and options of the layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WindowOptions {
    pub(crate) vocab_size: usize,
    /// Number of tokens.
    pub(crate) window: usize,
    pub(crate) input: WindowInput,
    /// Width of an embedding; unused with one-hot tokens.
    pub(crate) d_model: usize,
    /// Width of the hidden layer.
    pub(crate) d_ff: usize,
    pub(crate) activation: Activation,
    /// Dropout probability of the hidden layer.
    pub(crate) dropout: f32,
    pub(crate) pad_id: u32,
}

impl WindowOptions {
    /// Activations of one window, in elements.
    pub(crate) fn activation_elements(&self) -> usize {
        let &Self { window, d_model, d_ff, .. } = self;
        match self.input {
            WindowInput::OneHot => (window + 1) * d_ff,
            WindowInput::Embedding => window * d_model + d_ff,
        }
    }

    /// All problems of these options.
    pub(crate) fn problems(&self) -> Vec<String> {
        let &Self { vocab_size, window, d_model, d_ff, dropout, pad_id, .. } = self;
        let sizes = [("vocab_size", vocab_size), ("window", window), ("d_model", d_model), ("d_ff", d_ff)];
        let mut problems = Vec::new();
        for (name, size) in sizes {
            validate::size(name, size, &mut problems);
        }
        validate::dropout("dropout", dropout, &mut problems);
        validate::token("pad_id", pad_id, vocab_size, &mut problems);
        if self.input == WindowInput::OneHot && problems.is_empty() {
            validate::size("window · vocab_size", window.saturating_mul(vocab_size), &mut problems);
        }
        problems
    }
}

/// The hidden layer of a fixed-window network.
#[derive(Debug, Clone)]
pub(crate) struct WindowLayer {
    options: WindowOptions,
    tokens: Tokens,
}

#[derive(Debug, Clone)]
enum Tokens {
    /// The matrices of all positions, one below the other: (window · vocab_size) × d_ff.
    OneHot(Embedding),
    Embedded {
        embedding: Embedding,
        hidden: Linear,
    },
}

impl WindowLayer {
    /// Declares the parameters.
    pub(crate) fn new(builder: &mut Builder<'_>, options: WindowOptions) -> Self {
        let WindowOptions { vocab_size, window, d_model, d_ff, .. } = options;
        let tokens = match options.input {
            WindowInput::OneHot => {
                Tokens::OneHot(Embedding::new(&mut builder.at("one_hot"), window * vocab_size, d_ff))
            }
            WindowInput::Embedding => Tokens::Embedded {
                embedding: Embedding::new(&mut builder.at("embedding"), vocab_size, d_model),
                hidden: Linear::new(&mut builder.at("hidden"), window * d_model, d_ff),
            },
        };
        Self { options, tokens }
    }

    /// Windows as input of [`Self::forward`]: each row is padded to the window; `None` is a row of padding.
    pub(crate) fn ids<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>) -> Ids {
        let WindowOptions { vocab_size, window, pad_id, .. } = self.options;
        let ids = Ids::padded_to(rows, window, pad_id);
        if matches!(self.tokens, Tokens::Embedded { .. }) {
            return ids;
        }
        // Position i looks up row i·vocab_size + id; an id outside the vocabulary stays outside the table.
        let at = |(index, &id): (usize, &u32)| {
            let is_known = (id as usize) < vocab_size;
            if is_known { (index % window * vocab_size) as u32 + id } else { u32::MAX }
        };
        let rows: Vec<u32> = ids.ids().host().iter().enumerate().map(at).collect();
        ids.with(rows.into(), ids.lengths().clone())
    }

    /// The hidden layer: rows × d_ff.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the rows do not have the length of the window.
    pub(crate) fn forward(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let WindowOptions { window, d_model, activation, dropout, .. } = self.options;
        if ids.length() != window {
            let message = format!("rows of {} tokens, expected the window of {window}", ids.length());
            return Err(Error::Request { message });
        }
        let look_up =
            |table: &Embedding| table.forward(pass, ids.ids(), window, &EmbeddingOptions::default());
        match &self.tokens {
            Tokens::OneHot(table) => {
                let x = look_up(table)?;
                let [rows, width] = [x.shape()[0], x.shape()[2]];
                let mut parts = split(pass.tape, &x, 1, &vec![1; window])?.into_iter();
                let first = parts.next().expect("a window has at least one token");
                let sum = parts.try_fold(first, |sum, part| add(pass.tape, &sum, &part))?;
                let x = activated(pass, activation, &sum.reshaped(&[rows, width]));
                Ok(Dropout::new(dropout).forward(pass, &x)?)
            }
            Tokens::Embedded { embedding, hidden } => {
                let x = look_up(embedding)?.reshaped(&[ids.rows(), window * d_model]);
                Ok(hidden.forward_with(pass, &x, LinearOptions { activation, dropout })?)
            }
        }
    }
}

fn activated(pass: &Pass<'_>, activation: Activation, x: &Var) -> Var {
    let tape = pass.tape;
    match activation {
        Activation::None => x.clone(),
        Activation::Relu => relu(tape, x),
        Activation::Gelu => gelu(tape, x),
        Activation::GeluTanh => gelu_tanh(tape, x),
        Activation::QuickGelu => quick_gelu(tape, x),
        Activation::Silu => silu(tape, x),
        Activation::Tanh => tanh(tape, x),
        Activation::Sigmoid => sigmoid(tape, x),
    }
}
