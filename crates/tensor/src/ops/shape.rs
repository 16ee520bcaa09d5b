//! Operations that move values without changing them: concat, split, slice, transpose, reshape and index_select.
//!
//! Every result is a contiguous copy, except of [`reshape`]. Backward: each value's gradient goes where the value came
//! from; a row that was selected several times gets the sum in the order of selection.

use std::ops::Range;

use rayon::prelude::*;

use super::reduce::axis_sizes;
use crate::error::shape;
use crate::gemm::Output;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// Concatenates the tensors along `axis`; their other axes are equal.
///
/// # Errors
/// If there are none, they have no such axis or the other axes differ.
pub fn concat(tape: &Tape, parts: &[&Var], axis: usize) -> Result<Var> {
    let Some(first) = parts.first() else {
        return shape("concat", "parts", &[0], "at least one tensor");
    };
    let [outer, _, inner] = axis_sizes("concat", first.shape(), axis)?;
    let mut out_shape = first.shape().to_vec();
    out_shape[axis] = 0;
    for part in parts {
        let fits = part.shape().len() == out_shape.len()
            && part.shape().iter().zip(first.shape()).enumerate().all(|(at, (a, b))| at == axis || a == b);
        if !fits {
            let expected = format!("{:?} except for axis {axis}", first.shape());
            return shape("concat", "part", part.shape(), expected);
        }
        out_shape[axis] += part.shape()[axis];
    }
    let total = out_shape[axis];
    on_gpu!(first.value() => {
        let ends = parts.iter().scan(0, |end, part| {
            *end += part.shape()[axis];
            Some(*end - part.shape()[axis]..*end)
        });
        let (ranges, sizes) = (ends.collect(), [outer, total, inner]);
        Ok(crate::cuda::ops::shape::concat(tape, parts, sizes, ranges, &out_shape))
    });
    let mut y = Tensor::uninit(&out_shape);
    let mut start = 0;
    let mut pieces = Vec::with_capacity(parts.len());
    for &part in parts {
        let range = start..start + part.shape()[axis];
        start = range.end;
        put(y.data_mut(), part.value().data(), [outer, total, inner], range.clone(), Output::Overwrite);
        pieces.push((part.clone(), range));
    }
    Ok(tape.record(y, parts, move |gradient, gradients| {
        for (part, range) in pieces {
            if part.needs_gradient() {
                gradients.add(&part, &cut(gradient, [outer, total, inner], range, part.shape()));
            }
        }
    }))
}

/// Splits x into pieces of the given sizes along `axis`.
///
/// # Errors
/// If x has no such axis or the sizes do not add up to it.
pub fn split(tape: &Tape, x: &Var, axis: usize, sizes: &[usize]) -> Result<Vec<Var>> {
    let [_, n, _] = axis_sizes("split", x.shape(), axis)?;
    if sizes.iter().try_fold(0_usize, |total, size| total.checked_add(*size)) != Some(n) {
        return shape("split", "x", x.shape(), format!("an axis {axis} of size the sum of {sizes:?}"));
    }
    let mut start = 0;
    let mut next = |size: &usize| {
        let range = start..start + size;
        start = range.end;
        slice(tape, x, axis, range)
    };
    sizes.iter().map(&mut next).collect()
}

/// The part of x in `range` of `axis`.
///
/// # Errors
/// If x has no such axis or the range exceeds it.
pub fn slice(tape: &Tape, x: &Var, axis: usize, range: Range<usize>) -> Result<Var> {
    let sizes @ [_, n, _] = axis_sizes("slice", x.shape(), axis)?;
    if range.start > range.end || range.end > n {
        return shape("slice", "x", x.shape(), format!("an axis {axis} that contains {range:?}"));
    }
    let mut out_shape = x.shape().to_vec();
    out_shape[axis] = range.len();
    on_gpu!(x.value() => Ok(crate::cuda::ops::shape::slice(tape, x, sizes, range, &out_shape)));
    let y = cut(x.value(), sizes, range.clone(), &out_shape);
    let input = x.clone();
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        gradients.update(&input, |out, output| {
            if output == Output::Overwrite {
                out.fill(0.0);
            }
            put(out, gradient.data(), sizes, range, Output::Accumulate);
        });
    }))
}

/// x with two axes exchanged.
///
/// # Errors
/// If x lacks one of the axes.
pub fn transpose(tape: &Tape, x: &Var, axes: [usize; 2]) -> Result<Var> {
    axis_sizes("transpose", x.shape(), axes[0])?;
    axis_sizes("transpose", x.shape(), axes[1])?;
    on_gpu!(x.value() => crate::cuda::through_host(tape, &[x], |tape, inputs| transpose(tape, &inputs[0], axes)));
    let y = transposed(x.value(), axes);
    let input = x.clone();
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&input, &transposed(gradient, axes));
    }))
}

/// The same values in another shape, shared.
///
/// # Errors
/// If the shape holds another number of values.
pub fn reshape(x: &Var, to: &[usize]) -> Result<Var> {
    let count = to.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
    if count != Some(x.value().len()) {
        return shape("reshape", "x", x.shape(), format!("as many values as {to:?}"));
    }
    Ok(x.reshaped(to))
}

