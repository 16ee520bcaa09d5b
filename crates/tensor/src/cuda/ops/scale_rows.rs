//! Rows multiplied by a number each, on a GPU; see [`crate::ops::scale_rows`].

use super::walk;
use crate::cuda::{Array, ElementType, KernelFamily, args};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// y_r = f_r · x_r.
pub(crate) fn scale_rows(tape: &Tape, x: &Var, factors: &Tensor) -> Var {
    let factors = factors.array().operand().to_dtype(ElementType::F32);
    let input = x.value().array().operand();
    let (width, dtype) = (input.len() / factors.len(), input.dtype());
    let (node, shape) = (x.node_only(), x.shape().to_vec());
    let y = Tensor::on_gpu(&shape, scaled(input, &factors, width));
    tape.record(y, &[x], move |gradient, gradients| {
        let dx = scaled(&gradient.array().matching(dtype), &factors, width);
        gradients.add(&node, &Tensor::on_gpu(&shape, dx));
    })
}

fn scaled(x: &Array, factors: &Array, width: usize) -> Array {
    let y = Array::new(x.cuda(), x.dtype(), x.len());
    let arguments = args![x, factors, &y, y.len() as u64, width as u64];
    walk(("scale_rows", "scale_rows"), y.len().div_ceil(8), KernelFamily::Elementwise, &y, arguments);
    y
}
