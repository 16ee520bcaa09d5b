//! The keys of an encoder's trace, which `json.rs` describes.

use polyhead_engine::classify::Class;
use polyhead_engine::encoder::tag::Entity;
use serde_json::{Map, Value, json};

use super::json::{array, matrix, short};
use super::text::prediction;
use crate::matrix::Matrix;
use crate::states::States;
use crate::states::projection::{projection, similarities};
use crate::trace::{EncoderTrace, HeadOutput, TraceSide};

/// Longest text in tokens whose states a trace describes.
pub const MAX_STATES: usize = 192;

/// The keys beside those that all traces have.
pub(super) fn keys(found: &EncoderTrace, side: &TraceSide) -> Map<String, Value> {
    let (head, more): (&str, Vec<(&str, Value)>) = match &found.head {
        HeadOutput::Vector(vector) => ("none", vec![("vector", numbers(vector))]),
        HeadOutput::Classes(classes) => ("classes", vec![("classes", list(classes))]),
        HeadOutput::Tags(classes, entities) => {
            let classes = classes.iter().map(|own| list(own)).collect();
            let entities = entities.iter().map(entity).collect();
            ("token_classes", vec![("token_classes", classes), ("entities", entities)])
        }
        HeadOutput::Words(words) => {
            ("masked_words", vec![("masked_words", words.iter().map(prediction).collect())])
        }
    };
    let short = found.states.as_ref().filter(|_| side.tokens.len() <= MAX_STATES);
    let keys = [
        ("head", head.into()),
        ("cut_from", json!(found.cut_from)),
        ("states", json!(short.map(|own| states(own, &with_text(side), matrix)))),
    ];
    keys.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The tokens that have text, or all if none has.
pub fn with_text(side: &TraceSide) -> Vec<usize> {
    let is_text = |index: &usize| !side.text[side.tokens[*index].span.clone()].trim().is_empty();
    let shown: Vec<usize> = (0..side.tokens.len()).filter(is_text).collect();
    if shown.is_empty() { (0..side.tokens.len()).collect() } else { shown }
}

/// The places of the tokens with the indices `shown`, and the similarities of all tokens, in each layer; `pack` writes a matrix.
pub fn states(found: &States, shown: &[usize], pack: impl Fn(&Matrix) -> Value) -> Value {
    let mut before: Option<Vec<[f64; 2]>> = None;
    let layer = |(layer, vectors): &(crate::states::StateLayer, Matrix)| {
        let rows = shown.iter().flat_map(|index| vectors.row(*index).iter().copied()).collect();
        let own = projection(&Matrix::new(vectors.n_columns(), rows), before.as_deref());
        let mut places = Matrix::new(2, vec![f32::NAN; 2 * vectors.n_rows()]);
        for (index, place) in shown.iter().zip(&own.places) {
            places.row_mut(*index).copy_from_slice(&place.map(|x| x as f32));
        }
        before = Some(own.places);
        json!({
            "layer": layer.json(), "places": pack(&places), "variance": short(own.variance as f32),
            "similarities": pack(&similarities(vectors)),
        })
    };
    found.layers.iter().map(layer).collect()
}

/// All states as one array.
pub(super) fn hidden_states(found: &States) -> Value {
    let (shape, numbers) = super::arrays::hidden_states(found);
    array(&shape, &numbers)
}

fn list(classes: &[Class]) -> Value {
    classes.iter().map(|own| json!({ "label": own.label, "probability": own.probability })).collect()
}

fn entity(own: &Entity) -> Value {
    json!({ "label": own.label, "start": own.range.start, "end": own.range.end, "probability": own.probability })
}

fn numbers(vector: &[f32]) -> Value {
    array(&[vector.len()], vector)
}
