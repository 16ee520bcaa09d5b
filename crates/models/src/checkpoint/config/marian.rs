//! Hugging Face's `config.json` of Marian models (transformers' `MarianConfig`), read and written.
//!
//! A missing key takes the default of `MarianConfig`.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_tensor::Dtype;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys::Keys;
use super::pegasus::pegasus_compatible;
use crate::checkpoint::safetensors::{Weights, torch_name};
use crate::copying::Copying;
use crate::transformer::TransformerConfig;
use crate::transformer::config::{
    AttentionPattern, CrossProjection, Dropout, NormOrder, PositionConfig, SinusoidalLayout, StackConfig, Tie,
};
use crate::{Error, ModelConfig, Result};

/// The epsilon of all norms in Marian models.
pub(super) const NORM_EPSILON: f32 = 1e-5;
pub(super) const POSITION: PositionConfig =
    PositionConfig::Sinusoidal { layout: SinusoidalLayout::Concatenated };

/// Keys that are read.
pub(super) const KNOWN: &[&str] = &[
    "activation_dropout",
    "activation_function",
    "add_final_layer_norm",
    "attention_dropout",
    "d_model",
    "decoder_attention_heads",
    "decoder_ffn_dim",
    "decoder_layers",
    "decoder_start_token_id",
    "decoder_vocab_size",
    "dropout",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "encoder_layers",
    "eos_token_id",
    "is_encoder_decoder",
    "max_position_embeddings",
    "model_type",
    "normalize_before",
    "normalize_embedding",
    "pad_token_id",
    "scale_embedding",
    "share_encoder_decoder_embeddings",
    "static_position_embeddings",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "vocab_size",
];

pub(super) fn read(path: &Path, map: Map<String, Value>, weights: &Weights) -> Result<TransformerConfig> {
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("normalize_before", &json!(false), "pre-norm in a Marian model")?;
    keys.only("normalize_embedding", &json!(false), "layer normalisation of the embeddings")?;
    keys.only("add_final_layer_norm", &json!(false), "a final norm in a Marian model")?;
    keys.only("static_position_embeddings", &json!(true), "learned positions in a Marian model")?;
    keys.only("is_encoder_decoder", &json!(true), "a Marian model without an encoder")?;
    keys.only("tie_encoder_decoder", &json!(false), "one stack as both encoder and decoder")?;
    let source_vocab_size = keys.size("vocab_size", 58_101)?;
    Ok(TransformerConfig {
        source_vocab_size,
        target_vocab_size: keys.size("decoder_vocab_size", source_vocab_size)?,
        d_model: keys.size("d_model", 1024)?,
        encoder: stack(&keys, "encoder")?,
        decoder: stack(&keys, "decoder")?,
        norm_order: NormOrder::Post,
        final_norm: false,
        norm_epsilon: NORM_EPSILON,
        activation: keys.activation("activation_function", "gelu")?,
        position: POSITION,
        tie: tie(&keys, weights)?,
        scale_embedding: keys.flag("scale_embedding", false)?,
        // transformers treats a missing bias as zero.
        output_bias: weights.shape("final_logits_bias").is_some(),
        max_len: keys.size("max_position_embeddings", 1024)?,
        pad_id: keys.id("pad_token_id", 58_100)?,
        end_id: keys.id("eos_token_id", 0)?,
        start_id: keys.id("decoder_start_token_id", 58_100)?,
        dropout: dropout(&keys)?,
        ..TransformerConfig::default()
    })
}

pub(super) fn dropout(keys: &Keys<'_>) -> Result<Dropout> {
    Ok(Dropout {
        embedding: keys.number("dropout", 0.1)?,
        residual: keys.number("dropout", 0.1)?,
        attention: keys.number("attention_dropout", 0.0)?,
        activation: keys.number("activation_dropout", 0.0)?,
    })
}

pub(super) fn stack(keys: &Keys<'_>, side: &str) -> Result<StackConfig> {
    let n_layers = keys.size(&format!("{side}_layers"), 12)?;
    let n_heads = keys.size(&format!("{side}_attention_heads"), 16)?;
    Ok(StackConfig::new(n_layers, n_heads, keys.size(&format!("{side}_ffn_dim"), 4096)?))
}

fn tie(keys: &Keys<'_>, weights: &Weights) -> Result<Tie> {
    let shared = keys.flag("share_encoder_decoder_embeddings", true)?;
    Ok(match (shared, keys.flag("tie_word_embeddings", true)?) {
        (true, true) => Tie::All,
        (false, true) => Tie::TargetOutput,
        (false, false) => Tie::None,
        // transformers 5 ties nothing then and stores three tables; transformers 4 still shared the embeddings.
        (true, false) if weights.shape("model.encoder.embed_tokens.weight").is_some() => Tie::None,
        (true, false) => Tie::SourceTarget,
    })
}

/// Checks that transformers' `MarianMTModel` can represent this config; the error lists all reasons why not.
///
/// Only what the model computes matters: Marian's single dropout becomes that of the residuals.
pub fn marian_compatible(config: impl Into<ModelConfig>) -> std::result::Result<(), Vec<String>> {
    let config = TransformerConfig::try_from(config.into()).map_err(|error| vec![error.to_string()])?;
    let mut checks = vec![
        (config.norm_order == NormOrder::Post, "pre-norm: Marian has post-norm only".to_owned()),
        (!config.final_norm, "a final norm: Marian has none".to_owned()),
    ];
    checks.extend(shared_checks(&config, "Marian"));
    checks.push((
        config.tie != Tie::SourceTarget,
        "source and target share an embedding that is not the output's: Marian ties all three, or target and output"
            .to_owned(),
    ));
    reasons(checks)
}

