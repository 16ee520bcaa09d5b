//! BERT-like encoders (Devlin et al. 2019): embeddings of tokens, token types and positions with a norm, an encoder stack, and
//! a head: class scores of a text or of each token, or scores of the vocabulary (masked language model).
//!
//! ```
//! use polyhead_models::transformer::bert::{BertConfig, BertEncoder, BertHead, Transform};
//! use polyhead_tensor::Parameters;
//! let config = BertConfig { vocab_size: 30_522, head: BertHead::None, transform: Transform::Dense, ..BertConfig::default() };
//! let mut parameters = Parameters::default();
//! BertEncoder::new(&config, &mut parameters)?;
//! assert_eq!(parameters.count(), 109_482_240); // bert-base-uncased
//! # Ok::<(), polyhead_models::Error>(())
//! ```

pub mod buckets;
pub mod config;

use polyhead_attention::layers::{Bias, Embedding, Linear, Norm};
use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Pass, Sites};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::LinearOptions;
use polyhead_tensor::ops::{elementwise, shape};
use polyhead_tensor::{Init, ParameterId, Parameters, Var};

pub use self::buckets::PositionBuckets;
pub use self::config::{BertConfig, BertHead, Transform};
use super::config::PositionConfig;
use super::stack::{Stack, StackOptions};
use crate::ids::Ids;
use crate::{Error, Result};

/// Self-attention over the text.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "text");

/// A BERT-like encoder.
#[derive(Debug, Clone)]
pub struct BertEncoder {
    config: BertConfig,
    embedding: Embedding,
    types: Option<ParameterId>,
    positions: Option<Learned>,
    norm: Norm,
    buckets: Option<PositionBuckets>,
    stack: Stack,
    transform: Option<TransformLayer>,
    classes: Option<Linear>,
    output_bias: Option<ParameterId>,
}

/// A linear layer with an activation, and a norm.
#[derive(Debug, Clone)]
struct TransformLayer {
    dense: Linear,
    options: LinearOptions,
    norm: Option<Norm>,
}

impl BertEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &BertConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &BertConfig { vocab_size, d_model, token_types, position, head, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let types = (token_types > 0).then(|| {
            builder.at("token_types").declare("weight", &[token_types, d_model], Init::Normal(0.02))
        });
        let mut encoder = builder.at("encoder");
        let n_positions = config.position_offset + config.max_len;
        let positions = (position == PositionConfig::Learned {})
            .then(|| Learned::new(&mut encoder.at("positions"), n_positions, d_model));
        let norm = Norm::new(&mut encoder.at("embedding_norm"), config.norm(), d_model, config.norm_epsilon);
        let buckets = (config.position_buckets > 0).then(|| {
            let n_heads = config.encoder.n_heads;
            PositionBuckets::new(&mut encoder.at("buckets"), config.position_buckets, n_heads)
        });
        let stack = StackOptions {
            kind: ENCODER,
            sizes: config.encoder,
            layer: config.layer(),
            mask: config.attention.mask(),
            cross: None,
            special: config.special(),
        };
        let stack = Stack::new(&mut encoder, &stack)?;
        let transform = TransformLayer::new(&mut builder, config);
        let path = if head == BertHead::Classes { "classes" } else { "token_classes" };
        let classes = matches!(head, BertHead::Classes | BertHead::TokenClasses)
            .then(|| Linear::new(&mut builder.at(path), d_model, config.labels.len()));
        let output_bias = (head == BertHead::MaskedLanguageModel)
            .then(|| builder.at("output").declare("bias", &[vocab_size], Init::Zeros));
        Ok(Self {
            config: config.clone(),
            embedding,
            types,
            positions,
            norm,
            buckets,
            stack,
            transform,
            classes,
            output_bias,
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.stack.sites().collect())
    }

    /// The states of the last layer: rows × length × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or there are more tokens than positions.
    pub fn states(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let x = self.embed(pass, ids)?;
        let bias = self.buckets.as_ref().map(|buckets| buckets.bias(pass, ids.length())).transpose()?;
        Ok(self.stack.forward_with(pass, x, (Some(ids.lengths()), bias.as_ref()), None)?)
    }

