//! Hugging Face's `config.json` of Llama, Mistral and Qwen2 models (transformers' `LlamaConfig`, `MistralConfig` and
//! `Qwen2Config`), read and written.
//!
//! A missing key takes the default of its class. Rotary positions are in `rope_theta` and `rope_scaling`, or, since
//! transformers 5, in `rope_parameters`.

use std::path::Path;

use polyhead_tensor::Dtype;
use polyhead_tensor::ops::linear::Activation;
use serde_json::{Map, Value, json};

use super::decoder_only::{Reasons, SpecialKeys, sorted, special_ids};
use super::keys::Keys;
use super::rope;
use crate::checkpoint::safetensors::torch_name;
use crate::transformer::TransformerLanguageModelConfig;
use crate::transformer::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, RotaryPairing, StackConfig,
};
use crate::transformer::language_model::{Biases, Normalisation};
use crate::{Error, Result};

/// Values of `model_type` that this file reads.
pub(super) const MODEL_TYPES: [&str; 3] = ["llama", "mistral", "qwen2"];

/// Keys that are read.
const KNOWN: &[&str] = &[
    "attention_bias",
    "attention_dropout",
    "eos_token_id",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "pad_token_id",
    "partial_rotary_factor",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "tie_word_embeddings",
    "use_sliding_window",
    "vocab_size",
];

/// The defaults of a class: vocabulary, d_ff, key/value heads, positions, and ids of the start and end tokens.
struct Defaults {
    vocab_size: usize,
    d_ff: usize,
    n_key_heads: Option<usize>,
    max_len: usize,
    ids: [Option<u32>; 2],
}

impl Defaults {
    fn of(model_type: &str) -> Self {
        let (n_key_heads, ids) = (None, [Some(1), Some(2)]);
        match model_type {
            "mistral" => {
                Self { vocab_size: 32_000, d_ff: 14_336, n_key_heads: Some(8), max_len: 131_072, ids }
            }
            "qwen2" => Self {
                vocab_size: 151_936,
                d_ff: 22_016,
                n_key_heads: Some(32),
                max_len: 32_768,
                ids: [None, Some(151_643)],
            },
            _ => Self { vocab_size: 32_000, d_ff: 11_008, n_key_heads, max_len: 2048, ids },
        }
    }
}

pub(super) fn read(
    path: &Path,
    model_type: &str,
    map: Map<String, Value>,
) -> Result<TransformerLanguageModelConfig> {
    let rope = rope::Section::of(&map);
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("partial_rotary_factor", &json!(1.0), "rotation of a part of the heads")?;
    let defaults = Defaults::of(model_type);
    let d_model = keys.size("hidden_size", 4096)?;
    let n_heads = keys.size("num_attention_heads", 32)?;
    let n_layers = keys.size("num_hidden_layers", 32)?;
    let max_len = keys.size("max_position_embeddings", defaults.max_len)?;
    let vocab_size = keys.size("vocab_size", defaults.vocab_size)?;
    let n_key_heads = keys.size("num_key_value_heads", defaults.n_key_heads.unwrap_or(n_heads))?;
    let d_head = match keys.size("head_dim", 0)? {
        0 => None,
        d_head if d_head.checked_mul(n_heads) == Some(d_model) => None,
        d_head => Some(d_head),
    };
    let decoder = StackConfig {
        n_key_heads: Some(n_key_heads).filter(|heads| *heads != n_heads),
        d_key: d_head,
        d_value: d_head,
        ..StackConfig::new(n_layers, n_heads, keys.size("intermediate_size", defaults.d_ff)?)
    };
    let ids = special_ids(&keys, vocab_size, defaults.ids)?;
    let dropout = Dropout {
        embedding: 0.0,
        residual: 0.0,
        attention: keys.number("attention_dropout", 0.0)?,
        activation: 0.0,
    };
    Ok(TransformerLanguageModelConfig {
        vocab_size,
        d_model,
        decoder,
        norm: Normalisation::Rms,
        norm_epsilon: keys.number("rms_norm_eps", 1e-6)?,
        activation: keys.activation("hidden_act", "silu")?,
        gated: true,
        biases: biases(&keys, model_type)?,
        position: PositionConfig::Rotary {
            base: rope.base(path)?,
            pairing: RotaryPairing::Halves,
            scaling: rope.scaling(path, max_len)?,
        },
        attention: attention(path, &keys, (model_type, max_len, n_layers))?,
        tie_output: keys.flag("tie_word_embeddings", false)?,
        max_len,
        pad_id: ids.pad_id,
        end_id: ids.end_id,
        start_id: ids.start_id,
        dropout,
        ..TransformerLanguageModelConfig::default()
    })
}

fn biases(keys: &Keys<'_>, model_type: &str) -> Result<Biases> {
    if model_type != "llama" {
        return Ok(Biases { query_key_value: model_type == "qwen2", ..Biases::NONE });
    }
    let attention = keys.flag("attention_bias", false)?;
    let feed_forward = keys.flag("mlp_bias", false)?;
    Ok(Biases { query_key_value: attention, output: attention, feed_forward })
}

