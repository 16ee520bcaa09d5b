//! Hugging Face's `config.json` of GPT-2 models (transformers' `GPT2Config`), read and written.
//!
//! A missing key takes the default of `GPT2Config`.

use std::path::Path;

use polyhead_tensor::Dtype;
use polyhead_tensor::ops::linear::Activation;
use serde_json::{Map, Value, json};

use super::decoder_only::{Reasons, SpecialKeys, sorted, special_ids};
use super::keys::Keys;
use crate::checkpoint::safetensors::torch_name;
use crate::transformer::TransformerLanguageModelConfig;
use crate::transformer::config::{AttentionPattern, Dropout, NormOrder, PositionConfig, StackConfig};
use crate::transformer::language_model::{Biases, Normalisation};
use crate::{Error, Result};

/// Keys that are read.
const KNOWN: &[&str] = &[
    "activation_function",
    "attn_pdrop",
    "embd_pdrop",
    "eos_token_id",
    "layer_norm_epsilon",
    "model_type",
    "n_embd",
    "n_head",
    "n_inner",
    "n_layer",
    "n_positions",
    "pad_token_id",
    "resid_pdrop",
    "scale_attn_by_inverse_layer_idx",
    "scale_attn_weights",
    "tie_word_embeddings",
    "vocab_size",
];

pub(super) fn read(path: &Path, map: Map<String, Value>) -> Result<TransformerLanguageModelConfig> {
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("scale_attn_weights", &json!(true), "attention without scaled scores")?;
    keys.only("scale_attn_by_inverse_layer_idx", &json!(false), "scaling of attention by layer")?;
    let d_model = keys.size("n_embd", 768)?;
    let vocab_size = keys.size("vocab_size", 50_257)?;
    let ids = special_ids(&keys, vocab_size, [Some(50_256), Some(50_256)])?;
    Ok(TransformerLanguageModelConfig {
        vocab_size,
        d_model,
        decoder: StackConfig::new(
            keys.size("n_layer", 12)?,
            keys.size("n_head", 12)?,
            keys.size("n_inner", d_model.saturating_mul(4))?,
        ),
        norm_epsilon: keys.number("layer_norm_epsilon", 1e-5)?,
        activation: keys.activation("activation_function", "gelu_new")?,
        tie_output: keys.flag("tie_word_embeddings", true)?,
        max_len: keys.size("n_positions", 1024)?,
        pad_id: ids.pad_id,
        end_id: ids.end_id,
        start_id: ids.start_id,
        dropout: Dropout {
            embedding: keys.number("embd_pdrop", 0.1)?,
            residual: keys.number("resid_pdrop", 0.1)?,
            attention: keys.number("attn_pdrop", 0.1)?,
            activation: 0.0,
        },
        ..TransformerLanguageModelConfig::default()
    })
}

/// Checks that transformers' `GPT2LMHeadModel` can represent this config; the error lists all reasons why not.
pub(super) fn compatible(config: &TransformerLanguageModelConfig) -> std::result::Result<(), Vec<String>> {
    let heads = config.decoder.heads(config.d_model);
    let width = config.d_model / config.decoder.n_heads.max(1);
    Reasons::default()
        .unless(config.norm == Normalisation::Layer, "other norms: GPT-2 has layer normalisation")
        .unless(config.norm_order == NormOrder::Pre && config.final_norm, "post-norm: GPT-2 has pre-norm and a final norm")
        .unless(!config.gated, "a gated feed-forward layer: GPT-2 has none")
        .unless(config.biases == Biases::default(), "missing biases: GPT-2 has all")
        .unless(config.position == PositionConfig::Learned {}, "other positions: GPT-2 has learned ones")
        .unless(config.attention == AttentionPattern::Full, "sparse attention: GPT-2 has full attention")
        .unless(!config.scale_embedding, "scaled embeddings: GPT-2 has none")
        .unless(
            [heads.d_key, heads.d_value] == [width; 2] && heads.n_key_heads == heads.n_heads,
            "heads of other widths or shared key/value heads: GPT-2 has n_heads heads of width d_model / n_heads",
        )
        .unless(config.activation != Activation::None, "no activation: GPT-2 has one")
        .found()
}

/// The text of `config.json` for a compatible model with weights stored as `dtype`.
pub(super) fn text(path: &Path, config: &TransformerLanguageModelConfig, dtype: Dtype) -> Result<String> {
    compatible(config).map_err(|reasons| {
        let message = format!("not a GPT-2 model: {}", reasons.join("; "));
        Error::file(path, message, "save it in the polyhead layout")
    })?;
    let SpecialKeys { bos, eos, pad } = SpecialKeys::of(config);
    Ok(sorted(&json!({
        "activation_function": config.activation.name(),
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": config.dropout.attention,
        "bos_token_id": bos,
        "dtype": torch_name(dtype),
        "embd_pdrop": config.dropout.embedding,
        "eos_token_id": eos,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": "gpt2",
        "n_embd": config.d_model,
        "n_head": config.decoder.n_heads,
        "n_inner": config.decoder.d_ff,
        "n_layer": config.decoder.n_layers,
        "n_positions": config.max_len,
        "pad_token_id": pad,
        "resid_pdrop": config.dropout.residual,
        "tie_word_embeddings": config.tie_output,
        "use_cache": true,
        "vocab_size": config.vocab_size,
    })))
}
