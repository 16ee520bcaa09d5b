//! Hugging Face's `config.json` of BERT, RoBERTa, XLM-RoBERTa, DistilBERT and MPNet models (transformers' `BertConfig`,
//! `RobertaConfig`, `DistilBertConfig` and `MPNetConfig`), read and written; `modernbert.rs` has that of ModernBERT.
//!
//! A missing key takes the default of its class. `architectures` names the head; which layers it has, the weights decide.

use std::path::Path;

use polyhead_tensor::Dtype;
use polyhead_tensor::ops::linear::Activation;
use serde_json::{Map, Value, json};

use super::decoder_only::sorted;
use super::keys::Keys;
use super::modernbert;
use crate::checkpoint::names::CheckpointLayout;
use crate::checkpoint::safetensors::torch_name;
use crate::transformer::Pooling;
use crate::transformer::bert::{BertConfig, BertHead, Transform};
use crate::transformer::config::{Dropout, PositionConfig, StackConfig};
use crate::{Error, ModelConfig, Result};

/// Keys that are read.
const KNOWN: &[&str] = &[
    "activation",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "dim",
    "dropout",
    "eos_token_id",
    "hidden_act",
    "hidden_dim",
    "hidden_dropout_prob",
    "hidden_size",
    "intermediate_size",
    "is_encoder_decoder",
    "layer_norm_eps",
    "max_position_embeddings",
    "model_type",
    "n_heads",
    "n_layers",
    "num_attention_heads",
    "num_hidden_layers",
    "pad_token_id",
    "position_embedding_type",
    "relative_attention_num_buckets",
    "tie_word_embeddings",
    "type_vocab_size",
    "vocab_size",
];

/// Endings of the names of architectures, and their heads.
const HEADS: [(&str, BertHead); 5] = [
    ("Model", BertHead::None),
    ("ForSequenceClassification", BertHead::Classes),
    ("ForTokenClassification", BertHead::TokenClasses),
    ("ForMaskedLM", BertHead::MaskedLanguageModel),
    ("ForPreTraining", BertHead::MaskedLanguageModel),
];

/// Endings of the names of a masked language model's bias, by class.
const OUTPUT_BIASES: [&str; 4] =
    ["cls.predictions.bias", "lm_head.bias", "vocab_projector.bias", "decoder.bias"];
/// Number of buckets of relative distances in MPNet.
const MPNET_BUCKETS: usize = 32;
/// The ending of the name of the pooling layer's weight.
const POOLER: &str = "pooler.dense.weight";

/// Hugging Face's class of a layout.
struct Class {
    /// The start of the names of its architectures.
    name: &'static str,
    model_type: &'static str,
    vocab_size: usize,
    max_positions: usize,
    epsilon: f32,
    pad_id: u32,
    /// d_model, layers, heads, d_ff, activation, dropout and attention dropout.
    keys: [&'static str; 7],
}

/// Key names of all but DistilBERT.
const KEYS: [&str; 7] = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
];

impl Class {
    fn of(layout: CheckpointLayout) -> Self {
        let bert = Self {
            name: "Bert",
            model_type: "bert",
            vocab_size: 30_522,
            max_positions: 512,
            epsilon: 1e-12,
            pad_id: 0,
            keys: KEYS,
        };
        match layout {
            CheckpointLayout::Roberta => {
                Self { name: "Roberta", model_type: "roberta", vocab_size: 50_265, pad_id: 1, ..bert }
            }
            CheckpointLayout::Mpnet => {
                Self { name: "MPNet", model_type: "mpnet", vocab_size: 30_527, pad_id: 1, ..bert }
            }
            CheckpointLayout::Distilbert => Self {
                name: "DistilBert",
                model_type: "distilbert",
                keys: [
                    "dim",
                    "n_layers",
                    "n_heads",
                    "hidden_dim",
                    "activation",
                    "dropout",
                    "attention_dropout",
                ],
                ..bert
            },
            CheckpointLayout::Modernbert => Self { name: "ModernBert", model_type: "modernbert", ..bert },
            _ => bert,
        }
    }
}

