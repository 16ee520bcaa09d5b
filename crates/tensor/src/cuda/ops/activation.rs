//! Bias, activation and dropout after the product of a linear layer on a GPU, and their backward pass.

use super::column_sum::{self, Partials};
use crate::cuda::{Array, KernelFamily, Launch, args};
use crate::ops::dropout::DropoutMask;
use crate::ops::linear::Activation;

/// Values that a warp processes at a time.
const SPAN: usize = 256;

/// Code of the activation in the kernels.
pub(super) fn code(activation: Activation) -> u32 {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Gelu => 2,
        Activation::GeluTanh => 3,
        Activation::QuickGelu => 4,
        Activation::Silu => 5,
        Activation::Tanh => 6,
        Activation::Sigmoid => 7,
    }
}

/// Sets y, rows of the width of the bias, to dropout(act(y + bias)).
pub(crate) fn apply(y: &Array, bias: Option<&Array>, activation: Activation, mask: Option<DropoutMask>) {
    // Without a bias the division into rows does not matter.
    let columns = bias.map_or(y.len().min(SPAN * 8), Array::len).max(1);
    if bias.is_none() && !y.len().is_multiple_of(columns) {
        return launch(y, None, [1, y.len()], activation, mask);
    }
    launch(y, bias, [y.len() / columns, columns], activation, mask);
}

fn launch(
    y: &Array,
    bias: Option<&Array>,
    [rows, columns]: [usize; 2],
    activation: Activation,
    mask: Option<DropoutMask>,
) {
    let cuda = y.cuda();
    let warps = rows * columns.div_ceil(SPAN);
    let launch = Launch {
        file: "activation",
        name: &format!("activation_forward_{}", y.suffix()),
        grid: [warps.div_ceil(8).min(16 * cuda.multiprocessors() as usize), 1, 1],
        block: 256,
        shared: 0,
        family: KernelFamily::Elementwise,
    };
    cuda.launch(launch, args![y, y, bias, rows, columns, code(activation), mask]);
}

/// Arrays saved for the backward pass.
pub(crate) struct ActivationSaved<'a> {
    /// The output, for ReLU.
    pub(crate) y: Option<&'a Array>,
    /// Input of the other activations, without the bias.
    pub(crate) before: Option<&'a Array>,
    pub(crate) bias: Option<&'a Array>,
}

/// Returns the gradient before dropout and activation, rows × columns, and partial column sums of it, for the bias.
pub(crate) fn backward(
    gradient: &Array,
    saved: &ActivationSaved<'_>,
    [rows, columns]: [usize; 2],
    activation: Activation,
    mask: Option<DropoutMask>,
) -> (Array, Partials) {
    let cuda = gradient.cuda();
    let out = Array::new(cuda, gradient.dtype(), gradient.len());
    let shares = column_sum::shares(cuda, rows, columns);
    let partials = Partials::new(cuda, shares, columns);
    let launch = |name: &str, arguments: &[crate::cuda::Argument]| {
        let name = &format!("{name}_{}", gradient.suffix());
        let grid = column_sum::grid(columns, shares);
        let family = KernelFamily::Elementwise;
        cuda.launch(Launch { file: "activation", name, grid, block: 256, shared: 0, family }, arguments);
    };
    match saved.y {
        // Dropped values are 0 in y too: the mask need not be drawn again.
        Some(y) if activation == Activation::Relu && columns.is_multiple_of(8) => {
            let scale = mask.map_or(1.0, |mask| mask.argument().scale);
            launch("relu_backward", args![gradient, y, &out, partials.array(), rows, columns, scale]);
        }
        _ => {
            let read = saved.y.or(saved.before);
            let code = code(activation);
            launch(
                "activation_backward",
                args![gradient, read, saved.bias, &out, partials.array(), rows, columns, code, mask],
            );
        }
    }
    (out, partials)
}
