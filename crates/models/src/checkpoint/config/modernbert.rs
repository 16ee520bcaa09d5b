//! Hugging Face's `config.json` of ModernBERT (transformers' `ModernBertConfig`), read and written.
//!
//! Before transformers 5 the bases of the rotary positions were `global_rope_theta` and `local_rope_theta`, and every
//! `global_attn_every_n_layers`-th layer had full attention; now `rope_parameters` and `layer_types` say so.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::bert::labels;
use super::keys::Keys;
use crate::transformer::Pooling;
use crate::transformer::bert::{BertConfig, BertHead, Transform};
use crate::transformer::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, RotaryPairing, StackConfig,
};
use crate::transformer::language_model::Biases;
use crate::{Error, Result};

/// Keys that are read.
const KNOWN: &[&str] = &[
    "attention_bias",
    "attention_dropout",
    "classifier_activation",
    "classifier_bias",
    "classifier_pooling",
    "decoder_bias",
    "embedding_dropout",
    "eos_token_id",
    "global_attn_every_n_layers",
    "global_rope_theta",
    "hidden_activation",
    "hidden_size",
    "intermediate_size",
    "is_encoder_decoder",
    "layer_types",
    "local_attention",
    "local_rope_theta",
    "max_position_embeddings",
    "mlp_bias",
    "mlp_dropout",
    "model_type",
    "norm_bias",
    "norm_eps",
    "num_attention_heads",
    "num_hidden_layers",
    "pad_token_id",
    "position_embedding_type",
    "rope_parameters",
    "rope_scaling",
    "tie_word_embeddings",
    "vocab_size",
];

pub(super) fn read(path: &Path, map: Map<String, Value>, head: BertHead) -> Result<BertConfig> {
    let bases = bases(path, &map)?;
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("tie_word_embeddings", &json!(true), "an output layer apart from the embeddings")?;
    keys.only("decoder_bias", &json!(true), "an output layer without bias")?;
    let n_layers = keys.size("num_hidden_layers", 22)?;
    let attention_bias = keys.flag("attention_bias", false)?;
    let has_transform = head != BertHead::None;
    Ok(BertConfig {
        vocab_size: keys.size("vocab_size", 50_368)?,
        d_model: keys.size("hidden_size", 768)?,
        encoder: StackConfig::new(
            n_layers,
            keys.size("num_attention_heads", 12)?,
            keys.size("intermediate_size", 1152)?,
        ),
        norm_order: NormOrder::Pre,
        final_norm: true,
        norm_epsilon: keys.number("norm_eps", 1e-5)?,
        norm_bias: keys.flag("norm_bias", false)?,
        first_norm: false,
        activation: keys.activation("hidden_activation", "gelu")?,
        gated: true,
        biases: Biases {
            query_key_value: attention_bias,
            output: attention_bias,
            feed_forward: keys.flag("mlp_bias", false)?,
        },
        position: PositionConfig::Rotary { base: bases[0], pairing: RotaryPairing::Halves, scaling: None },
        local_base: bases[1],
        attention: AttentionPattern::Window { distance: keys.size("local_attention", 128)? / 2 },
        global_every: global_every(path, &keys, n_layers)?,
        token_types: 0,
        head,
        transform: if has_transform { Transform::DenseNorm } else { Transform::None },
        transform_activation: keys.activation("classifier_activation", "gelu")?,
        transform_bias: keys.flag("classifier_bias", false)?,
        pooling: if keys.is("classifier_pooling", "mean") { Pooling::Mean } else { Pooling::First },
        multi_label: keys.is("problem_type", "multi_label_classification"),
        special_tokens: true,
        max_len: keys.size("max_position_embeddings", 8192)?,
        pad_id: keys.first_id("pad_token_id")?.unwrap_or(50_283),
        dropout: Dropout {
            embedding: keys.number("embedding_dropout", 0.0)?,
            residual: 0.0,
            attention: keys.number("attention_dropout", 0.0)?,
            activation: keys.number("mlp_dropout", 0.0)?,
        },
        labels: labels(&keys, head)?,
        ..BertConfig::default()
    })
}

