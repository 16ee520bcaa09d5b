//! Dropout on a GPU, alone or added to a residual; see [`crate::ops::dropout`].

use super::walk;
use crate::cuda::{Array, KernelFamily, args};
use crate::gemm::Output;
use crate::ops::dropout::DropoutMask;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// y = mask∘x.
pub(crate) fn dropout(tape: &Tape, x: &Var, mask: DropoutMask) -> Var {
    let y = x.value().uninit_like();
    drop_into(y.array(), x.value().array(), None, Some(mask));
    let node = x.node_only();
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.update_array(&node, |out, output| backward(out, gradient.array(), output, Some(mask)));
    })
}

/// y = residual + mask∘x.
pub(crate) fn add_dropped(tape: &Tape, residual: &Var, x: &Var, mask: Option<DropoutMask>) -> Var {
    let y = x.value().uninit_like();
    let other = residual.value().array().to_dtype(y.array().dtype());
    drop_into(y.array(), x.value().array(), Some(&other), mask);
    let nodes = [residual.node_only(), x.node_only()];
    tape.record(y, &[residual, x], move |gradient: &Tensor, gradients| {
        let [residual, x] = &nodes;
        gradients.add(residual, gradient);
        match mask {
            None => gradients.add(x, gradient),
            Some(_) => {
                gradients.update_array(x, |out, output| backward(out, gradient.array(), output, mask));
            }
        }
    })
}

fn backward(out: &Array, gradient: &Array, output: Output, mask: Option<DropoutMask>) {
    let gradient = gradient.to_dtype(out.dtype());
    drop_into(out, &gradient, (output == Output::Accumulate).then_some(out), mask);
}

fn drop_into(y: &Array, x: &Array, residual: Option<&Array>, mask: Option<DropoutMask>) {
    // A thread processes eight values, twice.
    let tasks = y.len().div_ceil(16);
    walk(
        ("dropout", "dropout"),
        tasks,
        KernelFamily::Elementwise,
        y,
        args![x, residual, y, y.len() as u64, mask],
    );
}
