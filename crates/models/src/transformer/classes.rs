//! A Transformer encoder that gives one vector and class scores for a sequence (Devlin et al. 2019): embeddings, a stack
//! that sees all tokens, pooling, and a linear layer.

use polyhead_attention::layers::{Embedding, Linear};
use polyhead_attention::{Builder, Kind, Pass, Sites};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use super::config::{
    Dropout, NormOrder, PositionConfig, Sight, SinusoidalLayout, StackConfig, activation_name,
};
use super::encoder::EncoderStack;
use super::input::InputOptions;
use super::stack::{LayerOptions, StackOptions};
use crate::Result;
use crate::ids::Ids;

/// Text to text.
const ENCODER: Kind = Kind::of_self(0, "encoder", "text");

/// How a sequence becomes one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The state of the first token.
    #[default]
    First,
    /// The mean over all tokens.
    Mean,
}

impl Pooling {
    fn layer(self) -> polyhead_attention::layers::Pooling {
        match self {
            Self::First => polyhead_attention::layers::Pooling::First,
            Self::Mean => polyhead_attention::layers::Pooling::Mean,
        }
    }
}

/// A Transformer encoder with classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerEncoderConfig {
    /// Ids.
    pub vocab_size: usize,
    /// Width of every layer's input and output; default: 256.
    pub d_model: usize,
    /// Sizes of the stack; default: 3 layers, 4 heads, d_ff 1024.
    pub encoder: StackConfig,
    /// Where the norms stand; default: after the residual sum.
    pub norm_order: NormOrder,
    /// True if the stack ends with a norm of its own; default: false.
    pub final_norm: bool,
    /// Added to the variance in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Between the two products of a feed-forward layer; default: ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// How the order of tokens is known; default: sines then cosines.
    pub position: PositionConfig,
    /// What self-attention sees; default: everything.
    pub encoder_sight: Sight,
    /// True if embeddings are multiplied with √d_model; default: true.
    pub scale_embedding: bool,
    /// How the sequence becomes one vector; default: the first token's state.
    pub pooling: Pooling,
    /// Most tokens of a sequence; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// What is dropped in training.
    pub dropout: Dropout,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for TransformerEncoderConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            d_model: 256,
            encoder: StackConfig::new(3, 4, 1024),
            norm_order: NormOrder::Post,
            final_norm: false,
            norm_epsilon: 1e-5,
            activation: Activation::Relu,
            position: PositionConfig::Sinusoidal { layout: SinusoidalLayout::Concatenated },
            encoder_sight: Sight::Full,
            scale_embedding: true,
            pooling: Pooling::First,
            max_len: 1024,
            pad_id: 0,
            dropout: Dropout::default(),
            labels: Vec::new(),
        }
    }
}

/// Embeddings, stack, pooling, classes.
#[derive(Debug, Clone)]
pub struct TransformerEncoder {
    config: TransformerEncoderConfig,
    encoder: EncoderStack,
    classes: Linear,
}

impl TransformerEncoder {
    /// Declares all parameters; they have no values yet.
    ///
    /// # Errors
    /// If the config describes no model.
    pub fn new(config: &TransformerEncoderConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &TransformerEncoderConfig { vocab_size, d_model, position, max_len, pad_id, dropout, .. } =
            config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let input = InputOptions {
            d_model,
            position,
            max_len,
            pad_id,
            scale_embedding: config.scale_embedding,
            dropout: dropout.embedding,
        };
        let layer = LayerOptions {
            d_model,
            norm_order: config.norm_order,
            final_norm: config.final_norm,
            norm_epsilon: config.norm_epsilon,
            activation: config.activation,
            position,
            max_len,
            dropout,
        };
        let mask = config.encoder_sight.mask();
        let stack = StackOptions { kind: ENCODER, sizes: config.encoder, layer, mask, cross: None };
        let encoder = EncoderStack::new(&mut builder.at("encoder"), embedding, &input, &stack)?;
        let classes = Linear::new(&mut builder.at("classes"), d_model, config.labels.len());
        Ok(Self { config: config.clone(), encoder, classes })
    }

    /// Its sizes and choices.
    pub fn config(&self) -> &TransformerEncoderConfig {
        &self.config
    }

    /// Its attentions.
    pub fn sites(&self) -> Sites {
        Sites::new(self.encoder.sites().collect())
    }

    /// One vector for each row: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let states = self.encoder.forward(pass, ids)?;
        let pooled = self.config.pooling.layer().forward(pass, &states, ids.lengths())?;
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// The layer that gives logits of the classes.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}
