//! Embedding: rows of a table looked up by id, y_t = scale · E(id_t) + position_t.
//!
//! Backward: dE(id) += scale · dy_t for every t with that id, in the order of t, so that the sum does not depend on
//! threads.

use rayon::prelude::*;

use crate::error::shape;
use crate::gemm::Output;
use crate::indices::Indices;
use crate::prepared::Prepared;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// Scale and positions of an embedding.
#[derive(Debug, Clone)]
pub struct EmbeddingOptions {
    /// Factor of each row. Default: 1; Transformers use √d_model.
    pub scale: f32,
    /// Added to each row: max_len × d_model, row t mod length. Default: none.
    pub positions: Option<Tensor>,
}

impl Default for EmbeddingOptions {
    fn default() -> Self {
        Self { scale: 1.0, positions: None }
    }
}

/// Rows of `table` (vocab_size × d_model) for `ids` of n_rows × length: n_rows × length × d_model.
///
/// # Errors
/// If an id is outside the table or there are too few positions.
pub fn embedding(
    tape: &Tape,
    ids: &Indices,
    length: usize,
    table: &Var,
    options: &EmbeddingOptions,
) -> Result<Var> {
    let &[vocab_size, d_model] = table.shape() else {
        return shape("embedding", "table", table.shape(), "two axes");
    };
    check_shapes(ids.len(), length, d_model, options)?;
    on_gpu!(table.value() => Ok(crate::cuda::ops::embedding::embedding(tape, ids, length, table, options)));
    check_ids(ids.host(), vocab_size)?;
    let (rows, scale) = (table.value().data(), options.scale);
    let y = look_up(ids.host(), length, d_model, options, |id, out| {
        out.copy_from_slice(&rows[id * d_model..(id + 1) * d_model]);
    });
    let (input, ids) = (table.clone(), ids.clone());
    Ok(tape.record(y, &[table], move |gradient, gradients| {
        gradients.update(&input, |out, output| scatter(out, gradient.data(), ids.host(), scale, output));
    }))
}

/// As [`embedding`] with a prepared table, without gradients.
///
/// # Errors
/// If an id is outside the table or there are too few positions.
pub fn embedding_prepared(
    ids: &Indices,
    length: usize,
    table: &Prepared,
    options: &EmbeddingOptions,
) -> Result<Tensor> {
    let ([vocab_size, d_model], ids) = (table.shape(), ids.host());
    check_shapes(ids.len(), length, d_model, options)?;
    check_ids(ids, vocab_size)?;
    Ok(look_up(ids, length, d_model, options, |id, out| table.row(id, out)))
}

fn check_shapes(n_ids: usize, length: usize, d_model: usize, options: &EmbeddingOptions) -> Result<()> {
    if length == 0 || !n_ids.is_multiple_of(length) {
        return shape("embedding", "ids", &[n_ids], format!("a multiple of the length {length}"));
    }
    let suffices =
        |shape: &[usize]| matches!(*shape, [max_len, width] if max_len >= length && width == d_model);
    if let Some(positions) = options.positions.as_ref().filter(|positions| !suffices(positions.shape())) {
        return shape("embedding", "positions", positions.shape(), format!("at least [{length}, {d_model}]"));
    }
    Ok(())
}

fn check_ids(ids: &[u32], vocab_size: usize) -> Result<()> {
    match ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
        Some((position, &id)) => Err(Error::Id { operation: "embedding", id, position, vocab_size }),
        None => Ok(()),
    }
}

/// Rows that `read` writes, scaled and with their positions added.
fn look_up(
    ids: &[u32],
    length: usize,
    d_model: usize,
    options: &EmbeddingOptions,
    read: impl Fn(usize, &mut [f32]) + Sync,
) -> Tensor {
    let mut y = Tensor::uninit(&[ids.len() / length, length, d_model]);
    let (scale, positions) = (options.scale, options.positions.as_ref().map(Tensor::data));
    parallel::rows(y.data_mut(), d_model, |first, block| {
        for (offset, out) in block.chunks_exact_mut(d_model).enumerate() {
            read(ids[first + offset] as usize, out);
            let position = (first + offset) % length * d_model;
            for (index, out) in out.iter_mut().enumerate() {
                *out = *out * scale + positions.map_or(0.0, |positions| positions[position + index]);
            }
        }
    });
    y
}

/// out[id] += scale · gradient[t]. Threads divide the ids, so each row has one writer.
fn scatter(out: &mut [f32], gradient: &[f32], ids: &[u32], scale: f32, output: Output) {
    let width = gradient.len() / ids.len().max(1);
    if output == Output::Overwrite {
        out.fill(0.0);
    }
    if gradient.is_empty() {
        return;
    }
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    order.sort_by_key(|&position| ids[position as usize]);
    let threads = rayon::current_num_threads();
    let block = (out.len() / width.max(1)).div_ceil(threads).max(1);
    out.par_chunks_mut(block * width).enumerate().for_each(|(index, rows)| {
        let first = order.partition_point(|&position| (ids[position as usize] as usize) < index * block);
        let last = order.partition_point(|&position| (ids[position as usize] as usize) < (index + 1) * block);
        for &position in &order[first..last] {
            let row = (ids[position as usize] as usize - index * block) * width;
            let from = &gradient[position as usize * width..(position as usize + 1) * width];
            for (sum, number) in rows[row..row + width].iter_mut().zip(from) {
                *sum += scale * number;
            }
        }
    });
}