/// The layout of a `model_type` that this file or `modernbert.rs` reads.
pub(super) fn layout_of(model_type: &str) -> Option<CheckpointLayout> {
    match model_type {
        "bert" => Some(CheckpointLayout::Bert),
        "roberta" | "xlm-roberta" | "camembert" => Some(CheckpointLayout::Roberta),
        "distilbert" => Some(CheckpointLayout::Distilbert),
        "mpnet" => Some(CheckpointLayout::Mpnet),
        "modernbert" => Some(CheckpointLayout::Modernbert),
        _ => None,
    }
}

/// The config in `map`; `has` is true for the ending of the name of a tensor that the weights have.
pub(super) fn read(
    path: &Path,
    layout: CheckpointLayout,
    map: Map<String, Value>,
    has: &dyn Fn(&str) -> bool,
) -> Result<BertConfig> {
    let head = head(path, &map, has)?;
    if layout == CheckpointLayout::Modernbert {
        return modernbert::read(path, map, head);
    }
    let class = Class::of(layout);
    let keys = Keys::new(path, map);
    keys.check_known(KNOWN)?;
    keys.only("position_embedding_type", &json!("absolute"), "this kind of positions")?;
    keys.only("is_decoder", &json!(false), "a decoder of this class")?;
    keys.only("tie_word_embeddings", &json!(true), "an output layer apart from the embeddings")?;
    // transformers computes 32 buckets, whatever the config says.
    keys.only("relative_attention_num_buckets", &json!(MPNET_BUCKETS), "another number of buckets")?;
    let [d_model, n_layers, n_heads, d_ff, activation, dropout, attention_dropout] = class.keys;
    let pad_id = keys.first_id("pad_token_id")?.unwrap_or(class.pad_id);
    let counts_from_padding = matches!(layout, CheckpointLayout::Roberta | CheckpointLayout::Mpnet);
    let position_offset = if counts_from_padding { pad_id as usize + 1 } else { 0 };
    let max_positions = keys.size("max_position_embeddings", class.max_positions)?;
    if max_positions <= position_offset {
        let message =
            format!("max_position_embeddings is {max_positions}, expected more than {position_offset}");
        return Err(Error::file(path, message, "correct the value"));
    }
    let has_types = matches!(layout, CheckpointLayout::Bert | CheckpointLayout::Roberta);
    let activation = keys.activation(activation, "gelu")?;
    let hidden_dropout = keys.number(dropout, 0.1)?;
    let (transform, transform_activation) = transform(layout, head, activation, has(POOLER));
    Ok(BertConfig {
        vocab_size: keys.size("vocab_size", class.vocab_size)?,
        d_model: keys.size(d_model, 768)?,
        encoder: StackConfig::new(
            keys.size(n_layers, if layout == CheckpointLayout::Distilbert { 6 } else { 12 })?,
            keys.size(n_heads, 12)?,
            keys.size(d_ff, 3072)?,
        ),
        norm_epsilon: match layout {
            CheckpointLayout::Distilbert => class.epsilon,
            _ => keys.number("layer_norm_eps", class.epsilon)?,
        },
        activation,
        position: PositionConfig::Learned {},
        position_offset,
        position_buckets: if layout == CheckpointLayout::Mpnet { MPNET_BUCKETS } else { 0 },
        token_types: if has_types { keys.size("type_vocab_size", 2)? } else { 0 },
        head,
        transform,
        transform_activation,
        multi_label: keys.is("problem_type", "multi_label_classification"),
        special_tokens: true,
        max_len: max_positions - position_offset,
        pad_id,
        dropout: Dropout {
            embedding: hidden_dropout,
            residual: hidden_dropout,
            attention: keys.number(attention_dropout, 0.1)?,
            activation: 0.0,
        },
        labels: labels(&keys, head)?,
        ..BertConfig::default()
    })
}

