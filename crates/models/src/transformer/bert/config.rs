//! The config of a BERT-like encoder.
//!
//! The defaults are those of BERT's base model (Devlin et al. 2019). RoBERTa (Liu et al. 2019), DistilBERT (Sanh et al. 2019),
//! MPNet (Song et al. 2020) and ModernBERT (Warner et al. 2024) are other choices of the same keys.

use polyhead_attention::layers::feed_forward::Gate;
use polyhead_attention::layers::{Bias, NormKind};
use polyhead_attention::multi_head::ProjectionBiases;
use polyhead_tensor::ops::linear::Activation;
use serde::{Deserialize, Serialize};

use crate::encoder::EncoderHead;
use crate::transformer::classes::Pooling;
use crate::transformer::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, RotaryPairing, StackConfig, activation_name,
};
use crate::transformer::language_model::Biases;
use crate::transformer::stack::{LayerOptions, SpecialLayers};
use crate::transformer::validate;
use crate::{Error, Result};

/// The output of a BERT-like encoder beside its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BertHead {
    /// Nothing but the states and a vector for each text.
    None,
    /// Class scores of a text.
    #[default]
    Classes,
    /// Class scores of each token.
    TokenClasses,
    /// Scores of the vocabulary for each token.
    MaskedLanguageModel,
}

impl From<BertHead> for EncoderHead {
    fn from(head: BertHead) -> Self {
        match head {
            BertHead::None => Self::None,
            BertHead::Classes => Self::Classes,
            BertHead::TokenClasses => Self::TokenClasses,
            BertHead::MaskedLanguageModel => Self::MaskedLanguageModel,
        }
    }
}

impl From<EncoderHead> for BertHead {
    fn from(head: EncoderHead) -> Self {
        match head {
            EncoderHead::None => Self::None,
            EncoderHead::Classes => Self::Classes,
            EncoderHead::TokenClasses => Self::TokenClasses,
            EncoderHead::MaskedLanguageModel => Self::MaskedLanguageModel,
        }
    }
}

/// The layers between the states and the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// None.
    #[default]
    None,
    /// A linear layer with an activation.
    Dense,
    /// A linear layer with an activation, and a norm.
    DenseNorm,
}

/// The config of a BERT-like encoder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the config")]
pub struct BertConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width of the input and output of every layer; default: 768.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 12 layers, 12 heads, d_ff 3072.
    pub encoder: StackConfig,
    /// Position of the norms; default: post-norm.
    pub norm_order: NormOrder,
    /// True if the stack ends with a final norm; default: false.
    pub final_norm: bool,
    /// Added to the variance in norms; default: 1e-12.
    pub norm_epsilon: f32,
    /// True if norms have a bias; default: true.
    pub norm_bias: bool,
    /// True if the self-attention of the first layer of a pre-norm stack has a norm; default: true.
    pub first_norm: bool,
    /// Activation of the feed-forward layers; default: GELU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// True if a second projection multiplies the activation of the first, as in GeGLU; default: false.
    pub gated: bool,
    /// Biases of the linear layers of the stack; default: all.
    pub biases: Biases,
    /// Positional encoding; default: learned.
    pub position: PositionConfig,
    /// Rows of the table of learned positions before that of the first token; default: 0.
    pub position_offset: usize,
    /// Number of buckets of distances that have a learned score for each head; default: 0, none.
    pub position_buckets: usize,
    /// Pattern of self-attention; default: full attention.
    pub attention: AttentionPattern,
    /// If not 0, every n-th layer, the first included, has full attention instead; default: 0.
    pub global_every: usize,
    /// Base of the rotary positions of the layers without full attention, if `global_every` is set; default: 10,000.
    pub local_base: f32,
    /// Number of token types, each with a vector added to the embeddings; default: 2.
    pub token_types: usize,
    /// The head; default: class scores of a text.
    pub head: BertHead,
    /// The layers between states and head; default: none.
    pub transform: Transform,
    /// Activation of these layers; default: tanh.
    #[serde(with = "activation_name")]
    pub transform_activation: Activation,
    /// True if the linear layer between states and head has a bias; default: true.
    pub transform_bias: bool,
    /// Pooling of a text to one vector; default: the state of the first token.
    pub pooling: Pooling,
    /// True if a text may have several classes, each with a probability of its own; default: false.
    pub multi_label: bool,
    /// True if texts are read with the special tokens of the tokeniser, such as `[CLS]` and `[SEP]`; default: false.
    pub special_tokens: bool,
    /// Longest text in tokens, special tokens included; default: 512.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Dropout probabilities in training.
    pub dropout: Dropout,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for BertConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            d_model: 768,
            encoder: StackConfig::new(12, 12, 3072),
            norm_order: NormOrder::Post,
            final_norm: false,
            norm_epsilon: 1e-12,
            norm_bias: true,
            first_norm: true,
            activation: Activation::Gelu,
            gated: false,
            biases: Biases::default(),
            position: PositionConfig::Learned {},
            position_offset: 0,
            position_buckets: 0,
            attention: AttentionPattern::Full,
            global_every: 0,
            local_base: 1e4,
            token_types: 2,
            head: BertHead::default(),
            transform: Transform::default(),
            transform_activation: Activation::Tanh,
            transform_bias: true,
            pooling: Pooling::First,
            multi_label: false,
            special_tokens: false,
            max_len: 512,
            pad_id: 0,
            dropout: Dropout::default(),
            labels: Vec::new(),
        }
    }
}

