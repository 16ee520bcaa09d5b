//! Sum, mean and maximum, over one axis or over all values.
//!
//! One order for every sum, along any axis: blocks of 4096 values, in each block sixteen lanes as in `lanes.rs`, the
//! totals of the blocks added one after the other. Backward: a sum passes its gradient to every value, a mean 1/n of
//! it, a maximum passes it to the first of the largest values.

use rayon::prelude::*;

use crate::error::shape;
use crate::lanes::{LANES, sum as lane_sum, vectorised};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Values of a sum that go through the lanes before their total is added.
const BLOCK: usize = 4096;
/// Columns whose lanes are held at once.
const COLUMNS: usize = 64;
/// Values from which several threads are used.
const PARALLEL: usize = 1 << 16;

/// Axes of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// All values; the result has no axes.
    All,
    /// One axis, counted from 0; the result lacks it.
    Axis(usize),
}

/// The sum; 0 over no values.
///
/// # Errors
/// If x has no such axis.
pub fn sum(tape: &Tape, x: &Var, over: Over) -> Result<Var> {
    let (sizes, out_shape) = sizes("sum", x.shape(), over)?;
    on_gpu!(x.value() => crate::cuda::through_host(tape, &[x], |tape, inputs| sum(tape, &inputs[0], over)));
    let y = sum_axis(x.value().data(), sizes).reshaped(&out_shape);
    let input = x.clone();
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&input, &spread(gradient, sizes, 1.0));
    }))
}

/// The mean.
///
/// # Errors
/// If x has no such axis or the axis has no values.
pub fn mean(tape: &Tape, x: &Var, over: Over) -> Result<Var> {
    let (sizes, out_shape) = sizes("mean", x.shape(), over)?;
    not_empty("mean", x.shape(), sizes)?;
    on_gpu!(x.value() => crate::cuda::through_host(tape, &[x], |tape, inputs| mean(tape, &inputs[0], over)));
    let n = sizes[1] as f32;
    let mut sums = sum_axis(x.value().data(), sizes);
    for sum in sums.data_mut() {
        *sum /= n;
    }
    let input = x.clone();
    Ok(tape.record(sums.reshaped(&out_shape), &[x], move |gradient, gradients| {
        gradients.add(&input, &spread(gradient, sizes, n));
    }))
}

/// The maximum; NaN if any value is NaN.
///
/// # Errors
/// If x has no such axis or the axis has no values.
pub fn max(tape: &Tape, x: &Var, over: Over) -> Result<Var> {
    let (sizes @ [_, n, inner], out_shape) = sizes("max", x.shape(), over)?;
    not_empty("max", x.shape(), sizes)?;
    on_gpu!(x.value() => crate::cuda::through_host(tape, &[x], |tape, inputs| max(tape, &inputs[0], over)));
    let (largest, indices) = largest(x.value().data(), sizes);
    let input = x.clone();
    Ok(tape.record(largest.reshaped(&out_shape), &[x], move |gradient, gradients| {
        let mut dx = Tensor::zeros(input.shape());
        let out = dx.data_mut();
        for (index, (&position, &number)) in indices.iter().zip(gradient.data()).enumerate() {
            out[(index / inner * n + position) * inner + index % inner] = number;
        }
        gradients.add(&input, &dx);
    }))
}

/// x as outer × n × inner with n the reduced axis, and the shape of the result.
fn sizes(operation: &'static str, x: &[usize], over: Over) -> Result<([usize; 3], Vec<usize>)> {
    match over {
        Over::All => Ok(([1, x.iter().product(), 1], Vec::new())),
        Over::Axis(axis) => {
            let sizes = axis_sizes(operation, x, axis)?;
            let out_shape = x.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, size)| *size);
            Ok((sizes, out_shape.collect()))
        }
    }
}

/// Number of values before, along and after an axis: [outer, n, inner].
pub(super) fn axis_sizes(operation: &'static str, x: &[usize], axis: usize) -> Result<[usize; 3]> {
    if axis >= x.len() {
        return shape(operation, "x", x, format!("an axis {axis}, counted from 0"));
    }
    Ok([x[..axis].iter().product(), x[axis], x[axis + 1..].iter().product()])
}

fn not_empty(operation: &'static str, x: &[usize], [_, n, _]: [usize; 3]) -> Result<()> {
    if n == 0 { shape(operation, "x", x, "at least one value along the axis") } else { Ok(()) }
}