/// Entries of the first axis of x, in the order of `ids`: ids × the other axes.
///
/// # Errors
/// If x has no axis or an id is outside it.
pub fn index_select(tape: &Tape, x: &Var, ids: &[u32]) -> Result<Var> {
    let [_, n, width] = axis_sizes("index_select", x.shape(), 0)?;
    if let Some((position, &id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= n) {
        return Err(Error::Id { operation: "index_select", id, position, vocab_size: n });
    }
    on_gpu!(x.value() => crate::cuda::through_host(tape, &[x], |tape, inputs| index_select(tape, &inputs[0], ids)));
    let mut out_shape = x.shape().to_vec();
    out_shape[0] = ids.len();
    let mut y = Tensor::uninit(&out_shape);
    let from = x.value().data();
    parallel::rows(y.data_mut(), width, |first, block| {
        for (out, &id) in block.chunks_exact_mut(width).zip(&ids[first..]) {
            out.copy_from_slice(&from[id as usize * width..(id as usize + 1) * width]);
        }
    });
    let (input, ids) = (x.clone(), ids.to_vec());
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        gradients.update(&input, |out, output| scatter(out, gradient.data(), [n, width], &ids, output));
    }))
}

/// `range` of the middle axis of outer × n × inner.
fn cut(x: &Tensor, [_, n, inner]: [usize; 3], range: Range<usize>, out_shape: &[usize]) -> Tensor {
    let mut out = Tensor::uninit(out_shape);
    let (from, width) = (x.data(), range.len() * inner);
    parallel::rows(out.data_mut(), width, |first, block| {
        for (offset, out) in block.chunks_exact_mut(width).enumerate() {
            let at = ((first + offset) * n + range.start) * inner;
            out.copy_from_slice(&from[at..at + width]);
        }
    });
    out
}

/// Writes `part` to `range` of the middle axis of outer × n × inner, or adds it.
fn put(out: &mut [f32], part: &[f32], [_, n, inner]: [usize; 3], range: Range<usize>, output: Output) {
    let width = range.len() * inner;
    if width == 0 {
        return;
    }
    parallel::rows(out, n * inner, |first, block| {
        for (offset, out) in block.chunks_exact_mut(n * inner).enumerate() {
            let out = &mut out[range.start * inner..range.end * inner];
            let part = &part[(first + offset) * width..(first + offset + 1) * width];
            if output == Output::Overwrite {
                out.copy_from_slice(part);
            } else {
                out.iter_mut().zip(part).for_each(|(sum, number)| *sum += number);
            }
        }
    });
}

/// x as outer × a × middle × b × inner, written as outer × b × middle × a × inner.
fn transposed(x: &Tensor, axes: [usize; 2]) -> Tensor {
    let [low, high] = [axes[0].min(axes[1]), axes[0].max(axes[1])];
    let sizes = x.shape();
    let mut out_shape = sizes.to_vec();
    out_shape.swap(low, high);
    if low == high || x.is_empty() {
        return x.reshaped(&out_shape);
    }
    let (a, b) = (sizes[low], sizes[high]);
    let middle: usize = sizes[low + 1..high].iter().product();
    let inner: usize = sizes[high + 1..].iter().product();
    let mut out = Tensor::uninit(&out_shape);
    let from = x.data();
    parallel::rows(out.data_mut(), a * inner, |first, block| {
        for (offset, row) in block.chunks_exact_mut(a * inner).enumerate() {
            let index = first + offset;
            let (outer, at_b, at_middle) = (index / (b * middle), index / middle % b, index % middle);
            let start = ((outer * a * middle + at_middle) * b + at_b) * inner;
            let starts = (start..).step_by(middle * b * inner);
            if inner == 1 {
                // Copying single values with `copy_from_slice` costs more than the value.
                row.iter_mut().zip(starts).for_each(|(out, at)| *out = from[at]);
            } else {
                let rows = row.chunks_exact_mut(inner).zip(starts);
                rows.for_each(|(out, at)| out.copy_from_slice(&from[at..at + inner]));
            }
        }
    });
    out
}

/// out[id] += gradient[t] for every t, in the order of t. Threads divide the rows of `out`, so each has one writer.
fn scatter(out: &mut [f32], gradient: &[f32], [n, width]: [usize; 2], ids: &[u32], output: Output) {
    if output == Output::Overwrite {
        out.fill(0.0);
    }
    if gradient.is_empty() {
        return;
    }
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|&position| ids[position]);
    let block = n.div_ceil(rayon::current_num_threads()).max(1);
    out.par_chunks_mut(block * width).enumerate().for_each(|(index, rows)| {
        let before = |row: usize| order.partition_point(|&position| (ids[position] as usize) < row);
        for &position in &order[before(index * block)..before((index + 1) * block)] {
            let row = (ids[position] as usize - index * block) * width;
            let from = &gradient[position * width..(position + 1) * width];
            rows[row..row + width].iter_mut().zip(from).for_each(|(sum, number)| *sum += number);
        }
    });
}
