//! Weights shared by the steps of a pass, on a GPU; see [`crate::ops::shared_weight`].

use super::linear::{LinearGradient, product};
use crate::cuda::{Array, Epilogue, Operand, Product};
use crate::gemm::Output;
use crate::ops::shared_weight::{SharedWeight, StepGradient};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// x·Wᵀ + b.
pub(crate) fn linear(tape: &Tape, x: &Var, layer: &SharedWeight<'_>, out_shape: &[usize]) -> Var {
    let weight = layer.weight().expect("weights on a GPU are not prepared");
    let y = Tensor::on_gpu(out_shape, product(x.value(), weight, layer.bias(), Epilogue::None));
    let (saved, input) = (layer.detached(), x.clone());
    tape.record(y, &[x, layer.collector()], move |gradient, gradients| {
        let ([d_out, d_in], g) = (saved.shape(), gradient.array());
        let rows = g.len() / d_out.max(1);
        gradients.update_from(&input, |out, before| {
            let weight = saved.weight().expect("as in the forward pass").array().matching(g.dtype());
            let output = if before.is_some() { Output::Accumulate } else { Output::Overwrite };
            let sides = (Operand::new(g, rows, d_out), Operand::new(&weight, d_out, d_in));
            g.cuda().multiply(&Product { output, before, ..Product::new(sides.0, sides.1, out) });
        });
        let x = input.value().reshaped(&[rows, d_in]);
        saved.collect((gradient.reshaped(&[rows, d_out]), x), gradients);
    })
}

/// The gradients and inputs of several steps, one below the other, in the dtype of the first.
pub(crate) fn joined(steps: &[StepGradient]) -> StepGradient {
    let all = |part: &dyn Fn(&StepGradient) -> &Tensor| {
        let ([_, width], first) = (part(&steps[0]).rows(), part(&steps[0]).array());
        let len = steps.iter().map(|step| part(step).len()).sum();
        let out = Array::new(first.cuda(), first.dtype(), len);
        let mut start = 0;
        for step in steps {
            let from = part(step).array();
            out.part(start..start + from.len()).set_from(from);
            start += from.len();
        }
        Tensor::on_gpu(&[len / width.max(1), width], out)
    };
    (all(&|step| &step.0), all(&|step| &step.1))
}

/// dW += Gᵀ·X, db += Σ rows of G.
pub(crate) fn add_gradients(
    (g, x): (&Tensor, &Tensor),
    weight: &Var,
    bias: Option<&Var>,
    gradients: &mut Gradients,
) {
    let x = Var::constant(x.clone());
    LinearGradient { x: &x, weight, bias, factor: None }.add(g.array(), None, g.rows(), gradients);
}