/// The head that `architectures` names, if the weights have it.
fn head(path: &Path, map: &Map<String, Value>, has: &dyn Fn(&str) -> bool) -> Result<BertHead> {
    let architectures = map.get("architectures").and_then(Value::as_array);
    let Some(name) = architectures.and_then(|names| names.first()?.as_str()) else {
        return Ok(BertHead::None);
    };
    let found = HEADS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, head)| *head);
    let head = found.ok_or_else(|| {
        let known = HEADS.map(|(ending, _)| ending).join(", ");
        let message = format!("architectures names {name:?}, expected one that ends in {known}");
        Error::file(path, message, "this head is not supported")
    })?;
    // Encoders are often saved without the head that they were trained with.
    let is_missing = head == BertHead::MaskedLanguageModel && !OUTPUT_BIASES.iter().any(|name| has(name));
    Ok(if is_missing { BertHead::None } else { head })
}

/// The layers between states and head.
fn transform(
    layout: CheckpointLayout,
    head: BertHead,
    activation: Activation,
    has_pooler: bool,
) -> (Transform, Activation) {
    let is_distilbert = layout == CheckpointLayout::Distilbert;
    match head {
        BertHead::None if !has_pooler || is_distilbert => (Transform::None, Activation::Tanh),
        BertHead::Classes if is_distilbert => (Transform::Dense, Activation::Relu),
        BertHead::None | BertHead::Classes => (Transform::Dense, Activation::Tanh),
        BertHead::TokenClasses => (Transform::None, Activation::Tanh),
        BertHead::MaskedLanguageModel if matches!(layout, CheckpointLayout::Bert) || is_distilbert => {
            (Transform::DenseNorm, activation)
        }
        BertHead::MaskedLanguageModel => (Transform::DenseNorm, Activation::Gelu),
    }
}

/// The same encoder with another head, without classes: its layers between states and head are those that the class of its
/// layout has; for a layout of our own, those of the first class that can represent the encoder.
pub(crate) fn with_head(config: &BertConfig, layout: CheckpointLayout, head: BertHead) -> BertConfig {
    let bare = BertConfig {
        head: BertHead::None,
        transform: Transform::None,
        pooling: Pooling::First,
        special_tokens: true,
        multi_label: false,
        dropout: Dropout { embedding: 0.0, residual: 0.0, attention: 0.0, activation: 0.0 },
        labels: Vec::new(),
        ..config.clone()
    };
    let is_own = !CheckpointLayout::ENCODERS.contains(&layout);
    let of_class = |layout: &CheckpointLayout| compatible(*layout, &bare).is_ok();
    let class = CheckpointLayout::ENCODERS.into_iter().find(of_class).filter(|_| is_own);
    let class = class.unwrap_or(if is_own { CheckpointLayout::Bert } else { layout });
    let mut found = BertConfig { head, multi_label: false, labels: Vec::new(), ..config.clone() };
    if head == BertHead::None {
        found.transform = Transform::None;
    } else if head != config.head && class == CheckpointLayout::Modernbert {
        if is_own && config.transform == Transform::None {
            (found.transform_activation, found.transform_bias) = (Activation::Gelu, false);
        }
        found.transform = Transform::DenseNorm;
    } else if head != config.head {
        (found.transform, found.transform_activation) = transform(class, head, config.activation, false);
        found.transform_bias = true;
    }
    found
}

/// The names of the classes.
pub(super) fn labels(keys: &Keys<'_>, head: BertHead) -> Result<Vec<String>> {
    if matches!(head, BertHead::None | BertHead::MaskedLanguageModel) {
        return Ok(Vec::new());
    }
    if let Some(labels) = keys.labels("id2label")? {
        return Ok(labels);
    }
    Ok((0..keys.size("num_labels", 2)?).map(|index| format!("LABEL_{index}")).collect())
}

