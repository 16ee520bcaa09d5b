//! The weights of a trace as whole arrays, one for each kind of attention (`encoder`, `decoder`, `cross`): layers × heads ×
//! queries × keys, as Hugging Face's `output_attentions=True` gives them layer by layer.

use polyhead_attention::{Filter, Kind};

use crate::matrix::Matrix;
use crate::trace::{Selected, Trace};

/// One array.
#[derive(Debug)]
pub(super) struct Weights<'a> {
    pub(super) name: &'static str,
    /// layers, heads, queries, keys.
    pub(super) shape: [usize; 4],
    /// Which layers and heads these are.
    pub(super) layers: Vec<usize>,
    pub(super) heads: Vec<usize>,
    parts: Vec<Selected<'a>>,
}

impl Weights<'_> {
    /// All numbers as little-endian bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let matrices =
            self.parts.iter().flat_map(|part| &part.weights).flat_map(|head| Matrix::numbers(head));
        matrices.flat_map(|number| number.to_le_bytes()).collect()
    }
}

/// The kinds of attention that the trace has and `filter` lets through.
pub(super) fn weights<'a>(trace: &'a Trace, filter: &Filter) -> Vec<Weights<'a>> {
    let of = |kind: Kind| {
        let mut parts = trace.selected(filter);
        parts.retain(|part| part.site.kind == kind);
        let first = parts.first()?;
        let matrix = first.weights.first()?;
        Some(Weights {
            name: kind.name,
            shape: [parts.len(), first.heads.len(), matrix.n_rows(), matrix.n_columns()],
            layers: parts.iter().map(|part| part.site.layer).collect(),
            heads: first.heads.clone(),
            parts,
        })
    };
    trace.sites.groups().iter().filter_map(|group| of(group.kind)).collect()
}

/// Names and texts of the tokens of each side, and what was read for one that was written.
pub(super) fn tokens(trace: &Trace) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> =
        trace.sides.iter().map(|side| (format!("{}_tokens", side.name), side.labels())).collect();
    let written = trace.sides.iter().filter(|side| side.start.is_some());
    found.extend(written.map(|side| ("read_tokens".into(), side.read_labels())));
    found
}
