//! Elementwise operations on a GPU; see [`crate::ops::elementwise`].

use super::column_sum::column_sum;
use super::walk;
use crate::cuda::{Array, ElementType, KernelFamily, args};
use crate::gemm::Output;
use crate::ops::activation::Activation;
use crate::ops::elementwise::{Binary, Unary};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// left ∘ right; the right side has the last axes of the left one and is repeated along the others.
pub(crate) fn binary(tape: &Tape, operation: Binary, left: &Var, right: &Var) -> Var {
    let [a, b] = alike([left.value().array().operand(), right.value().array().operand()]);
    let y = Tensor::on_gpu(left.shape(), combined(operation, &a, &b));
    let saved =
        CudaBinarySaved { operation, nodes: [left.node_only(), right.node_only()], a, b, y: y.clone() };
    tape.record(y, &[left, right], move |gradient, gradients| saved.backward(gradient, gradients))
}

/// Both converted to one type, f32 if one is.
fn alike(sides: [&Array; 2]) -> [Array; 2] {
    let is_f32 = sides.iter().any(|side| side.dtype() == ElementType::F32);
    sides.map(|side| if is_f32 { side.to_dtype(ElementType::F32) } else { side.clone() })
}

struct CudaBinarySaved {
    operation: Binary,
    nodes: [Var; 2],
    a: Array,
    b: Array,
    y: Tensor,
}

impl CudaBinarySaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let Self { operation, nodes: [left, right], a, b, y } = self;
        let g = gradient.array();
        if left.needs_gradient() {
            let full = match operation {
                Binary::Add | Binary::Sub => g.clone(),
                Binary::Mul | Binary::Div => combined(*operation, g, b),
            };
            gradients.add(left, &Tensor::on_gpu(y.shape(), full));
        }
        if !right.needs_gradient() {
            return;
        }
        let full = match operation {
            Binary::Add => g.clone(),
            Binary::Sub => mapped(Unary::Scale(-1.0), g),
            Binary::Mul => combined(Binary::Mul, g, a),
            Binary::Div => {
                let slope = combined(Binary::Div, y.array(), b);
                mapped(Unary::Scale(-1.0), &combined(Binary::Mul, g, &slope))
            }
        };
        if full.len() == b.len() {
            gradients.add(right, &Tensor::on_gpu(&[full.len()], full));
        } else if let Some(target) = gradients.target(right) {
            column_sum(&target, &full, full.len() / b.len().max(1), None);
        }
    }
}

fn combined(operation: Binary, a: &Array, b: &Array) -> Array {
    let [a, b] = alike([a, b]);
    let out = Array::new(a.cuda(), a.dtype(), a.len());
    let code = match operation {
        Binary::Add => 0_u32,
        Binary::Sub => 1,
        Binary::Mul => 2,
        Binary::Div => 3,
    };
    let arguments = args![&a, &b, &out, out.len() as u64, b.len() as u64, code];
    walk(("elementwise", "combine"), out.len().div_ceil(8), KernelFamily::Elementwise, &out, arguments);
    out
}

/// f(x).
pub(crate) fn unary(tape: &Tape, x: &Var, operation: Unary) -> Var {
    let input = Tensor::on_gpu(x.shape(), x.value().array().operand().clone());
    let y = Tensor::on_gpu(x.shape(), mapped(operation, input.array()));
    let (node, saved, dtype) = (x.node_only(), operation.saved(&input, &y), y.array().dtype());
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.update_array(&node, |out, output| {
            let g = gradient.array().to_dtype(dtype);
            let saved = saved.as_ref().map(Tensor::array);
            if out.dtype() == dtype {
                return backward(operation, out, output, [Some(&g), saved]);
            }
            let own = Array::new(g.cuda(), dtype, g.len());
            backward(operation, &own, Output::Overwrite, [Some(&g), saved]);
            match output {
                Output::Overwrite => out.set_from(&own),
                Output::Accumulate => out.add(&own),
            }
        });
    })
}

/// out = or += g·f′, in terms of the saved tensor.
fn backward(operation: Unary, out: &Array, output: Output, [g, saved]: [Option<&Array>; 2]) {
    let (code, factor) = code(operation);
    let adds = u32::from(output == Output::Accumulate);
    let arguments = args![g, saved, out, out.len() as u64, code, factor, adds];
    walk(("elementwise", "map_back"), out.len().div_ceil(8), KernelFamily::Elementwise, out, arguments);
}

fn mapped(operation: Unary, x: &Array) -> Array {
    let y = Array::new(x.cuda(), x.dtype(), x.len());
    let (code, factor) = code(operation);
    let arguments = args![x, &y, y.len() as u64, code, factor];
    walk(("elementwise", "map"), y.len().div_ceil(8), KernelFamily::Elementwise, &y, arguments);
    y
}

/// Code of the function in the kernels, and the factor of a scaling.
fn code(operation: Unary) -> (u32, f32) {
    let code = match operation {
        Unary::Scale(factor) => return (0, factor),
        Unary::Activation(Activation::None) => return (0, 1.0),
        Unary::Square => 1,
        Unary::Sqrt => 2,
        Unary::Exp => 3,
        Unary::Ln => 4,
        Unary::Tanh | Unary::Activation(Activation::Tanh) => 5,
        Unary::Relu | Unary::Activation(Activation::Relu) => 6,
        Unary::Activation(Activation::Gelu) => 7,
        Unary::Activation(Activation::GeluTanh) => 8,
        Unary::Activation(Activation::QuickGelu) => 9,
        Unary::Activation(Activation::Silu) => 10,
        Unary::Activation(Activation::Sigmoid) => 11,
    };
    (code, 1.0)
}

/// to = or += factor·from; the factor is a scalar on the GPU.
pub(super) fn scale_into(to: &Array, output: Output, from: &Array, factor: &Array) {
    let adds = u32::from(output == Output::Accumulate);
    let (from, factor) = (from.to_dtype(to.dtype()), factor.to_dtype(ElementType::F32));
    let arguments = args![&from, to, to.len() as u64, adds, &factor];
    walk(("elementwise", "scaled"), to.len().div_ceil(8), KernelFamily::Elementwise, to, arguments);
}
