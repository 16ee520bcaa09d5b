//! Hugging Face's `config.json` of ViT and DeiT image classifiers (transformers' `ViTConfig` and `DeiTConfig`), read and written.
//!
//! A missing key takes the default of its class. `architectures` names the head.

use std::path::Path;

use polyhead_tensor::Dtype;
use serde_json::{Map, Value, json};

use super::decoder_only::sorted;
use super::keys::Keys;
use crate::checkpoint::names::CheckpointLayout;
use crate::checkpoint::safetensors::torch_name;
use crate::transformer::config::{Dropout, StackConfig};
use crate::vision::{ImagePooling, ImageStem, ImageTokens, VisionConfig};
use crate::{Error, ModelConfig, Result};

/// Keys that are read, and those of layers that a classifier does not have.
const KNOWN: &[&str] = &[
    "attention_probs_dropout_prob",
    "encoder_stride",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "image_size",
    "intermediate_size",
    "is_encoder_decoder",
    "layer_norm_eps",
    "model_type",
    "num_attention_heads",
    "num_channels",
    "num_hidden_layers",
    "patch_size",
    "pooler_act",
    "pooler_output_size",
    "qkv_bias",
];

/// Architectures that are read, with their layouts.
const ARCHITECTURES: [(&str, CheckpointLayout); 3] = [
    ("ViTForImageClassification", CheckpointLayout::Vit),
    ("DeiTForImageClassification", CheckpointLayout::Deit),
    ("DeiTForImageClassificationWithTeacher", CheckpointLayout::DeitWithTeacher),
];

/// The config in `map`, and the layout of the weights.
pub(super) fn read(
    path: &Path,
    model_type: &str,
    map: Map<String, Value>,
) -> Result<(VisionConfig, CheckpointLayout)> {
    let layout = layout(path, model_type, &map)?;
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    let hidden_dropout = keys.number("hidden_dropout_prob", 0.0)?;
    let patch = keys.sides("patch_size", 16)?;
    if patch[0] != patch[1] {
        let message = format!("patch_size is {patch:?}, expected squares");
        return Err(Error::file(path, message, "patches of this shape are not supported"));
    }
    let labels = match keys.labels("id2label")? {
        Some(labels) => labels,
        None => (0..keys.size("num_labels", 2)?).map(|index| format!("LABEL_{index}")).collect(),
    };
    let config = VisionConfig {
        d_model: keys.size("hidden_size", 768)?,
        encoder: StackConfig::new(
            keys.size("num_hidden_layers", 12)?,
            keys.size("num_attention_heads", 12)?,
            keys.size("intermediate_size", 3072)?,
        ),
        norm_epsilon: keys.number("layer_norm_eps", 1e-12)?,
        activation: keys.activation("hidden_act", "gelu")?,
        query_key_value_bias: keys.flag("qkv_bias", true)?,
        patch_size: patch[0],
        stem: ImageStem::Projection,
        image_size: keys.sides("image_size", 224)?,
        channels: keys.size("num_channels", 3)?,
        tokens: if layout == CheckpointLayout::Vit { ImageTokens::Class } else { ImageTokens::Distilled },
        pooling: match layout {
            CheckpointLayout::DeitWithTeacher => ImagePooling::Both,
            _ => ImagePooling::First,
        },
        stochastic_depth: 0.0,
        dropout: Dropout {
            embedding: hidden_dropout,
            residual: hidden_dropout,
            attention: keys.number("attention_probs_dropout_prob", 0.0)?,
            activation: 0.0,
        },
        labels,
    };
    Ok((config, layout))
}

/// The layout of the class that `architectures` names.
fn layout(path: &Path, model_type: &str, map: &Map<String, Value>) -> Result<CheckpointLayout> {
    let architectures = map.get("architectures").and_then(Value::as_array);
    let name = architectures.and_then(|names| names.first()?.as_str()).unwrap_or("nothing");
    let found = ARCHITECTURES.iter().find(|(own, _)| *own == name).map(|(_, layout)| *layout);
    let fits = |layout: &CheckpointLayout| (*layout == CheckpointLayout::Vit) == (model_type == "vit");
    found.filter(fits).ok_or_else(|| {
        let known = ARCHITECTURES.iter().filter(|(_, layout)| fits(layout)).map(|(own, _)| *own);
        let known = known.collect::<Vec<_>>().join(" or ");
        let message = format!("architectures names {name}, expected {known}");
        Error::file(path, message, "save the model with a head that classifies images")
    })
}

