//! The weights of a trace as one array for each kind of attention (`encoder`, `decoder`, `cross`): layers × heads × queries ×
//! keys, as Hugging Face's `output_attentions=True` returns them layer by layer.

use polyhead_attention::{AttentionKind, Filter};

use crate::matrix::Matrix;
use crate::states::States;
use crate::trace::{SelectedHeads, Trace};

/// The weights of one kind of attention.
#[derive(Debug)]
pub(super) struct AttentionArray<'a> {
    pub(super) name: &'static str,
    /// `[layers, heads, queries, keys]`.
    pub(super) shape: [usize; 4],
    /// Indices of the layers and heads.
    pub(super) layers: Vec<usize>,
    pub(super) heads: Vec<usize>,
    parts: Vec<SelectedHeads<'a>>,
}

impl AttentionArray<'_> {
    /// All weights as little-endian f32 bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let matrices =
            self.parts.iter().flat_map(|part| &part.weights).flat_map(|head| Matrix::numbers(head));
        matrices.flat_map(|number| number.to_le_bytes()).collect()
    }
}

/// The arrays of the trace that pass `filter`.
pub(super) fn weights<'a>(trace: &'a Trace, filter: &Filter) -> Vec<AttentionArray<'a>> {
    let of = |kind: AttentionKind| {
        let mut parts = trace.selected(filter);
        parts.retain(|part| part.site.kind == kind);
        let first = parts.first()?;
        let matrix = first.weights.first()?;
        Some(AttentionArray {
            name: kind.name,
            shape: [parts.len(), first.heads.len(), matrix.n_rows(), matrix.n_columns()],
            layers: parts.iter().map(|part| part.site.layer).collect(),
            heads: first.heads.clone(),
            parts,
        })
    };
    trace.sites.groups().iter().filter_map(|group| of(group.kind)).collect()
}

/// The states of an encoder as one array, places in the stack × tokens × d_model: Hugging Face's `output_hidden_states=True`,
/// where no norm follows the last layer.
pub(super) fn hidden_states(found: &States) -> ([usize; 3], Vec<f32>) {
    let [rows, columns] = found.last().map_or([0; 2], |last| [last.n_rows(), last.n_columns()]);
    let numbers = found.layers.iter().flat_map(|(_, own)| own.numbers().iter().copied()).collect();
    ([found.layers.len(), rows, columns], numbers)
}

/// Token texts of each side by array name, and the decoder's input tokens as `read_tokens`.
pub(super) fn tokens(trace: &Trace) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> =
        trace.sides.iter().map(|side| (format!("{}_tokens", side.name), side.labels())).collect();
    let written = trace.sides.iter().filter(|side| side.start.is_some());
    found.extend(written.map(|side| ("read_tokens".into(), side.read_labels())));
    found
}
