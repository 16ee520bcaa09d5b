//! Human-readable descriptions of Transformer configs, and estimates of their memory.

use polyhead_text::figures::grouped;

use super::bert::{BertConfig, BertHead, Transform};
use super::config::{
    AttentionPattern, Combination, CrossProjection, NormOrder, PositionConfig, RotaryPairing, RotaryScale,
    SinusoidalLayout, StackConfig, Tie,
};
use super::language_model::{Biases, Normalisation};
use super::{Pooling, TransformerConfig, TransformerEncoderConfig, TransformerLanguageModelConfig};
use crate::copying::Copying;
use crate::speech::SpeechConfig;

/// Vectors of width d_model that a layer stores per token for the backward pass.
const ENCODER_VECTORS: usize = 10;
const DECODER_VECTORS: usize = 16;
/// Vectors of width d_ff that a layer stores per token.
const INNER_VECTORS: usize = 2;
/// Rows of width vocab_size per target token that account for the other buffers of the memory pool.
const POOL: usize = 2;

impl TransformerConfig {
    /// Elements of the K/V cache per target token and per source token.
    pub(crate) fn cache_elements(&self) -> [usize; 2] {
        let heads = self.decoder.heads(self.d_model);
        let layer = heads.n_key_heads * (heads.d_key + heads.d_value);
        let all = layer * self.decoder.n_layers;
        let source = match self.cross_projection {
            CrossProjection::PerLayer => all,
            CrossProjection::Shared => layer,
        };
        [all, source]
    }

    /// Activations, in elements, that a training step stores per source token and per target token. Each layer stores its
    /// inputs for the backward pass: about 10 vectors per token in the encoder, 16 in the decoder, and two of width d_ff.
    /// Batches vary in shape, so the memory pool holds buffers of other shapes too; two rows of width vocab_size per target
    /// token account for them.
    pub(crate) fn activation_elements(&self) -> [usize; 2] {
        let layer = |vectors: usize, d_ff: usize| vectors * self.d_model + INNER_VECTORS * d_ff;
        // With copying the logits and their gradient are stored whole.
        let pool = if self.copy == Copying::None { POOL } else { 2 * POOL };
        let encoder = self.encoder.n_layers * layer(ENCODER_VECTORS, self.encoder.d_ff);
        let decoder =
            self.decoder.n_layers * layer(DECODER_VECTORS, self.decoder.d_ff) + pool * self.target_vocab_size;
        [encoder, decoder]
    }
}

impl Tie {
    /// The tables in words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::None => "source, target and output have a table each",
            Self::TargetOutput => "target and output share a table, the source has its own",
            Self::SourceTarget => "source and target share a table, the output has its own",
            Self::All => "source, target and output share one table",
        }
    }
}

impl TransformerEncoderConfig {
    /// Activations, in elements, that a training step stores per token.
    pub(crate) fn activation_elements(&self) -> usize {
        self.encoder.n_layers * (ENCODER_VECTORS * self.d_model + INNER_VECTORS * self.encoder.d_ff)
    }
}

impl TransformerLanguageModelConfig {
    /// Elements of the K/V cache per token.
    pub(crate) fn cache_elements(&self) -> usize {
        let heads = self.decoder.heads(self.d_model);
        self.decoder.n_layers * heads.n_key_heads * (heads.d_key + heads.d_value)
    }

    /// Activations, in elements, that a training step stores per token: those of an encoder layer, one more vector of width
    /// d_ff for a gate, and logits.
    pub(crate) fn activation_elements(&self) -> usize {
        let inner = INNER_VECTORS + usize::from(self.gated);
        let layer = ENCODER_VECTORS * self.d_model + inner * self.decoder.d_ff;
        self.decoder.n_layers * layer + POOL * self.vocab_size
    }
}

/// The description of a language model, as (label, text).
pub(crate) fn language_model(config: &TransformerLanguageModelConfig) -> Vec<(&'static str, String)> {
    let kind = match config.norm {
        Normalisation::Layer => "layer",
        Normalisation::Rms => "root mean square",
    };
    let norms = norms(config.norm_order, config.final_norm, config.norm_epsilon);
    let gate = if config.gated { ", with a gate" } else { "" };
    let biases = biases(config.biases);
    let output = if config.tie_output { "tied to the embeddings" } else { "a table of its own" };
    let TransformerLanguageModelConfig { pad_id, end_id, start_id, max_len, .. } = config;
    let vocabulary = grouped(config.vocab_size as u64);
    vec![
        ("decoder", stack(config.decoder, config.d_model)),
        ("norms", format!("{kind}, {norms}")),
        ("activation", format!("{}{gate}", config.activation.name())),
        ("biases", biases),
        ("positions", position(config.position, config.max_len)),
        ("attention", format!("{}, causal", pattern(&config.attention))),
        ("output", output.to_owned()),
        ("vocabulary", format!("{vocabulary} ids; padding {pad_id}, end {end_id}, start {start_id}")),
        ("max length", format!("{} tokens", grouped(*max_len as u64))),
    ]
}

