//! The encoder view: models that map a sequence to a vector and to class scores. Their sites call the sequence `text`.

use polyhead_attention::{Pass, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, Parameters, Var};

use crate::averaging::AveragingEncoder;
use crate::ids::Ids;
use crate::model::ModelConfig;
use crate::recurrent::RecurrentEncoder;
use crate::transformer::TransformerEncoder;
use crate::transformer::bert::BertEncoder;
use crate::window::WindowEncoder;
use crate::{Error, Result};

/// An encoder-only model with class scores.
#[derive(Debug, Clone)]
pub enum Encoder {
    /// A Transformer encoder with pooling.
    Transformer(TransformerEncoder),
    /// A feed-forward network over a fixed window of tokens.
    Window(WindowEncoder),
    /// A deep averaging network.
    Averaging(AveragingEncoder),
    /// Recurrent layers with pooling.
    Recurrent(RecurrentEncoder),
    /// A BERT-like encoder.
    Bert(BertEncoder),
}

/// The output of an encoder beside its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncoderHead {
    /// Nothing.
    None,
    /// Class scores of a text.
    Classes,
    /// Class scores of each token.
    TokenClasses,
    /// Scores of the vocabulary for each token.
    MaskedLanguageModel,
}

impl EncoderHead {
    /// An encoder with this head in words, and a hint at the commands that use it.
    pub fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("an encoder without a head", "use it with polyhead embed, similar or search"),
            Self::Classes => {
                ("a classifier of texts", "use it with polyhead classify; with one label, polyhead rerank")
            }
            Self::TokenClasses => ("a classifier of tokens", "use it with polyhead tag"),
            Self::MaskedLanguageModel => ("a model of masked words", "use it with polyhead fill"),
        }
    }
}

/// The label of a row, or of a token, that has none; the loss ignores it.
pub const NO_LABEL: u32 = u32::MAX;

impl From<TransformerEncoder> for Encoder {
    fn from(model: TransformerEncoder) -> Self {
        Self::Transformer(model)
    }
}

impl From<WindowEncoder> for Encoder {
    fn from(model: WindowEncoder) -> Self {
        Self::Window(model)
    }
}

impl From<RecurrentEncoder> for Encoder {
    fn from(model: RecurrentEncoder) -> Self {
        Self::Recurrent(model)
    }
}

impl From<BertEncoder> for Encoder {
    fn from(model: BertEncoder) -> Self {
        Self::Bert(model)
    }
}

impl From<AveragingEncoder> for Encoder {
    fn from(model: AveragingEncoder) -> Self {
        Self::Averaging(model)
    }
}

impl Encoder {
    /// Builds the model that `config` describes and declares its parameters.
    ///
    /// # Errors
    /// If the config is invalid, or describes a model that is not an encoder.
    pub fn new(config: impl Into<ModelConfig>, parameters: &mut Parameters) -> Result<Self> {
        crate::Model::new(&config.into(), parameters)?.into_encoder()
    }

