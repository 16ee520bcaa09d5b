//! A fixed-window language model: a hidden layer over the last `window` tokens, and a softmax over the vocabulary.
//!
//! p(x_t | x_{t−w} … x_{t−1}) = softmax(U·h + d). With embedded tokens it is the network of Bengio et al. 2003, without direct
//! connections from the input to the output. Before the beginning there are start tokens.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Init, ParameterId, Parameters, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::layer::{WindowInput, WindowLayer, WindowOptions};
use crate::ids::Ids;
use crate::transformer::config::activation_name;
use crate::transformer::validate;
use crate::{Error, Result};

/// The config of a fixed-window language model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowLanguageModelConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Number of preceding tokens that the model reads; default: 4.
    pub window: usize,
    /// Input of the hidden layer: `embedding` or `one_hot`; default: `embedding`.
    pub input: WindowInput,
    /// Width of an embedding; unused with one-hot input; default: 64.
    pub d_model: usize,
    /// Width of the hidden layer; default: 256.
    pub d_ff: usize,
    /// Activation of the hidden layer; default: tanh, as in Bengio et al. 2003.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Dropout probability of the hidden layer in training; default: 0.
    pub dropout: f32,
    /// Longest row of packed text in training, in tokens; default: 1024. Generation has no limit.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id that ends a sequence.
    pub end_id: u32,
    /// Id that a sequence starts from; as many as the window holds.
    pub start_id: u32,
}

impl Default for WindowLanguageModelConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            window: 4,
            input: WindowInput::Embedding,
            d_model: 64,
            d_ff: 256,
            activation: Activation::Tanh,
            dropout: 0.0,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
        }
    }
}

impl WindowLanguageModelConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = self.options().problems();
        validate::size("max_len", self.max_len, &mut problems);
        for (name, id) in [("end_id", self.end_id), ("start_id", self.start_id)] {
            validate::token(name, id, self.vocab_size, &mut problems);
        }
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

/// A fixed-window language model.
#[derive(Debug, Clone)]
pub struct WindowLanguageModel {
    config: WindowLanguageModelConfig,
    layer: WindowLayer,
    output: Embedding,
    output_bias: ParameterId,
}

impl WindowLanguageModel {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &WindowLanguageModelConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &WindowLanguageModelConfig { vocab_size, d_ff, .. } = config;
        Ok(Self {
            layer: WindowLayer::new(&mut builder, config.options()),
            output: Embedding::new(&mut builder.at("output"), vocab_size, d_ff),
            output_bias: builder.at("output").declare("bias", &[vocab_size], Init::Zeros),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &WindowLanguageModelConfig {
        &self.config
    }

    /// The windows of all positions of all rows: (rows · length) × window.
    pub(crate) fn ids<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>, length: usize) -> Ids {
        let WindowLanguageModelConfig { window, start_id, .. } = self.config;
        let mut windows: Vec<Option<Vec<u32>>> = Vec::new();
        for row in rows.map(Option::unwrap_or_default) {
            let before = vec![start_id; window - 1];
            let padded = [&before[..], row].concat();
            windows.extend(padded.windows(window).map(|window| Some(window.to_vec())));
            windows.resize(windows.len() + length - row.len(), None);
        }
        self.layer.ids(windows.iter().map(Option::as_deref))
    }

    /// The hidden layer: rows of `ids` × d_ff.
    pub(crate) fn hidden(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let hidden = self.layer.forward(pass, ids)?;
        pass.capture.activation(|| "hidden".into(), &hidden);
        Ok(hidden)
    }

    /// The output layer and its bias.
    pub(crate) fn output(&self) -> (&Embedding, Option<ParameterId>) {
        (&self.output, Some(self.output_bias))
    }

    /// The state after `prompts`, of which the last token is left to the first step.
    pub(crate) fn start(&self, prompts: &[&[u32]]) -> WindowState {
        let WindowLanguageModelConfig { window, start_id, .. } = self.config;
        let context = |prompt: &&[u32]| {
            let padded = [&vec![start_id; window][..], prompt].concat();
            padded[padded.len() - window..].to_vec()
        };
        WindowState { windows: prompts.iter().map(context).collect() }
    }

    /// Appends a text to each row.
    pub(crate) fn extend(&self, state: &mut WindowState, texts: &[&[u32]]) {
        let window = self.config.window;
        for (own, text) in state.windows.iter_mut().zip(texts) {
            let all = [own.as_slice(), text].concat();
            *own = all[all.len() - window..].to_vec();
        }
    }

    /// Appends one token to each row and returns the logits of the next: rows × vocab_size.
    pub(crate) fn step(&self, pass: &Pass<'_>, state: &mut WindowState, tokens: &[u32]) -> Result<Tensor> {
        for (window, &token) in state.windows.iter_mut().zip(tokens) {
            window.rotate_left(1);
            if let Some(last) = window.last_mut() {
                *last = token;
            }
        }
        let ids = self.layer.ids(state.windows.iter().map(|window| Some(window.as_slice())));
        let hidden = self.hidden(pass, &ids.to_device(&pass.parameters.device())?)?;
        let logits = self.output.step_logits(pass, &hidden, Some(self.output_bias))?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits.value().clone())
    }
}

/// The last tokens of each row.
#[derive(Debug, Clone)]
pub struct WindowState {
    windows: Vec<Vec<u32>>,
}

impl WindowState {
    /// Replaces row i by row `rows[i]`.
    pub(crate) fn reorder(&mut self, rows: &[usize]) {
        self.windows = rows.iter().map(|&row| self.windows[row].clone()).collect();
    }

    /// Appends the rows of another state.
    pub(crate) fn join(&mut self, other: Self) {
        self.windows.extend(other.windows);
    }

    /// The state of one row.
    pub(crate) fn row(&self, row: usize) -> Self {
        Self { windows: vec![self.windows[row].clone()] }
    }
}
