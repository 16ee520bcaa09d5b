//! The language-model view: models that predict the next token of a sequence, for generation, training and inspection.
//! Their sites call the sequence `text`; their embedding table is `embedding`.
//!
//! Generation treats a prompt as the source of [`NextToken`]: `start` reads all of it except the last token (prefill, in one
//! pass), and the first step appends that one. So greedy decoding, sampling and beam search of [`crate::decode`] run unchanged.
//! Prompts of one batch may have different lengths, and [`LanguageModelDecoding::join`] appends the rows of one state to another
//! while both generate.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{Capture, Intervention, Pass, Sites, Trace};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, ParameterId, Parameters, Tape, Tensor, Var};

use crate::decode::NextToken;
use crate::ids::Ids;
use crate::model::ModelConfig;
use crate::recurrent::RecurrentLanguageModel;
use crate::recurrent::language_model::RecurrentTextState;
use crate::sequence_to_sequence::SpecialIds;
use crate::transformer::decoder::DecoderState;
use crate::transformer::{ResidualStream, TransformerLanguageModel};
use crate::window::WindowLanguageModel;
use crate::window::language_model::WindowState;
use crate::{Error, Result};

/// A language model.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program holds few models and rarely moves them")]
pub enum LanguageModel {
    /// A feed-forward network over a fixed window of tokens.
    Window(WindowLanguageModel),
    /// Recurrent layers.
    Recurrent(RecurrentLanguageModel),
    /// A decoder-only Transformer.
    Transformer(TransformerLanguageModel),
}

impl From<WindowLanguageModel> for LanguageModel {
    fn from(model: WindowLanguageModel) -> Self {
        Self::Window(model)
    }
}

impl From<RecurrentLanguageModel> for LanguageModel {
    fn from(model: RecurrentLanguageModel) -> Self {
        Self::Recurrent(model)
    }
}

impl From<TransformerLanguageModel> for LanguageModel {
    fn from(model: TransformerLanguageModel) -> Self {
        Self::Transformer(model)
    }
}

impl LanguageModel {
    /// Builds the model that `config` describes and declares its parameters.
    ///
    /// # Errors
    /// If the config is invalid, or describes a model that is not a language model.
    pub fn new(config: impl Into<ModelConfig>, parameters: &mut Parameters) -> Result<Self> {
        crate::Model::new(&config.into(), parameters)?.into_language_model()
    }