/// The first layout whose class can represent a config.
pub(crate) fn fitting(config: &ModelConfig) -> Option<CheckpointLayout> {
    let ModelConfig::Vision(config) = config else { return None };
    CheckpointLayout::IMAGES.into_iter().find(|layout| compatible(*layout, config).is_ok())
}

/// Checks that the class of a layout can represent this config; the error lists the keys that differ from what it computes.
fn compatible(layout: CheckpointLayout, config: &VisionConfig) -> std::result::Result<(), Vec<String>> {
    let text = written(layout, config, Dtype::F32);
    let Ok(Value::Object(map)) = serde_json::from_str(&text) else { unreachable!("written as an object") };
    let model_type = class(layout).1;
    let again = match read(Path::new("config.json"), model_type, map) {
        // Nothing is skipped outside training.
        Ok((again, _)) => VisionConfig { stochastic_depth: config.stochastic_depth, ..again },
        Err(error) => return Err(vec![error.to_string()]),
    };
    if again == *config {
        return Ok(());
    }
    let values = [config, &again].map(|config| serde_json::to_value(config).unwrap_or_default());
    let keys = values[0].as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let reasons = keys.into_iter().filter(|key| values[0].get(key) != values[1].get(key)).map(|key| {
        let [found, expected] = values.each_ref().map(|value| value.get(&key).cloned().unwrap_or_default());
        format!("{key} is {found}, expected {expected}")
    });
    Err(reasons.collect())
}

/// The text of `config.json` for a compatible model with weights stored as `dtype`.
pub(crate) fn text(
    path: &Path,
    config: &VisionConfig,
    (layout, dtype): (CheckpointLayout, Dtype),
) -> Result<String> {
    compatible(layout, config).map_err(|reasons| {
        let message = format!("no {}: {}", class(layout).0, reasons.join("; "));
        Error::file(path, message, "save it in the polyhead layout")
    })?;
    Ok(written(layout, config, dtype))
}

/// The class of a layout, and its `model_type`.
fn class(layout: CheckpointLayout) -> (&'static str, &'static str) {
    let name = ARCHITECTURES.iter().find(|(_, own)| *own == layout).map_or("", |(name, _)| *name);
    (name, if layout == CheckpointLayout::Vit { "vit" } else { "deit" })
}

fn written(layout: CheckpointLayout, config: &VisionConfig, dtype: Dtype) -> String {
    let (architecture, model_type) = class(layout);
    let StackConfig { n_layers, n_heads, d_ff, .. } = config.encoder;
    let [height, width] = config.image_size;
    let pairs = || config.labels.iter().enumerate();
    let names: Map<String, Value> = pairs().map(|(id, label)| (id.to_string(), json!(label))).collect();
    let ids: Map<String, Value> = pairs().map(|(id, label)| (label.clone(), json!(id))).collect();
    sorted(&json!({
        "architectures": [architecture],
        "attention_probs_dropout_prob": config.dropout.attention,
        "dtype": torch_name(dtype),
        "hidden_act": config.activation.name(),
        "hidden_dropout_prob": config.dropout.residual,
        "hidden_size": config.d_model,
        "id2label": names,
        "image_size": if height == width { json!(height) } else { json!([height, width]) },
        "intermediate_size": d_ff,
        "label2id": ids,
        "layer_norm_eps": config.norm_epsilon,
        "model_type": model_type,
        "num_attention_heads": n_heads,
        "num_channels": config.channels,
        "num_hidden_layers": n_layers,
        "patch_size": config.patch_size,
        "qkv_bias": config.query_key_value_bias,
    }))
}