/// The description of a speech recogniser, as (label, text).
pub(crate) fn speech(config: &SpeechConfig) -> Vec<(&'static str, String)> {
    let SpeechConfig { n_mels, sample_rate, max_frames, d_model, .. } = config;
    let SpeechConfig { pad_id, end_id, start_id, max_len, .. } = config;
    let padded = if config.pad_sound { "; shorter sounds are padded" } else { "" };
    let seconds = config.seconds(*max_frames);
    vec![
        ("input", format!("{n_mels} mel bands, {sample_rate} Hz, at most {seconds} s{padded}")),
        ("encoder", stack(config.encoder, *d_model)),
        ("decoder", stack(config.decoder, *d_model)),
        ("norms", norms(NormOrder::Pre, true, config.norm_epsilon)),
        ("activation", config.activation.name().to_owned()),
        ("encoder positions", position(config.encoder_position, config.max_positions())),
        ("decoder positions", position(config.position, *max_len)),
        (
            "vocabulary",
            format!(
                "{} ids; padding {pad_id}, end {end_id}, start {start_id}",
                grouped(config.vocab_size as u64)
            ),
        ),
        ("max length", format!("{} tokens", grouped(*max_len as u64))),
    ]
}

/// The description of a translator, as (label, text).
pub(crate) fn translator(config: &TransformerConfig) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("encoder", stack(config.encoder, config.d_model)),
        ("decoder", stack(config.decoder, config.d_model)),
        ("norms", norms(config.norm_order, config.final_norm, config.norm_epsilon)),
        ("activation", config.activation.name().to_owned()),
        ("positions", position(config.position, config.max_len)),
    ];
    let [encoder, decoder] = [pattern(&config.encoder_sight), pattern(&config.decoder_sight)];
    rows.push(("attention", format!("encoder: {encoder}; decoder: {decoder}, causal")));
    if config.cross_projection == CrossProjection::Shared {
        rows.push(("cross-attention", "one key/value projection shared by all layers".to_owned()));
    }
    if config.sources > 1 {
        let encoders = if config.shared_encoder { "one encoder for all" } else { "an encoder each" };
        let combination = match config.combination {
            Combination::Flat => "flat attention, one softmax over all",
            Combination::Hierarchical => "hierarchical attention: to each source, then to their contexts",
            Combination::Parallel => "parallel attention: the contexts of the sources are added",
            Combination::Serial => "serial attention: to one source after the other",
        };
        rows.push(("sources", format!("{}, {encoders}; {combination}", config.sources)));
    }
    rows.extend(config.copy_keys().describe());
    let tie = config.tie.describe();
    let scale = if config.scale_embedding { ", scaled by √d_model" } else { "" };
    let bias = if config.output_bias { ", output bias" } else { "" };
    rows.push(("embeddings", format!("{tie}{scale}{bias}")));
    let [source, target] =
        [config.source_vocab_size, config.target_vocab_size].map(|size| grouped(size as u64));
    let TransformerConfig { pad_id, end_id, start_id, max_len, .. } = config;
    let ids =
        format!("{source} source ids, {target} target ids; padding {pad_id}, end {end_id}, start {start_id}");
    rows.push(("vocabulary", ids));
    rows.push(("max length", format!("{} tokens", grouped(*max_len as u64))));
    rows
}

/// The description of an encoder with class scores, as (label, text).
pub(crate) fn encoder(config: &TransformerEncoderConfig) -> Vec<(&'static str, String)> {
    let pooling = match config.pooling {
        Pooling::First => "the first token's state",
        Pooling::Mean => "the mean over all tokens",
    };
    vec![
        ("encoder", stack(config.encoder, config.d_model)),
        ("norms", norms(config.norm_order, config.final_norm, config.norm_epsilon)),
        ("activation", config.activation.name().to_owned()),
        ("positions", position(config.position, config.max_len)),
        ("attention", pattern(&config.encoder_sight)),
        ("pooling", pooling.to_owned()),
        ("labels", config.labels.join(", ")),
        ("vocabulary", format!("{} ids; padding {}", grouped(config.vocab_size as u64), config.pad_id)),
        ("max length", format!("{} tokens", grouped(config.max_len as u64))),
    ]
}

