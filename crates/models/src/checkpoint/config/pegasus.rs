//! Hugging Face's `config.json` of Pegasus models (transformers' `PegasusConfig`), read and written: Marian's model with
//! pre-norm and final norms.
//!
//! A missing key takes the default of `PegasusConfig`.

use std::path::Path;

use polyhead_tensor::Dtype;
use serde_json::{Map, Value, json};

use super::keys::Keys;
use super::marian::{KNOWN, NORM_EPSILON, POSITION, dropout, reasons, shared_checks, shared_text, stack};
use crate::checkpoint::safetensors::Weights;
use crate::transformer::TransformerConfig;
use crate::transformer::config::{NormOrder, Tie};
use crate::{Error, ModelConfig, Result};

pub(super) fn read(path: &Path, map: Map<String, Value>, weights: &Weights) -> Result<TransformerConfig> {
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("normalize_before", &json!(true), "post-norm in a Pegasus model")?;
    keys.only("normalize_embedding", &json!(false), "layer normalisation of the embeddings")?;
    keys.only("add_final_layer_norm", &json!(true), "a Pegasus model without final norms")?;
    keys.only("static_position_embeddings", &json!(true), "learned positions in a Pegasus model")?;
    keys.only("is_encoder_decoder", &json!(true), "a Pegasus model without an encoder")?;
    keys.only("tie_encoder_decoder", &json!(false), "one stack as both encoder and decoder")?;
    keys.only("tie_word_embeddings", &json!(true), "an output layer of its own in a Pegasus model")?;
    let vocab_size = keys.size("vocab_size", 50_265)?;
    Ok(TransformerConfig {
        source_vocab_size: vocab_size,
        target_vocab_size: vocab_size,
        d_model: keys.size("d_model", 1024)?,
        encoder: stack(&keys, "encoder")?,
        decoder: stack(&keys, "decoder")?,
        norm_order: NormOrder::Pre,
        final_norm: true,
        norm_epsilon: NORM_EPSILON,
        activation: keys.activation("activation_function", "gelu")?,
        position: POSITION,
        tie: Tie::All,
        scale_embedding: keys.flag("scale_embedding", false)?,
        // transformers treats a missing bias as zero.
        output_bias: weights.shape("final_logits_bias").is_some(),
        max_len: keys.size("max_position_embeddings", 1024)?,
        pad_id: keys.id("pad_token_id", 0)?,
        end_id: keys.id("eos_token_id", 1)?,
        start_id: keys.id("decoder_start_token_id", 0)?,
        dropout: dropout(&keys)?,
        ..TransformerConfig::default()
    })
}

/// Checks that transformers' `PegasusForConditionalGeneration` can represent this config; the error lists all reasons why
/// not.
///
/// Only what the model computes matters: Pegasus' single dropout becomes that of the residuals.
pub fn pegasus_compatible(config: impl Into<ModelConfig>) -> std::result::Result<(), Vec<String>> {
    let config = TransformerConfig::try_from(config.into()).map_err(|error| vec![error.to_string()])?;
    let mut checks = vec![
        (config.norm_order == NormOrder::Pre, "post-norm: Pegasus has pre-norm only".to_owned()),
        (config.final_norm, "no final norm: Pegasus has one in each stack".to_owned()),
    ];
    checks.extend(shared_checks(&config, "Pegasus"));
    checks.push((
        config.tie == Tie::All,
        "separate embeddings: Pegasus has one table for source, target and output".to_owned(),
    ));
    reasons(checks)
}

/// The text of `config.json` for a Pegasus-compatible model with weights stored as `dtype`.
pub(crate) fn text(path: &Path, config: &TransformerConfig, dtype: Dtype) -> Result<String> {
    pegasus_compatible(config).map_err(|reasons| {
        let message = format!("not a Pegasus model: {}", reasons.join("; "));
        let layout = if super::marian_compatible(config).is_ok() { "marian" } else { "polyhead" };
        Error::file(path, message, format!("save it in the {layout} layout"))
    })?;
    let own = json!({ "architectures": ["PegasusForConditionalGeneration"], "model_type": "pegasus" });
    Ok(shared_text(config, dtype, own))
}