/// The sliding window: a token attends to itself and the `sliding_window` − 1 tokens before it.
fn attention(
    path: &Path,
    keys: &Keys<'_>,
    (model_type, max_len, n_layers): (&str, usize, usize),
) -> Result<AttentionPattern> {
    let window = match model_type {
        "mistral" => keys.size("sliding_window", 0)?,
        "qwen2" if keys.flag("use_sliding_window", false)? => keys.size("sliding_window", 4096)?,
        _ => 0,
    };
    let types = keys.names("layer_types")?;
    let full = match &types {
        // Qwen2's windows begin after this layer.
        None if model_type == "qwen2" && window > 0 => keys.size("max_window_layers", 28)?.min(n_layers),
        None => 0,
        Some(types) => types.iter().filter(|kind| *kind == "full_attention").count(),
    };
    let windowed = types.as_ref().map_or(n_layers, Vec::len).saturating_sub(full);
    if window == 0 || windowed == 0 || window >= max_len {
        return Ok(AttentionPattern::Full);
    }
    if full > 0 {
        let message = format!("{full} layers with full attention and {windowed} with a window");
        return Err(Error::file(path, message, "layers with different patterns are not supported"));
    }
    if window == 1 {
        return Err(Error::file(path, "sliding_window is 1", "a window needs two tokens or more"));
    }
    Ok(AttentionPattern::Window { distance: window - 1 })
}

/// Checks that one of the classes can represent this config; the error lists all reasons why not.
pub(super) fn compatible(config: &TransformerLanguageModelConfig) -> std::result::Result<(), Vec<String>> {
    let heads = config.decoder.heads(config.d_model);
    let halves = matches!(config.position, PositionConfig::Rotary { pairing: RotaryPairing::Halves, .. });
    let is_window = matches!(config.attention, AttentionPattern::Window { .. });
    let is_full = config.attention == AttentionPattern::Full;
    let Biases { query_key_value, output, feed_forward } = config.biases;
    // Qwen2 has biases of queries, keys and values alone, Llama those of all four projections or none.
    let has_class = query_key_value == output || (query_key_value && !feed_forward);
    Reasons::default()
        .unless(config.norm == Normalisation::Rms, "other norms: Llama has root mean square norms")
        .unless(
            config.norm_order == NormOrder::Pre && config.final_norm,
            "post-norm: Llama has pre-norm and a final norm",
        )
        .unless(config.gated, "a feed-forward layer without a gate: Llama's has one")
        .unless(halves, "other positions: Llama rotates pairs of halves")
        .unless(is_full || is_window, "this sparse attention: Mistral has sliding windows")
        .unless(!config.scale_embedding, "scaled embeddings: Llama has none")
        .unless(heads.d_key == heads.d_value, "values of another width than keys: Llama's have the same")
        .unless(
            if is_full { has_class } else { config.biases == Biases::NONE },
            "these biases: Llama has those of all projections of attention or none, Qwen2 those of queries, keys and values, \
             Mistral none",
        )
        .unless(config.activation != Activation::None, "no activation: Llama has one")
        .found()
}

/// The text of `config.json` for a compatible model with weights stored as `dtype`.
pub(super) fn text(path: &Path, config: &TransformerLanguageModelConfig, dtype: Dtype) -> Result<String> {
    compatible(config).map_err(|reasons| {
        let message = format!("not a Llama, Mistral or Qwen2 model: {}", reasons.join("; "));
        Error::file(path, message, "save it in the polyhead layout")
    })?;
    let heads = config.decoder.heads(config.d_model);
    let SpecialKeys { bos, eos, pad } = SpecialKeys::of(config);
    let mut value = json!({
        "attention_dropout": config.dropout.attention,
        "bos_token_id": bos,
        "dtype": torch_name(dtype),
        "eos_token_id": eos,
        "head_dim": heads.d_key,
        "hidden_act": config.activation.name(),
        "hidden_size": config.d_model,
        "intermediate_size": config.decoder.d_ff,
        "max_position_embeddings": config.max_len,
        "num_attention_heads": heads.n_heads,
        "num_hidden_layers": config.decoder.n_layers,
        "num_key_value_heads": heads.n_key_heads,
        "pad_token_id": pad,
        "rms_norm_eps": config.norm_epsilon,
        "tie_word_embeddings": config.tie_output,
        "use_cache": true,
        "vocab_size": config.vocab_size,
    });
    let map = value.as_object_mut().expect("an object");
    if let PositionConfig::Rotary { base, scaling, .. } = config.position {
        // Read by transformers before version 5 and by other programs; then the same for later versions.
        map.insert("rope_theta".into(), json!(base));
        map.insert("rope_scaling".into(), rope::scaling_value(scaling));
        map.insert("rope_parameters".into(), rope::parameters(base, scaling));
    }
    let (model_type, class) = match (&config.attention, config.biases) {
        (AttentionPattern::Window { distance }, _) => {
            map.insert("sliding_window".into(), json!(distance + 1));
            ("mistral", "MistralForCausalLM")
        }
        (_, Biases { query_key_value: true, output: false, .. }) => {
            map.insert("use_sliding_window".into(), json!(false));
            ("qwen2", "Qwen2ForCausalLM")
        }
        (_, biases) => {
            map.insert("attention_bias".into(), json!(biases.output));
            map.insert("mlp_bias".into(), json!(biases.feed_forward));
            ("llama", "LlamaForCausalLM")
        }
    };
    map.insert("model_type".into(), json!(model_type));
    map.insert("architectures".into(), json!([class]));
    Ok(sorted(&value))
}