impl BertConfig {
    /// Layers 3, d_model 256, 4 heads, d_ff 1024: for some ten thousand texts.
    pub fn small() -> Self {
        Self { d_model: 256, encoder: StackConfig::new(3, 4, 1024), ..Self::default() }
    }

    /// The choices of ModernBERT at the size of `small`: pre-norm, rotary positions, alternating local and global attention,
    /// GeGLU, no biases.
    pub fn modern() -> Self {
        Self {
            norm_order: NormOrder::Pre,
            final_norm: true,
            norm_epsilon: 1e-5,
            norm_bias: false,
            first_norm: false,
            gated: true,
            biases: Biases::NONE,
            position: PositionConfig::Rotary { base: 16e4, pairing: RotaryPairing::Halves, scaling: None },
            attention: AttentionPattern::Window { distance: 64 },
            global_every: 3,
            token_types: 0,
            max_len: 8192,
            ..Self::small()
        }
    }

    /// The preset called `name`.
    pub fn named(name: &str) -> Option<Self> {
        let of_size = |d_model, encoder| Self { d_model, encoder, ..Self::default() };
        match name {
            "small" => Some(Self::small()),
            "tiny" => Some(of_size(128, StackConfig::new(2, 2, 512))),
            "minilm" => Some(of_size(384, StackConfig::new(6, 12, 1536))),
            "base" => Some(Self::default()),
            "modern" => Some(Self::modern()),
            _ => None,
        }
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        validate::size("vocab_size", self.vocab_size, &mut problems);
        validate::size("d_model", self.d_model, &mut problems);
        validate::size("max_len", self.max_len, &mut problems);
        if matches!(self.head, BertHead::Classes | BertHead::TokenClasses) {
            validate::size("labels", self.labels.len(), &mut problems);
        }
        validate::token("pad_id", self.pad_id, self.vocab_size, &mut problems);
        let limits = [
            ("position_offset", self.position_offset),
            ("token_types", self.token_types),
            ("position_buckets", self.position_buckets),
            ("global_every", self.global_every),
        ];
        for (name, value) in limits.into_iter().filter(|(_, value)| *value > 0) {
            validate::size(name, value, &mut problems);
        }
        if !self.position_buckets.is_multiple_of(4) {
            let found = self.position_buckets;
            problems.push(format!("position_buckets is {found}, expected a multiple of 4"));
        }
        if !(self.local_base > 1.0 && self.local_base.is_finite()) {
            problems.push(format!("local_base is {}, expected a number above 1", self.local_base));
        }
        if !self.first_norm && self.norm_order == NormOrder::Post {
            problems.push("first_norm is false in a post-norm stack, expected a pre-norm stack".to_owned());
        }
        validate::stack_options(
            ("encoder", &self.encoder),
            (self.d_model, self.max_len),
            (self.norm_epsilon, self.position, ("attention", &self.attention)),
            &self.dropout,
            &mut problems,
        );
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// The kind of the norms.
    pub(super) fn norm(&self) -> NormKind {
        if self.norm_bias { NormKind::Layer } else { NormKind::LayerWithoutBias }
    }

    /// Options of the layers.
    pub(super) fn layer(&self) -> LayerOptions {
        let bias = |has: bool| if has { Bias::Present } else { Bias::Absent };
        let Biases { query_key_value, output, feed_forward } = self.biases;
        LayerOptions {
            d_model: self.d_model,
            norm: self.norm(),
            norm_order: self.norm_order,
            final_norm: self.final_norm,
            norm_epsilon: self.norm_epsilon,
            activation: self.activation,
            gate: if self.gated { Gate::Present } else { Gate::Absent },
            biases: ProjectionBiases { query_key_value: bias(query_key_value), output: bias(output) },
            feed_forward_bias: bias(feed_forward),
            position: self.local_position(),
            max_len: self.max_len,
            dropout: self.dropout,
            stochastic_depth: 0.0,
        }
    }

    /// Layers that differ from the others.
    pub(super) fn special(&self) -> SpecialLayers {
        SpecialLayers {
            global: (self.global_every > 0).then_some((self.global_every, self.position)),
            first_is_normed: !self.first_norm,
        }
    }

    /// Positions of the layers without full attention.
    fn local_position(&self) -> PositionConfig {
        match self.position {
            PositionConfig::Rotary { pairing, scaling, .. } if self.global_every > 0 => {
                PositionConfig::Rotary { base: self.local_base, pairing, scaling }
            }
            position => position,
        }
    }

    /// Activations, in elements, that a training step stores per token.
    pub(crate) fn activation_elements(&self) -> usize {
        // The loss of masked words is computed at every seventh position or so.
        let words = if self.head == BertHead::MaskedLanguageModel { self.vocab_size / 7 } else { 0 };
        let inner = 2 + usize::from(self.gated);
        self.encoder.n_layers * (10 * self.d_model + inner * self.encoder.d_ff) + 2 * words
    }
}
