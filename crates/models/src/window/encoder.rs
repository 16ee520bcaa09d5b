//! A fixed-window network with class scores: a hidden layer over the last `window` tokens of a text. It ignores tokens
//! before the window; shorter sequences are padded, and padding has weights of its own.

use polyhead_attention::layers::Linear;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use super::layer::{WindowInput, WindowLayer, WindowOptions};
use crate::ids::Ids;
use crate::transformer::config::activation_name;
use crate::transformer::validate;
use crate::{Error, Result};

/// The config of a fixed-window network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Number of trailing tokens that the model reads; default: 3.
    pub window: usize,
    /// Input of the hidden layer: `embedding` or `one_hot`; default: `embedding`.
    pub input: WindowInput,
    /// Width of an embedding; unused with one-hot input; default: 32.
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
            input: WindowInput::Embedding,
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
        let mut problems = self.options().problems();
        validate::size("max_len", self.max_len, &mut problems);
        validate::size("labels", self.labels.len(), &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Activations of one window, in elements.
    pub(crate) fn activation_elements(&self) -> usize {
        self.options().activation_elements()
    }

    /// The options of the hidden layer.
    fn options(&self) -> WindowOptions {
        let &Self { vocab_size, window, input, d_model, d_ff, activation, dropout, pad_id, .. } = self;
        WindowOptions { vocab_size, window, input, d_model, d_ff, activation, dropout, pad_id }
    }
}

/// A fixed-window network with class scores.
#[derive(Debug, Clone)]
pub struct WindowEncoder {
    config: WindowEncoderConfig,
    layer: WindowLayer,
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
        Ok(Self {
            layer: WindowLayer::new(&mut builder, config.options()),
            classes: Linear::new(&mut builder.at("classes"), config.d_ff, config.labels.len()),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &WindowEncoderConfig {
        &self.config
    }

    /// Sequences of at most `window` tokens as a batch; `None` is a row of padding.
    pub(crate) fn ids<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>) -> Ids {
        self.layer.ids(rows)
    }

    /// The hidden layer: rows × d_ff.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the rows do not have the length of the window.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let pooled = self.layer.forward(pass, ids)?;
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// The output layer, which maps the hidden layer to class logits.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}
