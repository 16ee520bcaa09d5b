//! The trace of a pointer network's answer.

use polyhead_attention::{Filter, Intervention};
use polyhead_engine::PointEngine;
use polyhead_engine::point::PointRow;
use polyhead_models::pointer::SearchOptions;
use polyhead_text::tokenizer::Encoding;

use super::{AttentionWeights, Trace, TraceOutcome, TraceSide};
use crate::Result;
use crate::matrix::Matrix;

/// Name of the sequence that the model writes.
const ORDER: &str = "order";
/// Name of the sequence that it reads.
const POINTS: &str = "points";
/// Label of the key that ends an answer.
const END: &str = "end";

/// The answer of a pointer network.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderTrace {
    /// Indices of points.
    pub order: Vec<u32>,
    /// Probability of each step among all points, the end included.
    pub probabilities: Vec<f32>,
    /// True if the answer was given, not searched for.
    pub is_given: bool,
}

impl Trace {
    /// Searches the answer for a row of points, or takes that of the row, and records the trace.
    ///
    /// # Errors
    /// If the model cannot read the row.
    pub fn of_order(
        engine: &PointEngine,
        row: &PointRow,
        search: SearchOptions,
        changes: (&Filter, &Intervention),
    ) -> Result<Self> {
        let order = match &row.order {
            Some(given) => given.clone(),
            None => engine.solve(std::slice::from_ref(row), search)?.remove(0).remove(0).order,
        };
        let (attentions, probabilities) = engine.attention(row, &order, changes)?;
        let n_keys = 1 + row.len();
        let attentions = attentions.into_iter().map(|found| AttentionWeights {
            site: found.site,
            heads: vec![0],
            weights: vec![Matrix::new(n_keys, found.weights.data().to_vec())],
        });
        let points = (0..row.len()).map(|index| (index as u32 + 1, row.label(index)));
        let written = order.iter().map(|&point| (point + 1, row.label(point as usize)));
        let end = (0, END.to_owned());
        Ok(Self {
            sites: engine.sites(),
            d_model: engine.model().config().d_model,
            sides: vec![
                side(POINTS, std::iter::once(end.clone()).chain(points)),
                side(ORDER, written.chain([end])),
            ],
            outcome: TraceOutcome::Order(OrderTrace { order, probabilities, is_given: row.order.is_some() }),
            attentions: attentions.collect(),
            vectors: Vec::new(),
            intervention: changes.1.clone(),
        })
    }
}

/// A sequence of points, separated by spaces.
fn side(name: &'static str, tokens: impl Iterator<Item = (u32, String)>) -> TraceSide {
    let (mut text, mut offsets, mut ids, mut pieces) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for (id, label) in tokens {
        let start = text.len();
        if id > 0 {
            text += &label;
        }
        offsets.push(start..text.len());
        text.push(' ');
        ids.push(id);
        pieces.push(label);
    }
    TraceSide::new(name, &text, Encoding { ids, pieces, offsets })
}
