//! The decoder-only Transformer, a language model: embeddings, a causal stack and an output layer with a logit per token.
//!
//! The defaults are those of GPT-2 (Radford et al. 2019): learned positions, pre-norm, GELU, tied embeddings. The choices of
//! Llama, Qwen2 and Mistral (Touvron et al. 2023, Yang et al. 2024, Jiang et al. 2023) are options of the same stack: root
//! mean square norms, rotary positions, a gated feed-forward layer, shared key/value heads, a sliding window.
//!
//! ```
//! use polyhead_models::transformer::{TransformerLanguageModel, TransformerLanguageModelConfig};
//! use polyhead_tensor::Parameters;
//! let config = TransformerLanguageModelConfig { vocab_size: 50_257, ..TransformerLanguageModelConfig::gpt2() };
//! let mut parameters = Parameters::default();
//! TransformerLanguageModel::new(&config, &mut parameters)?;
//! assert_eq!(parameters.count(), 124_439_808);
//! # Ok::<(), polyhead_models::Error>(())
//! ```

use polyhead_attention::layers::feed_forward::Gate;
use polyhead_attention::layers::{Bias, Embedding, Norm, NormKind};
use polyhead_attention::multi_head::ProjectionBiases;
use polyhead_attention::{AttentionKind, Builder, Pass, Sites, Trace};
use polyhead_tensor::ops::attention::KeysValues;
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{ParameterId, Parameters, Tensor, Var};
use serde::{Deserialize, Serialize};

use super::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, RotaryPairing, StackConfig, activation_name,
};
use super::decoder::{DecoderStack, DecoderState, Replay};
use super::input::InputOptions;
use super::residual_stream::ResidualStream;
use super::stack::{LayerOptions, SpecialLayers, StackOptions};
use super::validate;
use crate::ids::Ids;
use crate::{Error, Result};

/// Causal self-attention over the text.
pub(super) const DECODER: AttentionKind = AttentionKind::self_attention(0, "decoder", "text").causal();

/// The kind of the norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalisation {
    /// Layer normalisation.
    #[default]
    Layer,
    /// Root mean square normalisation.
    Rms,
}

/// Biases of the linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Biases {
    /// True if queries, keys and values have a bias; default: true.
    pub query_key_value: bool,
    /// True if the output of attention has a bias; default: true.
    pub output: bool,
    /// True if the feed-forward layers have biases; default: true.
    pub feed_forward: bool,
}

impl Biases {
    /// No biases.
    pub const NONE: Self = Self { query_key_value: false, output: false, feed_forward: false };
}

impl Default for Biases {
    fn default() -> Self {
        Self { query_key_value: true, output: true, feed_forward: true }
    }
}

/// The config of a decoder-only Transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the config")]
pub struct TransformerLanguageModelConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width of the input and output of every layer; default: 384.
    pub d_model: usize,
    /// Sizes of the stack; default: 6 layers, 6 heads, d_ff 1536.
    pub decoder: StackConfig,
    /// Kind of the norms, `layer` or `rms`; default: `layer`.
    pub norm: Normalisation,
    /// Position of the norms; default: pre-norm.
    pub norm_order: NormOrder,
    /// True if the stack ends with a final norm; default: true.
    pub final_norm: bool,
    /// Added to the variance or the mean square in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: `gelu_new`.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// True if the activation of a second projection multiplies the hidden layer, as in SwiGLU; default: false.
    pub gated: bool,
    /// Biases of the linear layers; default: all.
    pub biases: Biases,
    /// Positional encoding; default: learned.
    pub position: PositionConfig,
    /// Pattern of the causal self-attention; default: full attention.
    pub attention: AttentionPattern,
    /// True if the output layer is the embedding table; default: true.
    pub tie_output: bool,
    /// True if embeddings are multiplied by √d_model; default: false.
    pub scale_embedding: bool,
    /// Longest text in tokens, and the number of learned positions; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id that ends a sequence.
    pub end_id: u32,
    /// Id that a sequence starts from.
    pub start_id: u32,
    /// Dropout probabilities in training.
    pub dropout: Dropout,
}

impl Default for TransformerLanguageModelConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            d_model: 384,
            decoder: StackConfig::new(6, 6, 1536),
            norm: Normalisation::Layer,
            norm_order: NormOrder::Pre,
            final_norm: true,
            norm_epsilon: 1e-5,
            activation: Activation::GeluTanh,
            gated: false,
            biases: Biases::default(),
            position: PositionConfig::Learned {},
            attention: AttentionPattern::Full,
            tie_output: true,
            scale_embedding: false,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            dropout: Dropout::default(),
        }
    }
}

impl TransformerLanguageModelConfig {
    /// Layers 3, d_model 128, 4 heads, d_ff 512: for tests and very small texts.
    pub fn tiny() -> Self {
        Self { d_model: 128, decoder: StackConfig::new(3, 4, 512), ..Self::default() }
    }

    /// The small GPT-2: layers 12, d_model 768, 12 heads, d_ff 3072; with its 50,257 tokens 124,439,808 parameters.
    pub fn gpt2() -> Self {
        Self { d_model: 768, decoder: StackConfig::new(12, 12, 3072), ..Self::default() }
    }