/// Checks that the class of a layout can represent this config; the error lists the keys that differ from what it computes.
pub(super) fn compatible(
    layout: CheckpointLayout,
    config: &BertConfig,
) -> std::result::Result<(), Vec<String>> {
    let path = Path::new("config.json");
    if config.token_types == 0 && matches!(layout, CheckpointLayout::Bert | CheckpointLayout::Roberta) {
        return Err(vec!["token_types is 0, expected at least 1".to_owned()]);
    }
    let Ok(Value::Object(map)) = serde_json::from_str(&written(layout, config, Dtype::F32)) else {
        unreachable!("written as an object")
    };
    let has = |name: &str| match config.head {
        BertHead::MaskedLanguageModel => OUTPUT_BIASES.contains(&name),
        _ => name == POOLER && config.transform != Transform::None,
    };
    let again = match read(path, layout, map, &has) {
        Ok(again) => ModelConfig::from(again),
        Err(error) => return Err(vec![error.to_string()]),
    };
    let own = ModelConfig::from(config);
    if again == own {
        return Ok(());
    }
    let values = [&own, &again].map(|config| serde_json::to_value(config).unwrap_or_default());
    let differs = |key: &String| values[0].get(key) != values[1].get(key);
    let reasons = own.keys().into_iter().filter(differs).map(|key| {
        let [found, expected] = values.each_ref().map(|value| value.get(&key).cloned().unwrap_or_default());
        format!("{key} is {found}, expected {expected}")
    });
    Err(reasons.collect())
}

/// The text of `config.json` for a compatible model with weights stored as `dtype`.
pub(crate) fn text(
    path: &Path,
    config: &BertConfig,
    (layout, dtype): (CheckpointLayout, Dtype),
) -> Result<String> {
    compatible(layout, config).map_err(|reasons| {
        let message = format!("no {} model: {}", Class::of(layout).name, reasons.join("; "));
        Error::file(path, message, "save it in the polyhead layout")
    })?;
    Ok(written(layout, config, dtype))
}

/// The first layout whose class can represent a config.
pub(crate) fn fitting(config: &ModelConfig) -> Option<CheckpointLayout> {
    let ModelConfig::Bert(config) = config else { return None };
    CheckpointLayout::ENCODERS.into_iter().find(|layout| compatible(*layout, config).is_ok())
}

fn written(layout: CheckpointLayout, config: &BertConfig, dtype: Dtype) -> String {
    let class = Class::of(layout);
    let ending = HEADS.iter().find(|(_, head)| *head == config.head).map_or("", |(ending, _)| ending);
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| drop(map.insert(key.to_owned(), value));
    set("architectures", json!([format!("{}{ending}", class.name)]));
    set("dtype", json!(torch_name(dtype)));
    set("model_type", json!(class.model_type));
    set("pad_token_id", json!(config.pad_id));
    set("vocab_size", json!(config.vocab_size));
    if !config.labels.is_empty() {
        let pairs = || config.labels.iter().enumerate();
        let names: Map<String, Value> = pairs().map(|(id, label)| (id.to_string(), json!(label))).collect();
        let ids: Map<String, Value> = pairs().map(|(id, label)| (label.clone(), json!(id))).collect();
        set("id2label", Value::Object(names));
        set("label2id", Value::Object(ids));
    }
    if config.multi_label {
        set("problem_type", json!("multi_label_classification"));
    }
    let positions = config.position_offset + config.max_len;
    set("max_position_embeddings", json!(positions));
    if layout == CheckpointLayout::Modernbert {
        modernbert::write(config, set);
        return sorted(&Value::Object(map));
    }
    let StackConfig { n_layers, n_heads, d_ff, .. } = config.encoder;
    let values = [
        json!(config.d_model),
        json!(n_layers),
        json!(n_heads),
        json!(d_ff),
        json!(config.activation.name()),
        json!(config.dropout.residual),
        json!(config.dropout.attention),
    ];
    class.keys.into_iter().zip(values).for_each(|(key, value)| set(key, value));
    if layout != CheckpointLayout::Distilbert {
        set("layer_norm_eps", json!(config.norm_epsilon));
    }
    if matches!(layout, CheckpointLayout::Bert | CheckpointLayout::Roberta) {
        set("type_vocab_size", json!(config.token_types));
    }
    if layout == CheckpointLayout::Mpnet {
        set("relative_attention_num_buckets", json!(config.position_buckets));
    }
    sorted(&Value::Object(map))
}
