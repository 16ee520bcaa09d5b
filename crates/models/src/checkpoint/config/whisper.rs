//! Hugging Face's `config.json` of Whisper models (transformers' `WhisperConfig`), read.
//!
//! A missing key takes the default of `WhisperConfig`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::keys::Keys;
use super::marian::{dropout, stack};
use crate::Result;
use crate::speech::SpeechConfig;
use crate::transformer::config::PositionConfig;

/// Frames of a position of the encoder.
const STRIDE: usize = 2;

/// Keys that are read, and those that describe training or decoding only.
const KNOWN: &[&str] = &[
    "activation_dropout",
    "activation_function",
    "alignment_heads",
    "apply_spec_augment",
    "attention_dropout",
    "classifier_proj_size",
    "d_model",
    "decoder_attention_heads",
    "decoder_ffn_dim",
    "decoder_layers",
    "decoder_start_token_id",
    "dropout",
    "encoder_attention_heads",
    "encoder_ffn_dim",
    "encoder_layers",
    "eos_token_id",
    "forced_decoder_ids",
    "is_encoder_decoder",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_prob",
    "max_source_positions",
    "max_target_positions",
    "median_filter_width",
    "model_type",
    "num_mel_bins",
    "pad_token_id",
    "scale_embedding",
    "tie_word_embeddings",
    "use_weighted_layer_sum",
    "vocab_size",
];

pub(super) fn read(path: &Path, map: Map<String, Value>) -> Result<SpeechConfig> {
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("is_encoder_decoder", &json!(true), "a Whisper model without a decoder")?;
    keys.only("scale_embedding", &json!(false), "scaling of embeddings in a Whisper model")?;
    keys.only("tie_word_embeddings", &json!(true), "an output layer of its own in a Whisper model")?;
    Ok(SpeechConfig {
        vocab_size: keys.size("vocab_size", 51_865)?,
        d_model: keys.size("d_model", 384)?,
        encoder: stack(&keys, "encoder")?,
        decoder: stack(&keys, "decoder")?,
        sample_rate: 16_000,
        n_mels: keys.size("num_mel_bins", 80)?,
        normalize_frames: false,
        max_frames: keys.size("max_source_positions", 1_500)?.saturating_mul(STRIDE),
        pad_sound: true,
        encoder_position: PositionConfig::Learned {},
        position: PositionConfig::Learned {},
        activation: keys.activation("activation_function", "gelu")?,
        max_len: keys.size("max_target_positions", 448)?,
        pad_id: keys.id("pad_token_id", 50_256)?,
        end_id: keys.id("eos_token_id", 50_256)?,
        start_id: keys.id("decoder_start_token_id", 50_257)?,
        dropout: dropout(&keys)?,
        ..SpeechConfig::default()
    })
}
