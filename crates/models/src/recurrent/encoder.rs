//! A recurrent classifier: embeddings, RNN, GRU or LSTM layers in one or both directions, their last state or the mean of
//! their states, class scores.
//!
//! The last state has read the whole sequence, but through one vector: what came early may be forgotten.

use polyhead_attention::layers::{Dropout, Embedding, Linear, Pooling};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::shape::slice;
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use super::config::Cell;
use super::embed;
use super::stack::{RecurrentStack, StackOptions};
use crate::ids::Ids;
use crate::transformer::validate;
use crate::{Error, Result};

/// The state that the classes are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatePooling {
    /// The state after the last token; of the backward direction, that after the first.
    #[default]
    Last,
    /// The mean of the states of all tokens.
    Mean,
}

/// The config of a recurrent classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// The cell of every layer: `rnn`, `rnn_relu`, `gru` or `lstm`; default: `lstm`.
    pub cell: Cell,
    /// Number of layers; default: 1.
    pub n_layers: usize,
    /// True if each layer reads in both directions, with half of d_model for each; default: false.
    pub bidirectional: bool,
    /// Width of embeddings; default: 64.
    pub d_embedding: usize,
    /// Width of the states; default: 128.
    pub d_model: usize,
    /// The state that the classes are computed from: `last` or `mean`; default: `last`.
    pub pooling: StatePooling,
    /// Dropout probability in training, of embeddings, between layers and of the pooled state; default: 0.
    pub dropout: f32,
    /// Longest sequence in tokens; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for RecurrentEncoderConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            cell: Cell::Lstm,
            n_layers: 1,
            bidirectional: false,
            d_embedding: 64,
            d_model: 128,
            pooling: StatePooling::Last,
            dropout: 0.0,
            max_len: 1024,
            pad_id: 0,
            labels: Vec::new(),
        }
    }
}

impl RecurrentEncoderConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = self.options().problems(self.vocab_size);
        validate::size("max_len", self.max_len, &mut problems);
        validate::size("labels", self.labels.len(), &mut problems);
        validate::token("pad_id", self.pad_id, self.vocab_size, &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Activations of one token that a training step stores, in elements.
    pub(crate) fn activation_elements(&self) -> usize {
        self.options().activation_elements()
    }

    /// A human-readable description, as (label, text).
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let pooling = match self.pooling {
            StatePooling::Last => "the last state",
            StatePooling::Mean => "the mean of all states",
        };
        vec![
            ("encoder", self.options().describe()),
            ("embeddings", format!("width {}", self.d_embedding)),
            ("pooling", pooling.into()),
            ("vocabulary", format!("{} ids", self.vocab_size)),
            ("labels", self.labels.join(", ")),
        ]
    }

    fn options(&self) -> StackOptions {
        let &Self { cell, n_layers, bidirectional, d_embedding, d_model, dropout, .. } = self;
        let (name, residual) = ("encoder", false);
        StackOptions { name, cell, n_layers, bidirectional, d_embedding, d_model, residual, dropout }
    }
}

/// A recurrent classifier.
#[derive(Debug, Clone)]
pub struct RecurrentEncoder {
    config: RecurrentEncoderConfig,
    embedding: Embedding,
    encoder: RecurrentStack,
    classes: Linear,
}

impl RecurrentEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &RecurrentEncoderConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &RecurrentEncoderConfig { vocab_size, d_embedding, d_model, .. } = config;
        Ok(Self {
            embedding: Embedding::new(&mut builder.at("embedding"), vocab_size, d_embedding),
            encoder: RecurrentStack::new(&mut builder, &config.options()),
            classes: Linear::new(&mut builder.at("classes"), d_model, config.labels.len()),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &RecurrentEncoderConfig {
        &self.config
    }

    /// The pooled state: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let &RecurrentEncoderConfig { dropout, d_embedding, d_model, .. } = &self.config;
        let x = embed(pass, (&self.embedding, d_embedding), (ids.ids(), ids.length()), dropout)?;
        pass.capture.activation(|| "encoder.embedding".into(), &x);
        let found = self.encoder.forward(pass, &x, Some(ids.lengths()), None)?;
        let pooled = match (self.config.pooling, found.last.last()) {
            (StatePooling::Last, Some(last)) => slice(pass.tape, last, 1, 0..d_model)?,
            _ => Pooling::Mean.forward(pass, &found.states, ids.lengths())?,
        };
        let pooled = Dropout::new(dropout).forward(pass, &pooled)?;
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// The output layer, which maps the pooled state to class logits.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}