/// The bases of the rotary positions of layers with full attention and of the others.
fn bases(path: &Path, map: &Map<String, Value>) -> Result<[f32; 2]> {
    let parameters = map.get("rope_parameters").and_then(Value::as_object);
    let scaling = map.get("rope_scaling").filter(|value| !value.is_null());
    let base = |kind: &str, old: &str, default: f32| {
        let own = parameters.and_then(|parameters| parameters.get(kind)?.as_object());
        let rope_type = own.and_then(|own| own.get("rope_type")).or(scaling);
        if let Some(found) = rope_type.filter(|found| found.as_str() != Some("default")) {
            let message = format!("rotary positions with scaling {found}, expected none");
            return Err(Error::file(path, message, "scaled positions of ModernBERT are not supported"));
        }
        let found = own.and_then(|own| own.get("rope_theta")).or_else(|| map.get(old));
        match found.filter(|found| !found.is_null()) {
            None => Ok(default),
            Some(found) => found.as_f64().map(|base| base as f32).ok_or_else(|| {
                let message = format!("{old} is {found}, expected a number");
                Error::file(path, message, "correct the value")
            }),
        }
    };
    Ok([
        base("full_attention", "global_rope_theta", 160_000.0)?,
        base("sliding_attention", "local_rope_theta", 10_000.0)?,
    ])
}

/// The number n of which every n-th layer has full attention.
fn global_every(path: &Path, keys: &Keys<'_>, n_layers: usize) -> Result<usize> {
    let named = keys.size("global_attn_every_n_layers", 3)?;
    let Some(types) = keys.names("layer_types")? else { return Ok(named) };
    let is_global: Vec<bool> = types.iter().map(|kind| kind == "full_attention").collect();
    let fits = |every: &usize| {
        *every > 0
            && is_global.iter().enumerate().all(|(layer, global)| *global == layer.is_multiple_of(*every))
    };
    if is_global.len() == n_layers
        && let Some(every) = std::iter::once(named).chain(1..=n_layers).find(fits)
    {
        return Ok(every);
    }
    let message =
        format!("layer_types are {}, expected {n_layers}, full attention in every n-th", types.join(", "));
    Err(Error::file(path, message, "other orders of local and global layers are not supported"))
}

/// Sets the keys of a compatible model.
pub(super) fn write(config: &BertConfig, mut set: impl FnMut(&str, Value)) {
    let StackConfig { n_layers, n_heads, d_ff, .. } = config.encoder;
    set("attention_bias", json!(config.biases.output));
    set("attention_dropout", json!(config.dropout.attention));
    set("classifier_activation", json!(config.transform_activation.name()));
    set("classifier_bias", json!(config.transform_bias));
    set("classifier_pooling", json!(if config.pooling == Pooling::Mean { "mean" } else { "cls" }));
    set("embedding_dropout", json!(config.dropout.embedding));
    set("hidden_activation", json!(config.activation.name()));
    set("hidden_size", json!(config.d_model));
    set("intermediate_size", json!(d_ff));
    set("mlp_bias", json!(config.biases.feed_forward));
    set("mlp_dropout", json!(config.dropout.activation));
    set("norm_bias", json!(config.norm_bias));
    set("norm_eps", json!(config.norm_epsilon));
    set("num_attention_heads", json!(n_heads));
    set("num_hidden_layers", json!(n_layers));
    let every = config.global_every.max(1);
    set("global_attn_every_n_layers", json!(every));
    let kind =
        |layer: usize| if layer.is_multiple_of(every) { "full_attention" } else { "sliding_attention" };
    set("layer_types", (0..n_layers).map(kind).collect());
    if let AttentionPattern::Window { distance } = config.attention {
        set("local_attention", json!(2 * distance));
    }
    if let PositionConfig::Rotary { base, .. } = config.position {
        // Read by transformers before version 5, then the same for later versions.
        set("global_rope_theta", json!(base));
        set("local_rope_theta", json!(config.local_base));
        let parameters = |base: f32| json!({ "rope_theta": base, "rope_type": "default" });
        let both = [("full_attention", base), ("sliding_attention", config.local_base)];
        set(
            "rope_parameters",
            both.into_iter().map(|(kind, base)| (kind.to_owned(), parameters(base))).collect(),
        );
    }
}
