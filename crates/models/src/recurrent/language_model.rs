//! A recurrent language model: embeddings, RNN, GRU or LSTM layers, and a softmax over the vocabulary (Mikolov et al. 2010,
//! Zaremba, Sutskever & Vinyals 2014).
//!
//! The state is all that it knows of the text before, so a text has no maximum length, and generating a token takes the
//! same time at any position. In training the state starts from zeros with each row of packed text.

use polyhead_attention::layers::{Dropout, Embedding};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::shape::concat;
use polyhead_tensor::{Device, Indices, Init, ParameterId, Parameters, Tape, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::config::Cell;
use super::stack::{Encoded, RecurrentStack, StackOptions};
use super::state::gathered;
use super::{check_ids, embed};
use crate::ids::Ids;
use crate::transformer::validate;
use crate::{Error, Result};

/// The config of a recurrent language model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecurrentLanguageModelConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// The cell of every layer: `rnn`, `rnn_relu`, `gru` or `lstm`; default: `lstm`.
    pub cell: Cell,
    /// Number of layers; default: 2.
    pub n_layers: usize,
    /// Width of embeddings; default: 512.
    pub d_embedding: usize,
    /// Width of the states; default: 512.
    pub d_model: usize,
    /// True if each layer but the first adds its input to its output; default: false.
    pub residual: bool,
    /// True if the output layer is the embedding table; default: true.
    pub tie_output: bool,
    /// Dropout probability in training, of embeddings, between layers and before the output layer; default: 0.3.
    pub dropout: f32,
    /// Longest row of packed text in training, in tokens; default: 1024. Generation has no limit.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id that ends a sequence.
    pub end_id: u32,
    /// Id that a sequence starts from.
    pub start_id: u32,
}

impl Default for RecurrentLanguageModelConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            cell: Cell::Lstm,
            n_layers: 2,
            d_embedding: 512,
            d_model: 512,
            residual: false,
            tie_output: true,
            dropout: 0.3,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
        }
    }
}

