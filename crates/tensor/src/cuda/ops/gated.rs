//! Gated activations on a GPU; see [`crate::ops::gated`].

use super::activation::code;
use super::walk;
use crate::cuda::{Array, KernelFamily, args};
use crate::ops::linear::Activation;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// act(first half) ∘ second half of the last axis.
pub(crate) fn gated(tape: &Tape, x: &Var, activation: Activation) -> Var {
    let [rows, both] = x.value().rows();
    let (width, input) = (both / 2, x.value().array().clone());
    let y = Array::new(input.cuda(), input.dtype(), rows * width);
    let tasks = rows * width.div_ceil(8);
    let family = KernelFamily::Elementwise;
    walk(
        ("activation", "gated_forward"),
        tasks,
        family,
        &y,
        args![&input, &y, rows, width, code(activation)],
    );
    let mut shape = x.shape().to_vec();
    *shape.last_mut().expect("checked before") = width;
    let (node, in_shape) = (x.node_only(), x.shape().to_vec());
    tape.record(Tensor::on_gpu(&shape, y), &[x], move |gradient, gradients| {
        let dy = gradient.array().matching(input.dtype());
        let dx = Array::new(input.cuda(), input.dtype(), input.len());
        let arguments = args![&dy, &input, &dx, rows, width, code(activation)];
        walk(("activation", "gated_backward"), tasks, family, &dx, arguments);
        gradients.add(&node, &Tensor::on_gpu(&in_shape, dx));
    })
}