/// Conditions that all of Hugging Face's classes here have in common, with the reason where `class` does not fit.
pub(super) fn shared_checks(config: &TransformerConfig, class: &str) -> Vec<(bool, String)> {
    let epsilon = config.norm_epsilon;
    vec![
        (config.sources == 1, format!("{} sources: {class} reads one", config.sources)),
        (config.copy == Copying::None, format!("copying: {class} only generates")),
        (epsilon == NORM_EPSILON, format!("norm_epsilon {epsilon}: {class} has {NORM_EPSILON} only")),
        (
            config.position == POSITION,
            format!("other positions: {class} has sinusoids, sines first, counted from 0"),
        ),
        (
            config.cross_projection == CrossProjection::PerLayer,
            format!("one cross-attention projection for all layers: {class} has one per layer"),
        ),
        (
            config.encoder_sight == AttentionPattern::Full && config.decoder_sight == AttentionPattern::Full,
            format!("sparse attention: {class} has full attention only"),
        ),
        (
            plain_heads(config),
            format!(
                "heads of other widths or shared key/value heads: {class} has n_heads heads of width d_model / n_heads"
            ),
        ),
    ]
}

/// The reasons of the conditions that do not hold, as an error if there are any.
pub(super) fn reasons(checks: Vec<(bool, String)>) -> std::result::Result<(), Vec<String>> {
    let reasons: Vec<String> =
        checks.into_iter().filter(|(fits, _)| !fits).map(|(_, reason)| reason).collect();
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}

fn plain_heads(config: &TransformerConfig) -> bool {
    [&config.encoder, &config.decoder].into_iter().all(|stack| {
        let width = config.d_model / stack.n_heads.max(1);
        stack.n_key_heads.is_none_or(|heads| heads == stack.n_heads)
            && stack.d_key.is_none_or(|d_key| d_key == width)
            && stack.d_value.is_none_or(|d_value| d_value == width)
            && width * stack.n_heads == config.d_model
    })
}

/// The text of `config.json` for a Marian-compatible model with weights stored as `dtype`.
pub(crate) fn text(path: &Path, config: &TransformerConfig, dtype: Dtype) -> Result<String> {
    marian_compatible(config).map_err(|reasons| {
        let message = format!("not a Marian model: {}", reasons.join("; "));
        let layout = if pegasus_compatible(config).is_ok() { "pegasus" } else { "polyhead" };
        Error::file(path, message, format!("save it in the {layout} layout"))
    })?;
    let own = json!({
        "architectures": ["MarianMTModel"],
        "decoder_vocab_size": config.target_vocab_size,
        "model_type": "marian",
        "share_encoder_decoder_embeddings": config.tie == Tie::All,
    });
    Ok(shared_text(config, dtype, own))
}

/// The text of `config.json`: the keys that Hugging Face's classes here have in common, and those of `own`.
pub(super) fn shared_text(config: &TransformerConfig, dtype: Dtype, own: Value) -> String {
    let is_pre_norm = config.norm_order == NormOrder::Pre;
    let shared = json!({
        "activation_dropout": shortest(config.dropout.activation),
        "activation_function": config.activation.name(),
        // These four are read by CTranslate2's converter and by older versions of transformers.
        "add_final_layer_norm": config.final_norm,
        "normalize_before": is_pre_norm,
        "normalize_embedding": false,
        "static_position_embeddings": true,
        "attention_dropout": shortest(config.dropout.attention),
        "bos_token_id": null,
        "d_model": config.d_model,
        "decoder_attention_heads": config.decoder.n_heads,
        "decoder_ffn_dim": config.decoder.d_ff,
        "decoder_layerdrop": 0.0,
        "decoder_layers": config.decoder.n_layers,
        "decoder_start_token_id": config.start_id,
        "dropout": shortest(config.dropout.residual),
        "dtype": torch_name(dtype),
        "encoder_attention_heads": config.encoder.n_heads,
        "encoder_ffn_dim": config.encoder.d_ff,
        "encoder_layerdrop": 0.0,
        "encoder_layers": config.encoder.n_layers,
        "eos_token_id": config.end_id,
        "forced_eos_token_id": null,
        "init_std": 0.02,
        "is_encoder_decoder": true,
        "max_position_embeddings": config.max_len,
        "pad_token_id": config.pad_id,
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tie != Tie::None,
        "use_cache": true,
        "vocab_size": config.source_vocab_size,
    });
    // In alphabetical order, so that the text does not depend on how maps are built.
    let keys = [shared, own].into_iter().filter_map(|value| value.as_object().cloned()).flatten();
    pretty(&keys.collect::<BTreeMap<String, Value>>())
}

/// The text of `generation_config.json`; padding is never generated.
pub(crate) fn generation_text(config: &TransformerConfig) -> String {
    pretty(&json!({
        "bad_words_ids": [[config.pad_id]],
        "decoder_start_token_id": config.start_id,
        "eos_token_id": config.end_id,
        "max_length": config.max_len,
        "num_beams": 1,
        "pad_token_id": config.pad_id,
    }))
}

/// The f64 with the same shortest decimal representation as the f32: 0.1, not 0.10000000149.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().expect("an f32 prints as a number")
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a Value always serialises") + "\n"
}