    /// The choices of Llama at the size of the default: root mean square norms, rotary positions, SwiGLU, no biases.
    pub fn llama() -> Self {
        Self {
            decoder: StackConfig::new(6, 6, 1024),
            norm: Normalisation::Rms,
            activation: Activation::Silu,
            gated: true,
            biases: Biases::NONE,
            position: PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves, scaling: None },
            ..Self::default()
        }
    }

    /// The preset called `name`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::default()),
            "tiny" => Some(Self::tiny()),
            "gpt2" => Some(Self::gpt2()),
            "llama" => Some(Self::llama()),
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
        for (name, id) in [("pad_id", self.pad_id), ("end_id", self.end_id), ("start_id", self.start_id)] {
            validate::token(name, id, self.vocab_size, &mut problems);
        }
        validate::stack_options(
            ("decoder", &self.decoder),
            (self.d_model, self.max_len),
            (self.norm_epsilon, self.position, ("attention", &self.attention)),
            &self.dropout,
            &mut problems,
        );
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    fn layer(&self) -> LayerOptions {
        let bias = |has: bool| if has { Bias::Present } else { Bias::Absent };
        let Biases { query_key_value, output, feed_forward } = self.biases;
        LayerOptions {
            d_model: self.d_model,
            norm: match self.norm {
                Normalisation::Layer => NormKind::Layer,
                Normalisation::Rms => NormKind::Rms,
            },
            norm_order: self.norm_order,
            final_norm: self.final_norm,
            norm_epsilon: self.norm_epsilon,
            activation: self.activation,
            gate: if self.gated { Gate::Present } else { Gate::Absent },
            biases: ProjectionBiases { query_key_value: bias(query_key_value), output: bias(output) },
            feed_forward_bias: bias(feed_forward),
            position: self.position,
            max_len: self.max_len,
            dropout: self.dropout,
            stochastic_depth: 0.0,
        }
    }

    fn input(&self) -> InputOptions {
        let &Self { d_model, position, max_len, pad_id, scale_embedding, dropout, .. } = self;
        InputOptions { d_model, position, max_len, pad_id, scale_embedding, dropout: dropout.embedding }
    }
}

/// A decoder-only Transformer.
#[derive(Debug, Clone)]
pub struct TransformerLanguageModel {
    config: TransformerLanguageModelConfig,
    decoder: DecoderStack,
    output: Embedding,
}

impl TransformerLanguageModel {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &TransformerLanguageModelConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &TransformerLanguageModelConfig { vocab_size, d_model, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let output = if config.tie_output {
            embedding.clone()
        } else {
            Embedding::new(&mut builder.at("output"), vocab_size, d_model)
        };
        let stack = StackOptions {
            kind: DECODER,
            sizes: config.decoder,
            layer: config.layer(),
            mask: config.attention.mask(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let table = (embedding, vocab_size);
        let decoder = DecoderStack::new(&mut builder.at("decoder"), table, &config.input(), &stack)?;
        Ok(Self { config: config.clone(), decoder, output })
    }

    /// The config of the model.
    pub fn config(&self) -> &TransformerLanguageModelConfig {
        &self.config
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.decoder.sites().collect())
    }

    /// Longest text in tokens; `None` if positions have no table.
    pub(crate) fn max_len(&self) -> Option<usize> {
        self.decoder.max_len()
    }

    /// The most bytes of the K/V cache of a row that grows to `length` tokens, in CPU memory.
    pub(crate) fn state_bytes(&self, length: usize) -> usize {
        let stack = self.config.decoder;
        let width = stack.heads(self.config.d_model).cache().width();
        stack.n_layers * width * KeysValues::most_positions(length) * size_of::<f32>()
    }

    /// The states of the last layer at every position, row by row: (rows · length) × d_model.
    pub(crate) fn hidden(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let states = self.decoder.forward(pass, None, ids)?;
        Ok(states.reshaped(&[ids.rows() * ids.length(), self.config.d_model]))
    }

    /// The residual stream of a text that a pass captured.
    pub(crate) fn residual_stream(&self, trace: &Trace) -> Result<ResidualStream<'_>> {
        ResidualStream::new(self, trace)
    }

    /// The final norm.
    pub(super) fn final_norm(&self) -> Option<&Norm> {
        self.decoder.final_norm()
    }

    /// True if norms are before the sub-layers.
    pub(crate) fn is_pre_norm(&self) -> bool {
        self.config.norm_order == NormOrder::Pre
    }

    /// The output layer; it has no bias.
    pub(crate) fn output(&self) -> (&Embedding, Option<ParameterId>) {
        (&self.output, None)
    }

    /// The state after `prompts`, with capacity for `n_rows` rows, computed in one pass. Of a prompt the last token is left to
    /// the first step.
    pub(crate) fn start(&self, pass: &Pass<'_>, prompts: &[&[u32]], n_rows: usize) -> Result<DecoderState> {
        let ids = Ids::padded(prompts, self.config.pad_id);
        Ok(self.decoder.prefill(pass, &ids, n_rows)?)
    }

    /// Appends a text to each row, on the CPU; on a GPU only to rows without tokens.
    pub(crate) fn extend(&self, pass: &Pass<'_>, state: &mut DecoderState, texts: &[&[u32]]) -> Result<()> {
        if state.is_empty() {
            *state = self.start(pass, texts, state.lengths().len())?;
            return Ok(());
        }
        Ok(self.decoder.extend(pass, state, texts)?)
    }

    /// Appends one token to each row and returns the logits of the next: rows × vocab_size.
    pub(crate) fn step(&self, pass: &Pass<'_>, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        self.decoder.step(pass, (state, tokens), Replay::Allowed, |x| {
            let logits = self.output.step_logits(pass, x, None)?;
            pass.capture.activation(|| "logits".into(), &logits);
            Ok(logits.value().clone())
        })
    }
}
