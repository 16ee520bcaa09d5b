//! A view of models that read a sequence and give a vector or class scores for it. Their sites call it `text`.

use polyhead_attention::{Pass, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, Parameters, Var};

use crate::Result;
use crate::ids::Ids;
use crate::model::ModelConfig;
use crate::transformer::TransformerEncoder;
use crate::window::WindowEncoder;

/// A model that reads a sequence as a whole.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program holds few models and hardly moves them")]
pub enum Encoder {
    /// Transformer layers, pooled.
    Transformer(TransformerEncoder),
    /// A feed-forward network over a fixed window of tokens.
    Window(WindowEncoder),
}

/// The label of a row that fills up a batch; it counts for nothing.
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

impl Encoder {
    /// Declares the parameters of the model that `config` describes.
    ///
    /// # Errors
    /// If it describes none, or one of another kind.
    pub fn new(config: impl Into<ModelConfig>, parameters: &mut Parameters) -> Result<Self> {
        crate::Model::new(&config.into(), parameters)?.into_encoder()
    }

    /// Its sizes and choices.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Transformer(model) => model.config().into(),
            Self::Window(model) => model.config().into(),
        }
    }

    /// Ids that it reads.
    pub fn vocab_size(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().vocab_size,
            Self::Window(model) => model.config().vocab_size,
        }
    }

    /// Id of padding.
    pub fn pad_id(&self) -> u32 {
        match self {
            Self::Transformer(model) => model.config().pad_id,
            Self::Window(model) => model.config().pad_id,
        }
    }

    /// Most tokens of a sequence that it can take.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().max_len,
            Self::Window(model) => model.config().max_len,
        }
    }

    /// The names of its classes.
    pub fn labels(&self) -> &[String] {
        match self {
            Self::Transformer(model) => &model.config().labels,
            Self::Window(model) => &model.config().labels,
        }
    }

    /// Its attentions; none of a model without any.
    pub fn sites(&self) -> Sites {
        match self {
            Self::Transformer(model) => model.sites(),
            Self::Window(_) => Sites::default(),
        }
    }

    /// Tokens that it sees, the last ones of a sequence; none if it sees all.
    pub fn window(&self) -> Option<usize> {
        match self {
            Self::Transformer(_) => None,
            Self::Window(model) => Some(model.config().window),
        }
    }

    /// The tokens of a sequence that it reads: all of them, or the last ones of its window.
    pub fn read<'a>(&self, ids: &'a [u32]) -> &'a [u32] {
        &ids[self.window().map_or(0, |window| ids.len().saturating_sub(window))..]
    }

    /// Room for tokens in a batch whose longest row has `longest`.
    pub fn room(&self, longest: usize) -> usize {
        self.window().unwrap_or(longest)
    }

    /// Sequences as it reads them, side by side.
    pub fn ids(&self, rows: &[&[u32]]) -> Ids {
        let rows: Vec<&[u32]> = rows.iter().map(|row| self.read(row)).collect();
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0).max(1);
        Ids::filled(rows.into_iter().map(Some), self.room(longest), self.pad_id())
    }

    /// One vector for each row: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.pooled(pass, ids),
            Self::Window(model) => model.pooled(pass, ids),
        }
    }

    /// Logits of the classes: rows × labels.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn classify(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let pooled = self.pooled(pass, ids)?;
        let logits = match self {
            Self::Transformer(model) => model.classes().forward(pass, &pooled)?,
            Self::Window(model) => model.classes().forward(pass, &pooled)?,
        };
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }

    /// The mean cross-entropy of one label a row, [`NO_LABEL`] for none; one number.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a label is none.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        ids: &Ids,
        labels: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        Ok(cross_entropy(pass.tape, &self.classify(pass, ids)?, labels, options)?)
    }

    /// The loss of two passes whose dropout differs: `ids` hold every row twice, all of them for the first pass and after
    /// them all for the second; `labels` are those of one pass.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or a label is none.
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
