//! One decoding step: the newest token of each row attends to the tokens before it, and to its source sentence.
//!
//! On the CPU the keys and values of the newest token are sliced from the projection, rotated, cached, and attended to
//! by [`cached_attention`]; the bits are those of all tokens at once. On a GPU one kernel does all of it.

use super::cached::{CachedOptions, cached_attention, cached_weights};
use super::keys_values::KeysValues;
use super::relative::Relative;
use super::step_rows::{StepAttentionPattern, StepRows};
use crate::ops::rotary::{RotaryTable, rotary_rows};
use crate::ops::shape::split;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, error};

/// Attention options of a step.
#[derive(Debug, Clone, Default)]
pub struct StepOptions<'a> {
    /// Heads of the queries.
    pub n_heads: usize,
    /// Rotates queries and keys by their positions. Default: none.
    pub rotary: Option<&'a RotaryTable>,
    /// Vectors of relative distances. Default: none.
    pub relative: Option<&'a Relative>,
    /// Attention pattern of the newest token. Default: all tokens so far.
    pub seen: Option<&'a StepAttentionPattern>,
    /// The source that cross-attention attends to, of a model that reads several. Default: 0.
    pub source: usize,
    /// True if the weights are returned too. Default: false.
    pub keeps_weights: bool,
}

/// Result of attention.
#[derive(Debug, Clone)]
pub struct AttentionOutput {
    /// rows × (n_heads·d_value).
    pub context: Tensor,
    /// rows × n_heads × at least the largest length, if requested.
    pub weights: Option<Tensor>,
}

/// Attention of the newest tokens to all tokens so far. `projected` has their queries, keys and values side by side,
/// rows × (queries, keys, values); their keys and values are stored in `cache`.
///
/// # Errors
/// If the shapes do not fit together.
pub fn self_step(
    projected: &Tensor,
    cache: &mut KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<AttentionOutput> {
    let (count, shape) = (rows.computed(), cache.shape());
    let d_query = options.n_heads * shape.d_key;
    let [d_keys, d_values] = [shape.n_heads * shape.d_key, shape.n_heads * shape.d_value];
    if projected.shape() != [count, d_query + d_keys + d_values] {
        let expected = format!("[{count}, {d_query} + {d_keys} + {d_values}]");
        return error::shape("a decoding step", "projected", projected.shape(), expected);
    }
    if let Some(relative) = options.relative {
        relative.check(shape.d_key, shape.d_value)?;
    }
    on_gpu!(projected => crate::cuda::ops::step::self_step(projected, cache, rows, options));
    let (tape, all) = (Tape::inference(), Var::constant(projected.clone()));
    let parts = split(&tape, &all, 1, &[d_query, d_keys, d_values])?;
    let turned = |part: &Var| match options.rotary {
        None => Ok(part.value().clone()),
        Some(table) => rotary_rows(part.value(), table, rows.lengths()),
    };
    let (query, key) = (turned(&parts[0])?, turned(&parts[1])?);
    let kept =
        key.data().chunks_exact(d_keys.max(1)).zip(parts[2].value().data().chunks_exact(d_values.max(1)));
    for ((&slot, &position), (key, value)) in rows.slots().iter().zip(rows.lengths()).zip(kept) {
        cache.write(slot, position, key, value);
    }
    let seen = match options.seen {
        Some(StepAttentionPattern::Ranges(ranges)) => Some(ranges.as_slice()),
        _ => None,
    };
    let lengths: Vec<usize> = rows.lengths().iter().map(|len| len + 1).collect();
    let (n_heads, relative) = (options.n_heads, options.relative);
    let cached =
        CachedOptions { n_heads, scale: None, slots: rows.slots(), lengths: &lengths, seen, relative };
    attended(&query, cache, &cached, options.keeps_weights)
}

/// Attention of `query`, rows × (n_heads·d_key), to the source sentence of each row, in a slot of `memory`.
///
/// # Errors
/// If the shapes do not fit together.
pub fn cross_step(
    query: &Tensor,
    memory: &KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<AttentionOutput> {
    on_gpu!(query => crate::cuda::ops::step::cross_step(query, memory, rows, options));
    let cached = CachedOptions {
        n_heads: options.n_heads,
        scale: None,
        slots: rows.sources(),
        lengths: rows.row_lengths(options.source),
        seen: None,
        relative: None,
    };
    attended(query, memory, &cached, options.keeps_weights)
}

fn attended(
    query: &Tensor,
    kept: &KeysValues,
    options: &CachedOptions<'_>,
    keeps_weights: bool,
) -> Result<AttentionOutput> {
    let weights = keeps_weights.then(|| cached_weights(query, kept, options)).transpose()?;
    Ok(AttentionOutput { context: cached_attention(query, kept, options)?, weights })
}
