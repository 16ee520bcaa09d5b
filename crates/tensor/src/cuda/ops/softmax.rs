//! Softmax over the last axis on a GPU, and its logarithm; see [`crate::ops::softmax`].

use crate::cuda::{Argument, KernelFamily, Launch, args};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Softmax or its logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SoftmaxKind {
    Softmax,
    Logarithm,
}

impl SoftmaxKind {
    fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::Logarithm => "log_softmax",
        }
    }
}

/// Softmax of the rows of x, or its logarithm.
pub(crate) fn softmax(tape: &Tape, x: &Var, kind: SoftmaxKind) -> Var {
    let y = x.value().uninit_like();
    let [_, width] = y.rows();
    by_rows(kind.name(), &y, args![x.value().array(), y.array(), width]);
    let (node, saved) = (x.node_only(), y.clone());
    tape.record(y, &[x], move |gradient, gradients| {
        let dx = saved.uninit_like();
        let dy = gradient.array().to_dtype(saved.array().dtype());
        let name = format!("{}_back", kind.name());
        by_rows(&name, &saved, args![&dy, saved.array(), dx.array(), width]);
        gradients.add(&node, &dx);
    })
}

/// Launches a block per row.
fn by_rows(name: &str, tensor: &Tensor, arguments: &[Argument]) {
    let [rows, _] = tensor.rows();
    let array = tensor.array();
    let name = &format!("{name}_{}", array.suffix());
    let (grid, family) = ([rows, 1, 1], KernelFamily::Loss);
    array.cuda().launch(Launch { file: "softmax", name, grid, block: 256, shared: 0, family }, arguments);
}