/// The description of a BERT-like encoder, as (label, text).
pub(crate) fn bert(config: &BertConfig) -> Vec<(&'static str, String)> {
    let bias = if config.norm_bias { "" } else { ", without bias" };
    let norms = norms(config.norm_order, config.final_norm, config.norm_epsilon);
    let gate = if config.gated { ", with a gate" } else { "" };
    let n_buckets = config.position_buckets;
    let buckets =
        if n_buckets > 0 { format!("; {n_buckets} buckets of relative distances") } else { String::new() };
    let attention = match config.global_every {
        0 => pattern(&config.attention),
        n => format!("full in every {n}th layer, else {}", pattern(&config.attention)),
    };
    let layers = match config.transform {
        Transform::None => String::new(),
        Transform::Dense => format!(" after a linear layer with {}", config.transform_activation.name()),
        Transform::DenseNorm => {
            format!(" after a linear layer with {} and a norm", config.transform_activation.name())
        }
    };
    let n_labels = config.labels.len();
    let head = match config.head {
        BertHead::None => "none",
        BertHead::Classes if config.multi_label => "classes of a text, each by itself",
        BertHead::Classes => "classes of a text",
        BertHead::TokenClasses => "classes of each token",
        BertHead::MaskedLanguageModel => "masked words",
    };
    let mut rows = vec![
        ("encoder", stack(config.encoder, config.d_model)),
        ("norms", format!("{norms}{bias}")),
        ("activation", format!("{}{gate}", config.activation.name())),
        ("biases", biases(config.biases)),
        ("positions", format!("{}{buckets}", position(config.position, config.max_len))),
        ("attention", attention),
        ("head", format!("{head}{layers}")),
    ];
    if n_labels > 0 {
        rows.push(("labels", config.labels.join(", ")));
    }
    let ids = grouped(config.vocab_size as u64);
    let types = match config.token_types {
        0 => String::new(),
        n => format!("; {n} token types"),
    };
    rows.push(("vocabulary", format!("{ids} ids; padding {}{types}", config.pad_id)));
    rows.push(("max length", format!("{} tokens", grouped(config.max_len as u64))));
    rows
}

/// The layers that have biases.
fn biases(biases: Biases) -> String {
    let places = [
        (biases.query_key_value, "queries, keys and values"),
        (biases.output, "attention output"),
        (biases.feed_forward, "feed-forward layers"),
    ];
    let places: Vec<&str> = places.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    if places.is_empty() { "none".to_owned() } else { places.join(", ") }
}

fn norms(order: NormOrder, is_final: bool, epsilon: f32) -> String {
    let order = match order {
        NormOrder::Post => "after the residual sum (post-norm)",
        NormOrder::Pre => "before each sub-layer (pre-norm)",
    };
    let last = if is_final { ", final norm at the end of each stack" } else { "" };
    format!("{order}{last}, epsilon {epsilon:e}")
}

pub(crate) fn stack(stack: StackConfig, d_model: usize) -> String {
    let StackConfig { n_layers, n_heads, d_ff, .. } = stack;
    let heads = stack.heads(d_model);
    let width = if heads.d_key == heads.d_value {
        format!("width {}", heads.d_key)
    } else {
        format!("width {} (values {})", heads.d_key, heads.d_value)
    };
    let shared = if heads.n_key_heads == n_heads {
        String::new()
    } else {
        format!(", {} key/value heads", heads.n_key_heads)
    };
    format!("{n_layers} layers, d_model {d_model}, {n_heads} heads of {width}{shared}, d_ff {d_ff}")
}

fn position(position: PositionConfig, max_len: usize) -> String {
    match position {
        PositionConfig::None {} => "none".to_owned(),
        PositionConfig::Sinusoidal { layout } => {
            let order = match layout {
                SinusoidalLayout::Interleaved => "sines and cosines interleaved",
                SinusoidalLayout::Concatenated => "sines, then cosines",
                SinusoidalLayout::Fairseq => "sines, then cosines, fairseq's frequencies and offset",
            };
            format!("sinusoidal ({order})")
        }
        PositionConfig::Learned {} => format!("learned, {max_len} positions"),
        PositionConfig::Relative { max_distance } => format!("relative, distances up to {max_distance}"),
        PositionConfig::Rotary { base, pairing, scaling } => {
            let pairs = match pairing {
                RotaryPairing::Interleaved => "interleaved pairs",
                RotaryPairing::Halves => "pairs of halves",
            };
            let scaling = match scaling {
                None => String::new(),
                Some(RotaryScale::Linear { factor }) => format!(", divided by {factor}"),
                Some(RotaryScale::Llama3 { factor, original, .. }) => {
                    format!(", Llama 3's scaling from {original} positions by {factor}")
                }
                Some(RotaryScale::Yarn { factor, original, .. }) => {
                    format!(", YaRN from {original} positions by {factor}")
                }
            };
            format!("rotary, base {base}, {pairs}{scaling}")
        }
    }
}

fn pattern(pattern: &AttentionPattern) -> String {
    match pattern {
        AttentionPattern::Full => "full".to_owned(),
        AttentionPattern::Window { distance } => format!("window of {distance} tokens to each side"),
        AttentionPattern::Dilated { distance, dilation } => {
            format!("dilated window of {distance} tokens to each side, {dilation} apart")
        }
        AttentionPattern::GlobalWindow { distance, global } => {
            format!("window of {distance} tokens to each side, {} global positions", global.len())
        }
    }
}
