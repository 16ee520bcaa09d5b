//! Configs of the Transformer's families for people, and their sizes in numbers.

use polyhead_text::figures::grouped;

use super::config::{
    CrossProjection, NormOrder, PositionConfig, RotaryPairing, Sight, SinusoidalLayout, StackConfig, Tie,
};
use super::{Pooling, TransformerConfig, TransformerEncoderConfig};

/// Vectors of d_model that a layer keeps for each token until the backward pass.
const ENCODER_VECTORS: usize = 10;
const DECODER_VECTORS: usize = 16;
/// Vectors of d_ff that it keeps.
const INNER_VECTORS: usize = 2;
/// Rows of the vocabulary's width that stand for what the pool holds besides.
const POOL: usize = 2;

impl TransformerConfig {
    /// Numbers of the K/V cache for each target token and each source token.
    pub(crate) fn cache_numbers(&self) -> [usize; 2] {
        let heads = self.decoder.heads(self.d_model);
        let layer = heads.n_key_heads * (heads.d_key + heads.d_value);
        let all = layer * self.decoder.n_layers;
        let source = match self.cross_projection {
            CrossProjection::PerLayer => all,
            CrossProjection::Shared => layer,
        };
        [all, source]
    }

    /// Numbers that a training step keeps for each source token and each target token. Each layer keeps its inputs for the
    /// backward pass: about 10 vectors a token in the encoder, 16 in the decoder, and two as wide as the feed-forward layer.
    /// Batches change their shape, so the pool holds buffers of other shapes too; two rows as wide as the vocabulary for
    /// each target token stand for them.
    pub(crate) fn training_numbers(&self) -> [usize; 2] {
        let layer = |vectors: usize, d_ff: usize| vectors * self.d_model + INNER_VECTORS * d_ff;
        let encoder = self.encoder.n_layers * layer(ENCODER_VECTORS, self.encoder.d_ff);
        let decoder =
            self.decoder.n_layers * layer(DECODER_VECTORS, self.decoder.d_ff) + POOL * self.target_vocab_size;
        [encoder, decoder]
    }
}

impl TransformerEncoderConfig {
    /// Numbers that a training step keeps for each token.
    pub(crate) fn training_numbers(&self) -> usize {
        self.encoder.n_layers * (ENCODER_VECTORS * self.d_model + INNER_VECTORS * self.encoder.d_ff)
    }
}

/// Rows of a table: what a translator is.
pub(crate) fn translator(config: &TransformerConfig) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("encoder", stack(config.encoder, config.d_model)),
        ("decoder", stack(config.decoder, config.d_model)),
        ("norms", norms(config.norm_order, config.final_norm, config.norm_epsilon)),
        ("activation", config.activation.name().to_owned()),
        ("positions", position(config.position, config.max_len)),
    ];
    let [encoder, decoder] = [sight(&config.encoder_sight), sight(&config.decoder_sight)];
    rows.push(("sight", format!("encoder {encoder}; decoder {decoder} up to the token itself")));
    if config.cross_projection == CrossProjection::Shared {
        rows.push(("cross-attention", "one projection of keys and values for all layers".to_owned()));
    }
    let tie = match config.tie {
        Tie::None => "source, target and output have a table each",
        Tie::TargetOutput => "target and output share a table, the source has its own",
        Tie::SourceTarget => "source and target share a table, the output has its own",
        Tie::All => "source, target and output share one table",
    };
    let scale = if config.scale_embedding { ", times √d_model" } else { "" };
    let bias = if config.output_bias { ", a bias on the logits" } else { "" };
    rows.push(("embeddings", format!("{tie}{scale}{bias}")));
    let [source, target] =
        [config.source_vocab_size, config.target_vocab_size].map(|size| grouped(size as u64));
    let TransformerConfig { pad_id, end_id, start_id, max_len, .. } = config;
    let ids = format!(
        "{source} of the source, {target} of the target; padding {pad_id}, end {end_id}, start {start_id}"
    );
    rows.push(("ids", ids));
    rows.push(("longest", format!("{} tokens", grouped(*max_len as u64))));
    rows
}

/// Rows of a table: what an encoder with classes is.
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
        ("sight", sight(&config.encoder_sight)),
        ("pooling", pooling.to_owned()),
        ("labels", config.labels.join(", ")),
        ("ids", format!("{}; padding {}", grouped(config.vocab_size as u64), config.pad_id)),
        ("longest", format!("{} tokens", grouped(config.max_len as u64))),
    ]
}

fn norms(order: NormOrder, is_final: bool, epsilon: f32) -> String {
    let order = match order {
        NormOrder::Post => "after the residual sum (post-norm)",
        NormOrder::Pre => "before each sub-layer (pre-norm)",
    };
    let last = if is_final { ", one at the end of each stack" } else { "" };
    format!("{order}{last}, epsilon {epsilon:e}")
}

fn stack(stack: StackConfig, d_model: usize) -> String {
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
        format!(", {} of keys and values", heads.n_key_heads)
    };
    format!("{n_layers} layers, d_model {d_model}, {n_heads} heads of {width}{shared}, d_ff {d_ff}")
}

fn position(position: PositionConfig, max_len: usize) -> String {
    match position {
        PositionConfig::None {} => "none".to_owned(),
        PositionConfig::Sinusoidal { layout } => {
            let order = match layout {
                SinusoidalLayout::Interleaved => "sines and cosines in turn",
                SinusoidalLayout::Concatenated => "sines, then cosines",
                SinusoidalLayout::Fairseq => "sines, then cosines, as fairseq counts",
            };
            format!("sinusoidal ({order})")
        }
        PositionConfig::Learned {} => format!("learned, {max_len} of them"),
        PositionConfig::Relative { max_distance } => format!("relative, up to a distance of {max_distance}"),
        PositionConfig::Rotary { base, pairing } => {
            let pairs = match pairing {
                RotaryPairing::Interleaved => "neighbours",
                RotaryPairing::Halves => "halves",
            };
            format!("rotary, base {base}, {pairs} in pairs")
        }
    }
}

fn sight(sight: &Sight) -> String {
    match sight {
        Sight::Full => "sees everything".to_owned(),
        Sight::Window { distance } => format!("sees tokens up to {distance} away"),
        Sight::Dilated { distance, dilation } => {
            format!("sees {distance} tokens to each side, {dilation} apart")
        }
        Sight::GlobalWindow { distance, global } => {
            format!("sees tokens up to {distance} away and {} positions for all", global.len())
        }
    }
}