/// Sums of outer × n × inner along n: outer × inner.
pub(super) fn sum_axis(data: &[f32], [outer, n, inner]: [usize; 3]) -> Tensor {
    let mut sums = Tensor::zeros(&[outer, inner]);
    if data.is_empty() {
        return sums;
    }
    let out = sums.data_mut();
    if inner == 1 {
        let rows = |(index, out): (usize, &mut f32)| *out = row_sum(&data[index * n..(index + 1) * n]);
        if outer == 1 || data.len() < PARALLEL {
            out.iter_mut().enumerate().for_each(rows);
        } else {
            out.par_iter_mut().enumerate().for_each(rows);
        }
        return sums;
    }
    let columns =
        |data: &[f32], index: usize, out: &mut [f32]| sum_columns(out, data, inner, index * COLUMNS);
    if outer == 1 && data.len() >= PARALLEL {
        out.par_chunks_mut(COLUMNS).enumerate().for_each(|(index, out)| columns(data, index, out));
        return sums;
    }
    out.par_chunks_mut(inner)
        .zip(data.par_chunks(n * inner))
        .with_min_len((PARALLEL / (n * inner)).max(1))
        .for_each(|(out, data)| {
            out.chunks_mut(COLUMNS).enumerate().for_each(|(index, out)| columns(data, index, out));
        });
    sums
}

/// The sum of one row.
fn row_sum(row: &[f32]) -> f32 {
    if row.len() < PARALLEL {
        return row.chunks(BLOCK).map(block_sum).fold(0.0, |total, block| total + block);
    }
    let blocks: Vec<f32> = row.par_chunks(BLOCK).map(block_sum).collect();
    blocks.iter().fold(0.0, |total, block| total + block)
}

vectorised! {
    fn block_sum(block: &[f32]) -> f32 {
        lane_sum(block, |x| x)
    }
}

vectorised! {
    /// Sums of up to [`COLUMNS`] columns from `start`, each as [`row_sum`] would add it.
    fn sum_columns(out: &mut [f32], data: &[f32], width: usize, start: usize) {
        let count = out.len();
        for block in data.chunks(BLOCK * width) {
            let mut lanes = [[0.0_f32; COLUMNS]; LANES];
            for (index, row) in block.chunks_exact(width).enumerate() {
                let lane = &mut lanes[index % LANES][..count];
                for (sum, number) in lane.iter_mut().zip(&row[start..start + count]) {
                    *sum += number;
                }
            }
            for half in [8, 4, 2, 1] {
                let (low, high) = lanes.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high.iter()) {
                    for column in 0..COLUMNS {
                        low[column] += high[column];
                    }
                }
            }
            for (sum, number) in out.iter_mut().zip(&lanes[0]) {
                *sum += number;
            }
        }
    }
}

/// The gradient divided by `divisor`, repeated along the axis that was summed.
fn spread(gradient: &Tensor, [outer, n, inner]: [usize; 3], divisor: f32) -> Tensor {
    let mut out = Tensor::uninit(&[outer, n, inner]);
    let from = gradient.data();
    parallel::rows(out.data_mut(), inner, |first, block| {
        for (offset, row) in block.chunks_exact_mut(inner).enumerate() {
            let at = (first + offset) / n * inner;
            for (number, gradient) in row.iter_mut().zip(&from[at..at + inner]) {
                *number = gradient / divisor;
            }
        }
    });
    out
}

/// The largest values along n and the first index of each.
fn largest(data: &[f32], [outer, n, inner]: [usize; 3]) -> (Tensor, Vec<usize>) {
    let mut values = Tensor::uninit(&[outer, inner]);
    values.data_mut().fill(f32::NEG_INFINITY);
    let mut indices = vec![0; outer * inner];
    if data.is_empty() {
        return (values, indices);
    }
    let work = |((values, indices), data): ((&mut [f32], &mut [usize]), &[f32])| {
        for (position, row) in data.chunks_exact(inner).enumerate() {
            for ((value, best), &number) in values.iter_mut().zip(indices.iter_mut()).zip(row) {
                if number > *value || (number.is_nan() && !value.is_nan()) {
                    (*value, *best) = (number, position);
                }
            }
        }
    };
    values
        .data_mut()
        .par_chunks_mut(inner)
        .zip(indices.par_chunks_mut(inner))
        .zip(data.par_chunks(n * inner))
        .with_min_len((PARALLEL / (n * inner)).max(1))
        .for_each(work);
    (values, indices)
}
