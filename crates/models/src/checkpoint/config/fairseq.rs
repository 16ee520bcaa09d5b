//! fairseq's `args.json`, the arguments of a training run; vocabulary sizes are read from the weights.
//!
//! The keys are many and differ by version, so unknown ones are accepted; those that change the model are read or rejected.
//! A missing key takes fairseq's own default (`base_architecture`).

use std::path::Path;

use serde_json::{Map, Value, json};

use super::keys::Keys;
use crate::checkpoint::safetensors::Weights;
use crate::transformer::TransformerConfig;
use crate::transformer::config::{Dropout, NormOrder, PositionConfig, SinusoidalLayout, StackConfig, Tie};
use crate::{Error, Result};

/// Dictionaries of fairseq begin with `<s>`, `<pad>`, `</s>`, `<unk>`; sentences start with `</s>`.
const PAD_ID: u32 = 1;
const END_ID: u32 = 2;

pub(super) fn read(path: &Path, map: Map<String, Value>, weights: &Weights) -> Result<TransformerConfig> {
    let keys = Keys::new(path, map);
    let d_model = keys.size("encoder_embed_dim", 512)?;
    reject_unsupported(&keys, d_model)?;
    let pre = keys.flag("encoder_normalize_before", false)?;
    keys.only(
        "decoder_normalize_before",
        &json!(pre),
        "a norm order of the decoder that differs from the encoder's",
    )?;
    let position = if keys.flag("no_token_positional_embeddings", false)? {
        PositionConfig::None {}
    } else {
        PositionConfig::Sinusoidal { layout: SinusoidalLayout::Fairseq }
    };
    Ok(TransformerConfig {
        source_vocab_size: rows(weights, "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")?,
        target_vocab_size: rows(weights, "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")?,
        d_model,
        encoder: stack(&keys, "encoder")?,
        decoder: stack(&keys, "decoder")?,
        norm_order: if pre { NormOrder::Pre } else { NormOrder::Post },
        final_norm: pre,
        norm_epsilon: 1e-5,
        activation: keys.activation("activation_fn", "relu")?,
        position,
        tie: tie(&keys)?,
        scale_embedding: !keys.flag("no_scale_embedding", false)?,
        output_bias: false,
        max_len: keys.size("max_source_positions", 1024)?.max(keys.size("max_target_positions", 1024)?),
        pad_id: PAD_ID,
        end_id: END_ID,
        start_id: END_ID,
        dropout: dropout(&keys)?,
        ..TransformerConfig::default()
    })
}

/// Rejects keys that change the model in ways that are not supported.
fn reject_unsupported(keys: &Keys<'_>, d_model: usize) -> Result<()> {
    let width = json!(d_model);
    for key in ["decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"] {
        keys.only(key, &width, "a width that differs from encoder_embed_dim")?;
    }
    keys.only("encoder_learned_pos", &json!(false), "learned positions in a fairseq model")?;
    keys.only("decoder_learned_pos", &json!(false), "learned positions in a fairseq model")?;
    keys.only("layernorm_embedding", &json!(false), "layer normalisation of the embeddings")?;
    keys.only("adaptive_input", &json!(false), "adaptive input")?;
    keys.only("adaptive_softmax_cutoff", &Value::Null, "an adaptive softmax")?;
    keys.only("cross_self_attention", &json!(false), "combined cross- and self-attention")?;
    keys.only("no_cross_attention", &json!(false), "a decoder without cross-attention")?;
    keys.only("no_decoder_final_norm", &json!(false), "a pre-norm decoder without a final norm")?;
    keys.only("encoder_layers_to_keep", &Value::Null, "a subset of layers")?;
    keys.only("decoder_layers_to_keep", &Value::Null, "a subset of layers")
}

fn stack(keys: &Keys<'_>, side: &str) -> Result<StackConfig> {
    let n_layers = keys.size(&format!("{side}_layers"), 6)?;
    let n_heads = keys.size(&format!("{side}_attention_heads"), 8)?;
    Ok(StackConfig::new(n_layers, n_heads, keys.size(&format!("{side}_ffn_embed_dim"), 2048)?))
}

fn tie(keys: &Keys<'_>) -> Result<Tie> {
    Ok(if keys.flag("share_all_embeddings", false)? {
        Tie::All
    } else if keys.flag("share_decoder_input_output_embed", false)? {
        Tie::TargetOutput
    } else {
        Tie::None
    })
}

fn dropout(keys: &Keys<'_>) -> Result<Dropout> {
    let activation = keys.number("activation_dropout", 0.0)?;
    Ok(Dropout {
        embedding: keys.number("dropout", 0.1)?,
        residual: keys.number("dropout", 0.1)?,
        attention: keys.number("attention_dropout", 0.0)?,
        // The older name applies where the newer one is 0.
        activation: if activation == 0.0 { keys.number("relu_dropout", 0.0)? } else { activation },
    })
}

/// Number of rows of the tensor `name`, or of `other`, which it may be tied to.
fn rows(weights: &Weights, name: &str, other: &str) -> Result<usize> {
    let shape = weights.shape(name).or_else(|| weights.shape(other));
    shape.and_then(|shape| shape.first().copied()).ok_or_else(|| {
        let message = format!("tensor {name} is missing, expected one row per token id");
        Error::file(weights.path(), message, "is this a fairseq translation model?")
    })
}
