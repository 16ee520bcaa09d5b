//! Slicing and concatenating tensors on a GPU; see [`crate::ops::shape`].

use std::ops::Range;

use super::walk;
use crate::cuda::{Array, KernelFamily, args};
use crate::gemm::Output;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Number of values before, along and after an axis.
type AxisSizes = [usize; 3];

/// The part of x in `range` of an axis.
pub(crate) fn slice(tape: &Tape, x: &Var, sizes: AxisSizes, range: Range<usize>, out_shape: &[usize]) -> Var {
    let y = Tensor::on_gpu(out_shape, cut(x.value().array().operand(), sizes, range.clone()));
    let node = x.node_only();
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.update_array(&node, |out, output| {
            if output == Output::Overwrite {
                out.clear();
            }
            put(out, &gradient.array().to_dtype(out.dtype()), sizes, range, output);
        });
    })
}

/// Concatenates tensors along an axis, each in its range.
pub(crate) fn concat(
    tape: &Tape,
    parts: &[&Var],
    sizes: AxisSizes,
    ranges: Vec<Range<usize>>,
    out_shape: &[usize],
) -> Var {
    let first = parts[0].value().array().operand();
    let y = Array::new(first.cuda(), first.dtype(), out_shape.iter().product());
    for (part, range) in parts.iter().zip(&ranges) {
        let part = part.value().array().operand().to_dtype(y.dtype());
        put(&y, &part, sizes, range.clone(), Output::Overwrite);
    }
    let nodes: Vec<(Var, Vec<usize>)> =
        parts.iter().map(|part| (part.node_only(), part.shape().to_vec())).collect();
    tape.record(Tensor::on_gpu(out_shape, y), parts, move |gradient, gradients| {
        for ((node, shape), range) in nodes.iter().zip(ranges) {
            if node.needs_gradient() {
                gradients.add(node, &Tensor::on_gpu(shape, cut(gradient.array(), sizes, range)));
            }
        }
    })
}

/// The values in `range` of the axis.
fn cut(x: &Array, [outer, n, inner]: AxisSizes, range: Range<usize>) -> Array {
    let width = range.len() * inner;
    let y = Array::new(x.cuda(), x.dtype(), outer * width);
    if !y.is_empty() {
        let from = x.part(range.start * inner..x.len());
        copy_rows([&from, &y], [outer, width], [n * inner, width], Output::Overwrite);
    }
    y
}

/// Writes values to `range` of the axis, or adds them.
fn put(out: &Array, part: &Array, [outer, n, inner]: AxisSizes, range: Range<usize>, output: Output) {
    let width = range.len() * inner;
    if !part.is_empty() {
        let to = out.part(range.start * inner..out.len());
        copy_rows([part, &to], [outer, width], [width, n * inner], output);
    }
}

fn copy_rows([from, to]: [&Array; 2], [rows, width]: [usize; 2], strides: [usize; 2], output: Output) {
    let [rows_, width_, from_stride, to_stride] = [rows, width, strides[0], strides[1]].map(|n| n as u64);
    let adds = u32::from(output == Output::Accumulate);
    let arguments = args![from, to, rows_, width_, from_stride, to_stride, adds];
    walk(("shape", "copy_rows"), rows * width.div_ceil(8), KernelFamily::Elementwise, to, arguments);
}
