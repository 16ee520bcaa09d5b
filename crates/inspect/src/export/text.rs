//! The keys of a language model's trace, which `json.rs` describes.

use polyhead_models::StreamPart;
use serde_json::{Map, Value, json};

use super::json::short;
use crate::trace::TextTrace;
use crate::trace::text::{Contribution, Contributions, LensLayer, PredictedToken, Prediction};

/// The keys beside those that all traces have.
pub(super) fn keys(found: &TextTrace) -> Map<String, Value> {
    let keys = [
        ("generated", found.n_generated.into()),
        ("log_probability", found.log_probability().into()),
        ("predictions", found.predictions.iter().map(prediction).collect()),
        ("lens", json!(found.lens.as_ref().map(|layers| lens(layers, found.lens_start)))),
        ("contributions", json!(found.contributions.as_ref().map(contributions))),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The logit lens at the positions from `start` on.
pub fn lens(layers: &[LensLayer], start: usize) -> Value {
    let layer = |own: &LensLayer| {
        let predictions: Value = own.predictions.iter().map(prediction).collect();
        json!({ "layer": own.layer, "predictions": predictions })
    };
    json!({ "start": start, "layers": layers.iter().map(layer).collect::<Value>() })
}

/// Logits divided among the parts of the residual stream.
pub fn contributions(found: &Contributions) -> Value {
    let target = |own: &Contribution| {
        json!({
            "position": own.position, "id": own.id, "piece": own.piece, "label": own.label,
            "logit": short(own.logit), "values": numbers(&own.values), "norms": numbers(&own.norms),
        })
    };
    json!({
        "parts": found.parts.iter().map(part).collect::<Value>(),
        "targets": found.targets.iter().map(target).collect::<Value>(),
    })
}

fn part(part: &StreamPart) -> Value {
    let (name, layer) = match *part {
        StreamPart::Embedding => ("embedding", None),
        StreamPart::Attention(layer) => ("attention", Some(layer)),
        StreamPart::FeedForward(layer) => ("feed_forward", Some(layer)),
        StreamPart::FinalNorm => ("final_norm", None),
    };
    json!({ "part": name, "layer": layer })
}

/// As f32, whose digits are all that the model has.
fn numbers(numbers: &[f64]) -> Value {
    numbers.iter().map(|&number| Value::from(short(number as f32))).collect()
}

/// A distribution of tokens.
pub(super) fn prediction(own: &Prediction) -> Value {
    let token = |own: &PredictedToken| {
        json!({
            "id": own.id, "piece": own.piece, "label": own.label, "log_probability": short(own.log_probability),
        })
    };
    let following = own
        .following
        .as_ref()
        .map(|next| json!({ "log_probability": short(next.log_probability), "rank": next.rank }));
    json!({
        "entropy": (own.entropy * 1e6).round() / 1e6,
        "alternatives": own.alternatives.iter().map(token).collect::<Value>(),
        "following": following,
    })
}
