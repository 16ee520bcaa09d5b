//! A feed-forward network over a fixed window of tokens (Bengio et al. 2003): the concatenated embeddings of the last
//! `window` tokens, a hidden layer, class scores. It ignores tokens before the window.
//!
//! h = act(W·[E(x₁) … E(x_w)] + b); shorter sequences are padded, and padding has an embedding of its own.

use polyhead_attention::layers::{Embedding, Linear};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use crate::ids::Ids;
use crate::transformer::config::activation_name;
use crate::{Error, Result};

/// The config of a fixed-window network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Number of trailing tokens that the model reads; default: 3.
    pub window: usize,
    /// Width of an embedding; default: 32.
    pub d_model: usize,
    /// Width of the hidden layer; default: 64.
    pub d_ff: usize,
    /// Activation of the hidden layer; default: ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Dropout probability of the hidden layer in training; default: 0.
    pub dropout: f32,
    /// Longest sequence in tokens; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for WindowEncoderConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            window: 3,
            d_model: 32,
            d_ff: 64,
            activation: Activation::Relu,
            dropout: 0.0,
            max_len: 1024,
            pad_id: 0,
            labels: Vec::new(),
        }
    }
}

impl WindowEncoderConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("window", self.window),
            ("d_model", self.d_model),
            ("d_ff", self.d_ff),
            ("max_len", self.max_len),
            ("labels", self.labels.len()),
        ];
        let mut problems = Vec::new();
        for (name, size) in sizes {
            crate::transformer::validate::size(name, size, &mut problems);
        }
        if !(0.0..1.0).contains(&self.dropout) {
            problems.push(format!("dropout is {}, expected at least 0 and below 1", self.dropout));
        }
        if self.pad_id as usize >= self.vocab_size {
            let limit = self.vocab_size;
            problems
                .push(format!("pad_id is {}, expected an id below the vocabulary size {limit}", self.pad_id));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }
}

/// A fixed-window network: concatenated embeddings, a hidden layer, class scores.
#[derive(Debug, Clone)]
pub struct WindowEncoder {
    config: WindowEncoderConfig,
    embedding: Embedding,
    hidden: Linear,
    classes: Linear,
}

impl WindowEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &WindowEncoderConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &WindowEncoderConfig { vocab_size, window, d_model, d_ff, .. } = config;
        Ok(Self {
            embedding: Embedding::new(&mut builder.at("embedding"), vocab_size, d_model),
            hidden: Linear::new(&mut builder.at("hidden"), window * d_model, d_ff),
            classes: Linear::new(&mut builder.at("classes"), d_ff, config.labels.len()),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &WindowEncoderConfig {
        &self.config
    }

    /// The hidden layer: rows × d_ff.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the rows do not have the length of the window.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let WindowEncoderConfig { window, d_model, activation, dropout, .. } = self.config;
        if ids.length() != window {
            let message = format!("rows of {} tokens, expected the window of {window}", ids.length());
            return Err(Error::Request { message });
        }
        let x = self.embedding.forward(pass, ids.ids(), window, &EmbeddingOptions::default())?;
        let x = x.reshaped(&[ids.rows(), window * d_model]);
        let pooled = self.hidden.forward_with(pass, &x, LinearOptions { activation, dropout })?;
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// The output layer, which maps the hidden layer to class logits.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}