    /// The config of the model.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Window(model) => model.config().into(),
            Self::Recurrent(model) => model.config().into(),
            Self::Transformer(model) => model.config().into(),
        }
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Window(model) => model.config().vocab_size,
            Self::Recurrent(model) => model.config().vocab_size,
            Self::Transformer(model) => model.config().vocab_size,
        }
    }

    /// The special ids of the model. A sequence starts from `start_id`, which is not predicted.
    pub fn special_ids(&self) -> SpecialIds {
        match self {
            Self::Window(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
            Self::Recurrent(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
            Self::Transformer(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
        }
    }

    /// Longest sequence in tokens, prompt included; `None` if there is no limit.
    pub fn max_len(&self) -> Option<usize> {
        match self {
            Self::Window(_) | Self::Recurrent(_) => None,
            Self::Transformer(model) => model.max_len(),
        }
    }

    /// The most bytes that a row of a [`LanguageModelState`] takes in CPU memory while it grows to `length` tokens.
    pub fn state_bytes(&self, length: usize) -> usize {
        match self {
            Self::Window(model) => model.config().window * size_of::<u32>() + ROW_BYTES,
            Self::Recurrent(model) => {
                // h and c of each layer, and a copy of both while rows are reordered.
                let config = model.config();
                4 * config.n_layers * config.d_model * size_of::<f32>() + ROW_BYTES
            }
            Self::Transformer(model) => model.state_bytes(length) + ROW_BYTES,
        }
    }

    /// Number of preceding tokens that a prediction depends on; `None` if it depends on all.
    pub fn context(&self) -> Option<usize> {
        match self {
            Self::Window(model) => Some(model.config().window),
            Self::Recurrent(_) | Self::Transformer(_) => None,
        }
    }

    /// The attention layers; empty for a model without attention.
    pub fn sites(&self) -> Sites {
        match self {
            Self::Window(_) | Self::Recurrent(_) => Sites::default(),
            Self::Transformer(model) => model.sites(),
        }
    }

    /// Sequences as input of the model, padded to `length` tokens; `None` is a row of padding.
    ///
    /// # Panics
    /// If a row has more than `length` tokens.
    pub fn ids<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>, length: usize) -> Ids {
        match self {
            Self::Window(model) => model.ids(rows, length),
            Self::Recurrent(_) | Self::Transformer(_) => {
                Ids::padded_to(rows, length, self.special_ids().pad_id)
            }
        }
    }

    /// The input of the output layer at every position of [`Self::ids`], row by row: (rows · length) × width.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn hidden(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        match self {
            Self::Window(model) => model.hidden(pass, ids),
            Self::Recurrent(model) => model.hidden(pass, ids),
            Self::Transformer(model) => model.hidden(pass, ids),
        }
    }

    /// The output layer and its bias.
    fn output(&self) -> (&Embedding, Option<ParameterId>) {
        match self {
            Self::Window(model) => model.output(),
            Self::Recurrent(model) => model.output(),
            Self::Transformer(model) => model.output(),
        }
    }

    /// Logits of the token after each position of [`Self::ids`], row by row: (rows · length) × vocab_size.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        self.logits(pass, &self.hidden(pass, ids)?)
    }

    /// Logits of rows of [`Self::hidden`]: rows × vocab_size. Those of a row do not depend on the others.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn logits(&self, pass: &Pass<'_>, hidden: &Var) -> Result<Var> {
        let (output, bias) = self.output();
        let logits = output.logits(pass, hidden, bias)?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }

    /// True if layers add to a residual stream, which can be read after each.
    pub fn has_residual_stream(&self) -> bool {
        matches!(self, Self::Transformer(_))
    }

    /// True if a logit is the sum of what the layers add to the residual stream: in a pre-norm model.
    pub fn has_logit_sum(&self) -> bool {
        matches!(self, Self::Transformer(model) if model.is_pre_norm())
    }

    /// The residual stream of one text, from what a pass over it captured with all activations.
    ///
    /// # Errors
    /// If the model is not a decoder-only Transformer, or activations were not captured.
    pub fn residual_stream(&self, trace: &Trace) -> Result<ResidualStream<'_>> {
        let found = match self {
            Self::Transformer(model) => return model.residual_stream(trace),
            Self::Window(_) => "a window language model, which has one layer",
            Self::Recurrent(_) => "a recurrent language model, whose layers are no sum",
        };
        let hint = "its next-token probabilities can be inspected";
        Err(Error::View { found, expected: "a decoder-only Transformer", hint })
    }

    /// Mean cross-entropy of the tokens `expected` after each position of [`Self::ids`]. A scalar.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let hidden = self.hidden(pass, ids)?;
        match self.fused(pass) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &hidden, weight: &weight, bias: bias.as_ref() };
                Ok(output_cross_entropy(pass.tape, layer, expected, options)?)
            }
            None => Ok(cross_entropy(pass.tape, &self.logits(pass, &hidden)?, expected, options)?),
        }
    }

    /// The R-Drop loss of two passes with different dropout: `ids` hold all rows for the first pass, then all rows again
    /// for the second; `expected` has the ids of one pass.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn r_drop_loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        expected: &Indices,
        options: RDropOptions,
    ) -> Result<RDrop> {
        let hidden = self.hidden(pass, ids)?;
        match self.fused(pass) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &hidden, weight: &weight, bias: bias.as_ref() };
                Ok(output_r_drop(pass.tape, layer, expected, options)?)
            }
            None => Ok(r_drop(pass.tape, &self.logits(pass, &hidden)?, expected, options)?),
        }
    }

    /// Weight and bias of an output layer that is fused with its loss; `None` if the logits are wanted.
    fn fused(&self, pass: &Pass<'_>) -> Option<(Var, Option<Var>)> {
        let (output, bias) = self.output();
        output.output(pass, bias).filter(|_| !pass.capture.wants_activations())
    }
}