impl RecurrentLanguageModelConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = self.options().problems(self.vocab_size);
        validate::size("max_len", self.max_len, &mut problems);
        for (name, id) in [("pad_id", self.pad_id), ("end_id", self.end_id), ("start_id", self.start_id)] {
            validate::token(name, id, self.vocab_size, &mut problems);
        }
        let &Self { d_embedding, d_model, .. } = self;
        if self.tie_output && d_embedding != d_model {
            problems.push(format!(
                "tie_output shares the embedding (width d_embedding {d_embedding}) with the output layer (width d_model \
                 {d_model}), expected equal widths or tie_output = false"
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Activations of one token that a training step stores, in elements.
    pub(crate) fn activation_elements(&self) -> usize {
        self.options().activation_elements() + 2 * self.vocab_size
    }

    /// A human-readable description, as (label, text).
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let output = if self.tie_output { "tied to the embeddings" } else { "a table of its own" };
        let residual = if self.residual { "from each layer to the next" } else { "none" };
        vec![
            ("layers", self.options().describe()),
            ("residual", residual.into()),
            ("embeddings", format!("width {}", self.d_embedding)),
            ("output", output.into()),
            ("vocabulary", format!("{} ids", self.vocab_size)),
        ]
    }

    fn options(&self) -> StackOptions {
        let &Self { cell, n_layers, d_embedding, d_model, residual, dropout, .. } = self;
        let (name, bidirectional) = ("decoder", false);
        StackOptions { name, cell, n_layers, bidirectional, d_embedding, d_model, residual, dropout }
    }
}

/// A recurrent language model.
#[derive(Debug, Clone)]
pub struct RecurrentLanguageModel {
    config: RecurrentLanguageModelConfig,
    embedding: Embedding,
    stack: RecurrentStack,
    output: Embedding,
    output_bias: ParameterId,
}

impl RecurrentLanguageModel {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &RecurrentLanguageModelConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &RecurrentLanguageModelConfig { vocab_size, d_embedding, d_model, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_embedding);
        let output = if config.tie_output {
            embedding.clone()
        } else {
            Embedding::new(&mut builder.at("output"), vocab_size, d_model)
        };
        Ok(Self {
            embedding,
            stack: RecurrentStack::new(&mut builder, &config.options()),
            output,
            output_bias: builder.at("output").declare("bias", &[vocab_size], Init::Zeros),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &RecurrentLanguageModelConfig {
        &self.config
    }

    /// The states of the last layer at every position, row by row: (rows · length) × d_model.
    pub(crate) fn hidden(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let found = self.run(pass, ids, None)?;
        let hidden = Dropout::new(self.config.dropout).forward(pass, &found.states)?;
        Ok(hidden.reshaped(&[ids.rows() * ids.length(), self.config.d_model]))
    }

    /// The output layer and its bias.
    pub(crate) fn output(&self) -> (&Embedding, Option<ParameterId>) {
        (&self.output, Some(self.output_bias))
    }

    fn run(&self, pass: &Pass<'_>, ids: &Ids, before: Option<&[Var]>) -> Result<Encoded> {
        let &RecurrentLanguageModelConfig { d_embedding, dropout, .. } = &self.config;
        let x = embed(pass, (&self.embedding, d_embedding), (ids.ids(), ids.length()), dropout)?;
        pass.capture.activation(|| "decoder.embedding".into(), &x);
        Ok(self.stack.forward(pass, &x, Some(ids.lengths()), before)?)
    }

    /// The state after `prompts`, of which the last token is left to the first step.
    pub(crate) fn start(&self, pass: &Pass<'_>, prompts: &[&[u32]]) -> Result<RecurrentTextState> {
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        let mut state = RecurrentTextState { layers: None, parents: None, rows: prompts.len() };
        if longest > 0 {
            self.extend(pass, &mut state, prompts)?;
        }
        Ok(state)
    }

    /// Appends a text to each row; one of them is not empty.
    pub(crate) fn extend(
        &self,
        pass: &Pass<'_>,
        state: &mut RecurrentTextState,
        texts: &[&[u32]],
    ) -> Result<()> {
        let device = pass.parameters.device();
        for text in texts {
            check_ids(text, self.config.vocab_size)?;
        }
        state.follow_parents(&device)?;
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let ids = Ids::padded_to(texts.iter().copied().map(Some), longest, self.config.pad_id);
        let found = self.run(pass, &ids.to_device(&device)?, state.layers.as_deref())?;
        state.layers = Some(found.last);
        Ok(())
    }

    /// Appends one token to each row and returns the logits of the next: rows × vocab_size.
    pub(crate) fn step(
        &self,
        pass: &Pass<'_>,
        state: &mut RecurrentTextState,
        tokens: &[u32],
    ) -> Result<Tensor> {
        check_ids(tokens, self.config.vocab_size)?;
        let device = pass.parameters.device();
        state.follow_parents(&device)?;
        let ids = Ids::padded_to(tokens.chunks(1).map(Some), 1, self.config.pad_id).to_device(&device)?;
        let found = self.run(pass, &ids, state.layers.as_deref())?;
        state.layers = Some(found.last);
        let hidden = found.states.reshaped(&[tokens.len(), self.config.d_model]);
        let logits = self.output.step_logits(pass, &hidden, Some(self.output_bias))?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits.value().clone())
    }
}

/// The state of each layer after the tokens so far.
#[derive(Debug, Clone)]
pub struct RecurrentTextState {
    /// h and c of each layer, rows × (n_states · d_model); `None`: zeros.
    layers: Option<Vec<Var>>,
    /// Rows of the previous step that the next one continues; `None`: all, in order.
    parents: Option<Vec<usize>>,
    /// Number of rows.
    rows: usize,
}

impl RecurrentTextState {
    /// The state of one row.
    pub(crate) fn row(&self, row: usize, device: &Device) -> Result<Self> {
        let mut one = self.clone();
        one.reorder(&[row]);
        one.follow_parents(device)?;
        Ok(one)
    }

    fn follow_parents(&mut self, device: &Device) -> Result<()> {
        if let (Some(parents), Some(layers)) = (self.parents.take(), &mut self.layers) {
            let rows: Indices = parents.iter().map(|&row| row as u32).collect();
            let rows = rows.to_device(device)?;
            for layer in layers {
                *layer = gathered(layer, &rows)?;
            }
        }
        Ok(())
    }

    /// Appends the rows of another state.
    pub(crate) fn join(&mut self, mut other: Self, device: &Device) -> Result<()> {
        self.follow_parents(device)?;
        other.follow_parents(device)?;
        let (rows, more) = (self.rows, other.rows);
        self.rows += more;
        let ([Some(widths), _] | [None, Some(widths)]) = [&self.layers, &other.layers].map(|layers| {
            layers.as_ref().map(|layers| layers.iter().map(|layer| layer.shape()[1]).collect::<Vec<_>>())
        }) else {
            return Ok(());
        };
        let or_zeros = |layers: Option<Vec<Var>>, rows: usize| {
            let zeros = |&width: &usize| Ok(Var::constant(Tensor::zeros(&[rows, width]).to_device(device)?));
            layers.map_or_else(|| widths.iter().map(zeros).collect::<Result<Vec<Var>>>(), Ok)
        };
        let own: Vec<Var> = or_zeros(self.layers.take(), rows)?;
        let theirs: Vec<Var> = or_zeros(other.layers.take(), more)?;
        let tape = Tape::inference();
        let joined = own.iter().zip(&theirs).map(|(own, other)| concat(&tape, &[own, other], 0));
        self.layers = Some(joined.collect::<polyhead_tensor::Result<_>>()?);
        Ok(())
    }

    /// Replaces row i by row `rows[i]`, at the next step.
    pub(crate) fn reorder(&mut self, rows: &[usize]) {
        self.rows = rows.len();
        self.parents = Some(match self.parents.take() {
            None => rows.to_vec(),
            Some(before) => rows.iter().map(|&row| before[row]).collect(),
        });
    }
}
