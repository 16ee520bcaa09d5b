//! A Transformer encoder with class scores (Devlin et al. 2019): embeddings, an encoder stack, pooling to one vector per
//! sequence, and a linear layer.

use polyhead_attention::layers::{Embedding, Linear};
use polyhead_attention::{AttentionKind, Builder, Pass, Sites};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use super::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, SinusoidalLayout, StackConfig, activation_name,
};
use super::encoder::EncoderStack;
use super::input::InputOptions;
use super::stack::{LayerOptions, SpecialLayers, StackOptions};
use crate::Result;
use crate::ids::Ids;

/// Self-attention over the text.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "text");

/// The reduction of a sequence to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The state of the first token.
    #[default]
    First,
    /// The mean over all tokens, without padding.
    Mean,
}

impl Pooling {
    /// The layer that pools.
    pub(super) fn layer(self) -> polyhead_attention::layers::Pooling {
        match self {
            Self::First => polyhead_attention::layers::Pooling::First,
            Self::Mean => polyhead_attention::layers::Pooling::Mean,
        }
    }
}

/// The config of a Transformer encoder with class scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width of the input and output of every layer; default: 256.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 3 layers, 4 heads, d_ff 1024.
    pub encoder: StackConfig,
    /// Position of the norms; default: post-norm.
    pub norm_order: NormOrder,
    /// True if the stack ends with a final norm; default: false.
    pub final_norm: bool,
    /// Added to the variance in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Positional encoding; default: sinusoidal, all sines first.
    pub position: PositionConfig,
    /// Pattern of self-attention; default: full attention.
    pub encoder_sight: AttentionPattern,
    /// True if embeddings are multiplied by √d_model; default: true.
    pub scale_embedding: bool,
    /// Pooling to one vector; default: the state of the first token.
    pub pooling: Pooling,
    /// Longest sequence in tokens; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Dropout probabilities in training.
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
            encoder_sight: AttentionPattern::Full,
            scale_embedding: true,
            pooling: Pooling::First,
            max_len: 1024,
            pad_id: 0,
            dropout: Dropout::default(),
            labels: Vec::new(),
        }
    }
}

/// A Transformer encoder with class scores.
#[derive(Debug, Clone)]
pub struct TransformerEncoder {
    config: TransformerEncoderConfig,
    encoder: EncoderStack,
    classes: Linear,
}

impl TransformerEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
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
            ..LayerOptions::default()
        };
        let mask = config.encoder_sight.mask();
        let (cross, special) = (None, SpecialLayers::default());
        let stack = StackOptions { kind: ENCODER, sizes: config.encoder, layer, mask, cross, special };
        let encoder = EncoderStack::new(&mut builder.at("encoder"), embedding, &input, &stack)?;
        let classes = Linear::new(&mut builder.at("classes"), d_model, config.labels.len());
        Ok(Self { config: config.clone(), encoder, classes })
    }

    /// The config of the model.
    pub fn config(&self) -> &TransformerEncoderConfig {
        &self.config
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.encoder.sites().collect())
    }

    /// The states of the last layer: rows × length × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn states(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        Ok(self.encoder.forward(pass, ids)?)
    }

    /// One vector per row: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let states = self.states(pass, ids)?;
        let pooled = self.config.pooling.layer().forward(pass, &states, ids.lengths())?;
        pass.capture.activation(|| "pooled".into(), &pooled);
        Ok(pooled)
    }

    /// The output layer, which maps a pooled vector to class logits.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}