/// Bytes of a row beside its tokens and states, such as the heads of its lists.
const ROW_BYTES: usize = 1024;

/// The state of generation: the tokens, states or K/V cache that the next prediction depends on.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a batch")]
pub enum LanguageModelState {
    /// The last tokens of each row.
    Window(WindowState),
    /// The state of each layer.
    Recurrent(RecurrentTextState),
    /// The K/V cache.
    Transformer(DecoderState),
}

/// A language model with its parameters, ready to generate. Sources are prompts: the start token and text.
#[derive(Debug, Clone, Copy)]
pub struct LanguageModelDecoding<'a> {
    /// The model.
    pub model: &'a LanguageModel,
    /// The values of its parameters.
    pub parameters: &'a Parameters,
    /// Captured weights and activations.
    pub capture: &'a Capture,
    /// Changes to heads and layers; default: none.
    pub intervention: Option<&'a Intervention>,
}

impl<'a> LanguageModelDecoding<'a> {
    /// A model without an intervention.
    pub const fn new(model: &'a LanguageModel, parameters: &'a Parameters, capture: &'a Capture) -> Self {
        Self { model, parameters, capture, intervention: None }
    }

    /// Appends the rows of `other` to those of `state`: from now on they are stepped together, with the same results as apart.
    /// [`NextToken::reorder`] drops rows.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the states are not those of one model.
    pub fn join(&self, state: &mut LanguageModelState, other: LanguageModelState) -> Result<()> {
        match (state, other) {
            (LanguageModelState::Window(state), LanguageModelState::Window(other)) => state.join(other),
            (LanguageModelState::Transformer(state), LanguageModelState::Transformer(other)) => {
                state.join(&other);
            }
            (LanguageModelState::Recurrent(state), LanguageModelState::Recurrent(other)) => {
                state.join(other, &self.parameters.device())?;
            }
            _ => panic!("the states of one model"),
        }
        Ok(())
    }

    pub(crate) fn with_pass<T>(&self, work: impl FnOnce(&Pass<'_>) -> Result<T>) -> Result<T> {
        let tape = Tape::inference();
        let intervention = self.intervention;
        work(&Pass { intervention, ..Pass::new(&tape, self.parameters, self.capture) })
    }
}

impl NextToken for LanguageModelDecoding<'_> {
    type State = LanguageModelState;

    /// Reads every prompt except its last token.
    fn start(&self, prompts: &[&[u32]], n_rows: usize) -> Result<LanguageModelState> {
        let read = prompts
            .iter()
            .map(|prompt| prompt.split_last().map(|(_, before)| before))
            .collect::<Option<Vec<&[u32]>>>()
            .ok_or_else(|| Error::Request {
                message: "an empty prompt, expected at least one token".into(),
            })?;
        self.read(&read, n_rows)
    }

    fn first_token(&self, prompt: &[u32], start_id: u32) -> u32 {
        prompt.last().copied().unwrap_or(start_id)
    }

    fn step(&self, state: &mut LanguageModelState, tokens: &[u32]) -> Result<Tensor> {
        self.with_pass(|pass| match (self.model, state) {
            (LanguageModel::Window(model), LanguageModelState::Window(state)) => {
                model.step(pass, state, tokens)
            }
            (LanguageModel::Recurrent(model), LanguageModelState::Recurrent(state)) => {
                model.step(pass, state, tokens)
            }
            (LanguageModel::Transformer(model), LanguageModelState::Transformer(state)) => {
                model.step(pass, state, tokens)
            }
            _ => unreachable!("a state is that of its own model"),
        })
    }

    fn reorder(&self, state: &mut LanguageModelState, rows: &[usize]) {
        match state {
            LanguageModelState::Window(state) => state.reorder(rows),
            LanguageModelState::Recurrent(state) => state.reorder(rows),
            LanguageModelState::Transformer(state) => state.reorder(rows),
        }
    }
}
