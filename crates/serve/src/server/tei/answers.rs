//! The JSON of the answers.

use polyhead_engine::encoder::EncoderSummary;
use polyhead_models::encoder::EncoderHead;
use polyhead_tensor::Dtype;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::encoder::AboutEncoding;
use super::super::limits::RequestLimits;

/// A class with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Prediction<'a> {
    score: f32,
    label: &'a str,
}

/// The classes of a text, the highest score first; ties keep the order of the labels.
pub(super) fn predictions<'a>(scores: &[f32], labels: &'a [String]) -> Vec<Prediction<'a>> {
    let mut found: Vec<Prediction<'a>> =
        scores.iter().zip(labels).map(|(&score, label)| Prediction { score, label }).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found
}

/// A text with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Rank {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Texts with their scores, the highest first; ties keep the order of the texts.
pub(super) fn ranks(scores: &[f32], texts: Option<Vec<String>>) -> Vec<Rank> {
    let mut texts = texts.map(Vec::into_iter);
    let mut rank = |(index, &score)| Rank { index, score, text: texts.as_mut().and_then(Iterator::next) };
    let mut found: Vec<Rank> = scores.iter().enumerate().map(&mut rank).collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found
}

/// The answer to `/info`.
pub(super) struct InfoAnswer<'a> {
    pub(super) name: &'a str,
    pub(super) summary: &'a EncoderSummary,
    pub(super) limits: RequestLimits,
    pub(super) about: AboutEncoding,
}

impl InfoAnswer<'_> {
    pub(super) fn json(&self) -> Value {
        let Self { name, summary, limits, about } = self;
        let &AboutEncoding { dtype, waiting, batch_tokens, threads } = about;
        json!({
            "model_id": name,
            "model_sha": null,
            "model_dtype": if dtype == Dtype::Int8 { "int8" } else { "float32" },
            "model_type": model_type(summary),
            "max_concurrent_requests": waiting,
            "max_input_length": summary.max_len,
            "max_batch_tokens": batch_tokens,
            "max_batch_requests": null,
            "max_client_batch_size": limits.inputs,
            "auto_truncate": false,
            "tokenization_workers": threads,
            "version": env!("CARGO_PKG_VERSION"),
            "sha": null,
            "docker_label": null,
        })
    }
}

fn model_type(summary: &EncoderSummary) -> Value {
    if summary.head != EncoderHead::Classes {
        return json!({ "embedding": { "pooling": summary.pooling } });
    }
    let labels = || summary.labels.iter().enumerate();
    let names: Map<String, Value> =
        labels().map(|(id, label)| (id.to_string(), Value::from(label.as_str()))).collect();
    let ids: Map<String, Value> = labels().map(|(id, label)| (label.clone(), Value::from(id))).collect();
    let classes = json!({ "id2label": names, "label2id": ids });
    if summary.labels.len() == 1 { json!({ "reranker": classes }) } else { json!({ "classifier": classes }) }
}