    /// The input of the stack.
    fn embed(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let options = EmbeddingOptions::default();
        let mut x = self.embedding.forward(pass, ids.ids(), ids.length(), &options)?;
        if let Some(types) = self.types {
            let table = pass.parameter(types);
            let vectors = match ids.types() {
                Some(types) => embedding(pass.tape, types, ids.length(), &table, &options)?,
                None => shape::slice(pass.tape, &table, 0, 0..1)?,
            };
            x = elementwise::add(pass.tape, &x, &vectors)?;
        }
        if let Some(positions) = &self.positions {
            x = positions.add(pass, &x, self.config.position_offset)?;
        }
        x = dropout(pass.tape, &self.norm.forward(pass, &x)?, self.config.dropout.embedding)?;
        pass.capture.activation(|| format!("{}.embedding", ENCODER.stack), &x);
        Ok(x)
    }

    /// One vector per row: rows × d_model. For class scores and in a model without a head the layers before the head follow
    /// the pooling.
    ///
    /// # Errors
    /// If an id is outside the vocabulary, or there are more tokens than positions.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let states = self.states(pass, ids)?;
        let mut pooled = self.config.pooling.layer().forward(pass, &states, ids.lengths())?;
        if matches!(self.config.head, BertHead::None | BertHead::Classes) {
            pooled = self.transformed(pass, pooled)?;
        }
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// Logits of the classes: pooled vectors or states (… × d_model) → … × n_labels.
    ///
    /// # Errors
    /// If the model has no classes.
    pub(crate) fn class_logits(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let classes = self.classes.as_ref().ok_or_else(|| self.without("classes"))?;
        let x = dropout(pass.tape, x, self.config.dropout.residual)?;
        Ok(classes.forward(pass, &x)?)
    }

    /// Logits of the classes of each token: rows × length × n_labels.
    ///
    /// # Errors
    /// If the model has no classes of tokens, or the ids are invalid.
    pub fn token_logits(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        if self.config.head != BertHead::TokenClasses {
            return Err(self.without("classes of tokens"));
        }
        let states = self.states(pass, ids)?;
        let states = self.transformed(pass, states)?;
        self.class_logits(pass, &states)
    }

    /// Logits of the vocabulary: states (… × d_model) → … × vocab_size.
    ///
    /// # Errors
    /// If the model is no masked language model.
    pub fn word_logits(&self, pass: &Pass<'_>, states: Var) -> Result<Var> {
        let bias = self.output_bias.ok_or_else(|| self.without("scores of words"))?;
        let states = self.transformed(pass, states)?;
        Ok(self.embedding.logits(pass, &states, Some(bias))?)
    }

    /// The input, weight and bias of the output layer over the vocabulary, for an operation that is fused with it; `None` if the
    /// logits are wanted.
    ///
    /// # Errors
    /// If the model is no masked language model.
    pub(crate) fn word_output(&self, pass: &Pass<'_>, states: &Var) -> Result<Option<(Var, Var, Var)>> {
        let bias = self.output_bias.ok_or_else(|| self.without("scores of words"))?;
        let Some((weight, Some(bias))) = self.embedding.output(pass, Some(bias)) else { return Ok(None) };
        Ok(Some((self.transformed(pass, states.clone())?, weight, bias)))
    }

    fn transformed(&self, pass: &Pass<'_>, x: Var) -> Result<Var> {
        let Some(TransformLayer { dense, options, norm }) = &self.transform else { return Ok(x) };
        let x = dense.forward_with(pass, &x, *options)?;
        Ok(norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(pass, &x))?)
    }

    fn without(&self, needed: &str) -> Error {
        let found = match self.config.head {
            BertHead::None => "no head",
            BertHead::Classes => "a head for classes of texts",
            BertHead::TokenClasses => "a head for classes of tokens",
            BertHead::MaskedLanguageModel => "a head for masked words",
        };
        Error::Request { message: format!("a model with {found}, expected {needed}") }
    }
}

impl TransformLayer {
    fn new(builder: &mut Builder<'_>, config: &BertConfig) -> Option<Self> {
        let &BertConfig { d_model, transform, transform_bias, .. } = config;
        if transform == Transform::None {
            return None;
        }
        let path = match config.head {
            BertHead::None => "pooler",
            BertHead::Classes => "classifier",
            BertHead::TokenClasses | BertHead::MaskedLanguageModel => "transform",
        };
        let bias = if transform_bias { Bias::Present } else { Bias::Absent };
        let mut builder = builder.at(path);
        let dense = Linear::with(&mut builder.at("dense"), d_model, d_model, bias);
        let norm = (transform == Transform::DenseNorm)
            .then(|| Norm::new(&mut builder.at("norm"), config.norm(), d_model, config.norm_epsilon));
        let options = LinearOptions { activation: config.transform_activation, dropout: 0.0 };
        Some(Self { dense, options, norm })
    }
}