    /// The config of the model.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Transformer(model) => model.config().into(),
            Self::Window(model) => model.config().into(),
            Self::Averaging(model) => model.config().into(),
            Self::Recurrent(model) => model.config().into(),
            Self::Bert(model) => model.config().into(),
        }
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().vocab_size,
            Self::Window(model) => model.config().vocab_size,
            Self::Averaging(model) => model.config().vocab_size,
            Self::Recurrent(model) => model.config().vocab_size,
            Self::Bert(model) => model.config().vocab_size,
        }
    }

    /// Id of padding.
    pub fn pad_id(&self) -> u32 {
        match self {
            Self::Transformer(model) => model.config().pad_id,
            Self::Window(model) => model.config().pad_id,
            Self::Averaging(model) => model.config().pad_id,
            Self::Recurrent(model) => model.config().pad_id,
            Self::Bert(model) => model.config().pad_id,
        }
    }

    /// Longest sequence in tokens.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().max_len,
            Self::Window(model) => model.config().max_len,
            Self::Averaging(model) => model.config().max_len,
            Self::Recurrent(model) => model.config().max_len,
            Self::Bert(model) => model.config().max_len,
        }
    }

    /// The names of the classes.
    pub fn labels(&self) -> &[String] {
        match self {
            Self::Transformer(model) => &model.config().labels,
            Self::Window(model) => &model.config().labels,
            Self::Averaging(model) => &model.config().labels,
            Self::Recurrent(model) => &model.config().labels,
            Self::Bert(model) => &model.config().labels,
        }
    }

    /// The attention layers; empty for a model without attention.
    pub fn sites(&self) -> Sites {
        match self {
            Self::Transformer(model) => model.sites(),
            Self::Bert(model) => model.sites(),
            Self::Window(_) | Self::Averaging(_) | Self::Recurrent(_) => Sites::default(),
        }
    }

    /// Number of trailing tokens that the model reads; `None` if it reads the whole sequence.
    pub fn window(&self) -> Option<usize> {
        match self {
            Self::Transformer(_) | Self::Averaging(_) | Self::Recurrent(_) | Self::Bert(_) => None,
            Self::Window(model) => Some(model.config().window),
        }
    }

    /// The tokens of a sequence that the model reads: all of them, or the last ones within its window.
    pub fn truncate<'a>(&self, ids: &'a [u32]) -> &'a [u32] {
        &ids[self.window().map_or(0, |window| ids.len().saturating_sub(window))..]
    }

    /// Padded length of a batch whose longest row has `longest` tokens.
    pub fn padded_length(&self, longest: usize) -> usize {
        self.window().unwrap_or(longest)
    }

    /// Sequences as a padded batch, each truncated to what the model reads.
    pub fn ids(&self, rows: &[&[u32]]) -> Ids {
        let rows: Vec<&[u32]> = rows.iter().map(|row| self.truncate(row)).collect();
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        self.padded(rows.into_iter().map(Some), longest)
    }

    /// Truncated sequences of at most `longest` tokens as a padded batch; `None` is a row of padding.
    pub fn padded<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>, longest: usize) -> Ids {
        match self {
            Self::Window(model) => model.ids(rows),
            Self::Transformer(_) | Self::Averaging(_) | Self::Recurrent(_) | Self::Bert(_) => {
                Ids::padded_to(rows, longest, self.pad_id())
            }
        }
    }

    /// One vector per row: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.pooled(pass, ids),
            Self::Window(model) => model.pooled(pass, ids),
            Self::Averaging(model) => model.pooled(pass, ids),
            Self::Recurrent(model) => model.pooled(pass, ids),
            Self::Bert(model) => model.pooled(pass, ids),
        }
    }

    /// The head of the model.
    pub fn head(&self) -> EncoderHead {
        let Self::Bert(model) = self else { return EncoderHead::Classes };
        model.config().head.into()
    }

    /// True if texts are read with the special tokens of the tokeniser's template.
    pub fn has_special_tokens(&self) -> bool {
        matches!(self, Self::Bert(model) if model.config().special_tokens)
    }

    /// True if each class has a probability of its own.
    pub fn is_multi_label(&self) -> bool {
        matches!(self, Self::Bert(model) if model.config().multi_label)
    }

    /// Number of token types; 0 if the model has none.
    pub fn token_types(&self) -> usize {
        if let Self::Bert(model) = self { model.config().token_types } else { 0 }
    }

    /// True if the model has states of tokens.
    pub fn has_states(&self) -> bool {
        matches!(self, Self::Transformer(_) | Self::Bert(_))
    }

    /// The states of all tokens: rows × length × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the model is not a Transformer.
    pub fn states(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.states(pass, ids),
            Self::Bert(model) => model.states(pass, ids),
            Self::Window(_) | Self::Averaging(_) | Self::Recurrent(_) => Err(without("vectors of tokens")),
        }
    }

    /// Logits of the classes of each token: rows × length × n_labels.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the model has no such head.
    pub fn token_logits(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        match self {
            Self::Bert(model) => model.token_logits(pass, ids),
            _ => Err(without("classes of tokens")),
        }
    }

    /// Logits of the vocabulary: states (n × d_model) → n × vocab_size.
    ///
    /// # Errors
    /// If the model is no masked language model.
    pub fn word_logits(&self, pass: &Pass<'_>, states: Var) -> Result<Var> {
        match self {
            Self::Bert(model) => model.word_logits(pass, states),
            _ => Err(without("scores of words")),
        }
    }

    /// Mean cross-entropy of the words at some positions of a batch: `positions` are indices into rows × length, `words` the ids
    /// there. A scalar.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the model is no masked language model.
    pub fn word_loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        (positions, words): (&Indices, &Indices),
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        let states = self.states_at(pass, ids, positions)?;
        if let Self::Bert(model) = self
            && let Some((x, weight, bias)) = model.word_output(pass, &states)?
        {
            let layer = OutputLayer { x: &x, weight: &weight, bias: Some(&bias) };
            return Ok(output_cross_entropy(pass.tape, layer, words, options)?);
        }
        Ok(cross_entropy(pass.tape, &self.word_logits(pass, states)?, words, options)?)
    }

    /// The states at some positions of a batch, indices into rows × length: n × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or the model has no states.
    pub fn states_at(&self, pass: &Pass<'_>, ids: &Ids, positions: &Indices) -> Result<Var> {
        let states = self.states(pass, ids)?;
        let width = states.shape()[2];
        let all = states.reshaped(&[ids.rows() * ids.length(), width]);
        let found = embedding(pass.tape, positions, 1, &all, &EmbeddingOptions::default())?;
        Ok(found.reshaped(&[positions.len(), width]))
    }

    /// Class logits: rows × n_labels.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn classify(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let pooled = self.pooled(pass, ids)?;
        let logits = match self {
            Self::Transformer(model) => model.classes().forward(pass, &pooled)?,
            Self::Window(model) => model.classes().forward(pass, &pooled)?,
            Self::Averaging(model) => model.classes().forward(pass, &pooled)?,
            Self::Recurrent(model) => model.classes().forward(pass, &pooled)?,
            Self::Bert(model) => model.class_logits(pass, &pooled)?,
        };
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }

    /// Mean cross-entropy over rows with a label; [`NO_LABEL`] marks rows without one. A scalar.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a label is not one of the classes.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        labels: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        Ok(cross_entropy(pass.tape, &self.classify(pass, ids)?, labels, options)?)
    }

    /// The R-Drop loss of two passes with different dropout: `ids` hold all rows for the first pass, then all rows again
    /// for the second; `labels` are those of one pass.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a label is not one of the classes.
    pub fn r_drop_loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        labels: &Indices,
        options: RDropOptions,
    ) -> Result<RDrop> {
        Ok(r_drop(pass.tape, &self.classify(pass, ids)?, labels, options)?)
    }
}

fn without(needed: &str) -> Error {
    Error::Request { message: format!("a model without {needed}, expected an encoder with them") }
}
