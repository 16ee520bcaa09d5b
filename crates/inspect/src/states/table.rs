//! A comparison as JSON.
//!
//! | key | value |
//! |---|---|
//! | `format`, `version` | `"polyhead-comparison"` and 1; a key more does not change the version |
//! | `texts` | for each text `text`, as the model reads it, `tokens` (their labels) and `cut_from` (null, or the number of tokens before the end was cut off) |
//! | `words` | the words |
//! | `occurrences` | for each occurrence `word` and `text` (indices), `spelled`, `start` and `end` (byte offsets into the text in UTF-8), `tokens` (indices) |
//! | `points` | the points of `places`: occurrences and all other tokens with text; `text`, `occurrence` (an index, or null) and `label` |
//! | `layers` | `layer` (`"embedding"`, a number from 0, or `"output"`), `similarities` (cosines, occurrences × occurrences), `others` (null, or the mean cosine of all other pairs of points), `places` (of each point in the plane), `variance` (share that the plane has) |
//!
//! With vectors, each layer also has `vectors`, occurrences × width.

use serde_json::{Value, json as object};

use super::compare::{ComparedLayer, Comparison};
use crate::matrix::Matrix;
use crate::trace::CaptureVectors;

/// The comparison of `words` as JSON.
pub fn json(found: &Comparison, words: &[&str], vectors: CaptureVectors) -> Value {
    let texts = found
        .texts
        .iter()
        .map(|own| object!({ "text": own.side.text, "tokens": own.side.labels(), "cut_from": own.cut_from }));
    let occurrences = found.occurrences.iter().map(|own| {
        object!({
            "word": own.word, "text": own.text, "spelled": found.spelled(own),
            "start": own.span.start, "end": own.span.end, "tokens": own.tokens,
        })
    });
    let points = found
        .points
        .iter()
        .map(|own| object!({ "text": own.text, "occurrence": own.occurrence, "label": own.label }));
    object!({
        "format": "polyhead-comparison",
        "version": 1,
        "texts": texts.collect::<Vec<_>>(),
        "words": words,
        "occurrences": occurrences.collect::<Vec<_>>(),
        "points": points.collect::<Vec<_>>(),
        "layers": found.layers.iter().map(|own| layer(own, vectors)).collect::<Vec<_>>(),
    })
}

fn layer(own: &ComparedLayer, vectors: CaptureVectors) -> Value {
    let places: Vec<[f64; 2]> = own.places.iter().map(|place| place.map(rounded)).collect();
    let mut found = object!({
        "layer": own.layer.json(),
        "similarities": rows(&own.similarities),
        "others": own.others.map(rounded),
        "places": places,
        "variance": rounded(own.variance),
    });
    if vectors == CaptureVectors::Yes {
        found["vectors"] = own.vectors.rows().map(Value::from).collect();
    }
    found
}

fn rows(matrix: &Matrix) -> Vec<Vec<f64>> {
    matrix.rows().map(|row| row.iter().map(|number| rounded(f64::from(*number))).collect()).collect()
}

/// Six digits; an f32 has no more.
fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
