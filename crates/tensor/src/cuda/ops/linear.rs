//! Linear layers on a GPU: one product with fused bias and ReLU; see [`crate::ops::linear`].

use super::activation;
use super::column_sum::{Partials, column_sum};
use crate::Result;
use crate::cuda::{Array, Epilogue, GradientTarget, Operand, Product};
use crate::gemm::Output;
use crate::ops::dropout::DropoutMask;
use crate::ops::linear::{Activation, LinearOptions};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// y = dropout(act(x·Wᵀ + b)).
pub(crate) fn linear(
    tape: &Tape,
    x: &Var,
    weight: &Var,
    bias: Option<&Var>,
    options: LinearOptions,
) -> Result<Var> {
    let mask = DropoutMask::draw(tape, options.dropout)?;
    let is_fused = matches!(options.activation, Activation::None | Activation::Relu);
    let epilogue = if options.activation == Activation::Relu { Epilogue::Relu } else { Epilogue::None };
    let y = product(x.value(), weight.value(), bias.filter(|_| is_fused).map(Var::value), epilogue);
    let before = (!is_fused && tape.is_training()).then(|| y.duplicate());
    if !is_fused {
        let bias = bias.map(|bias| bias.value().array().matching(y.dtype()));
        activation::apply(&y, bias.as_ref(), options.activation, mask);
    } else if mask.is_some() {
        activation::apply(&y, None, Activation::None, mask);
    }
    let mut shape = x.shape().to_vec();
    *shape.last_mut().expect("checked by the caller") = weight.value().rows()[0];
    let value = Tensor::on_gpu(&shape, y.clone());
    let saved = CudaLinearSaved {
        x: x.clone(),
        weight: weight.clone(),
        bias: bias.cloned(),
        y: (options.activation == Activation::Relu).then_some(y),
        before,
        mask,
        activation: options.activation,
    };
    let inputs: Vec<&Var> = [x, weight].into_iter().chain(bias).collect();
    Ok(tape.record(value, &inputs, move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// x·Wᵀ + b, of the type of x.
pub(super) fn product(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, epilogue: Epilogue) -> Array {
    let ([rows, d_in], [d_out, _], x) = (x.rows(), weight.rows(), x.array());
    let weight = weight.array().matching(x.dtype());
    let bias = bias.map(|bias| bias.array().matching(x.dtype()));
    let y = Array::new(x.cuda(), x.dtype(), rows * d_out);
    let product = Product::new(Operand::new(x, rows, d_in), Operand::new(&weight, d_out, d_in).t(), &y);
    x.cuda().multiply(&Product { bias: bias.as_ref(), epilogue, ..product });
    y
}

struct CudaLinearSaved {
    x: Var,
    weight: Var,
    bias: Option<Var>,
    /// The output; after ReLU it shows where the gradient is zero.
    y: Option<Array>,
    /// Input of the other activations, without the bias.
    before: Option<Array>,
    mask: Option<DropoutMask>,
    activation: Activation,
}

impl CudaLinearSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let shape = gradient.rows();
        let (g, sums) = self.before_activation(gradient.array(), shape);
        let layer =
            LinearGradient { x: &self.x, weight: &self.weight, bias: self.bias.as_ref(), factor: None };
        layer.add(&g, sums.as_ref(), shape, gradients);
    }

    /// Gradient of x·Wᵀ + b, and partial column sums of it if they were computed along the way.
    fn before_activation(&self, gradient: &Array, shape: [usize; 2]) -> (Array, Option<Partials>) {
        if self.activation == Activation::None && self.mask.is_none() {
            return (gradient.clone(), None);
        }
        let bias = self.bias.as_ref().map(|bias| bias.value().array().matching(gradient.dtype()));
        let saved = activation::ActivationSaved {
            y: self.y.as_ref(),
            before: self.before.as_ref(),
            bias: bias.as_ref(),
        };
        let (g, sums) = activation::backward(gradient, &saved, shape, self.activation, self.mask);
        (g, Some(sums))
    }
}

/// Backward pass of a layer from the gradient of its product.
pub(crate) struct LinearGradient<'a> {
    pub(crate) x: &'a Var,
    pub(crate) weight: &'a Var,
    pub(crate) bias: Option<&'a Var>,
    /// Scalar on the GPU by which everything is multiplied. Default: 1.
    pub(crate) factor: Option<&'a Array>,
}

impl LinearGradient<'_> {
    /// dx = g·W, dW = gᵀ·x, db = Σ rows of g, with g of rows × d_out; `sums` are partial sums of the latter, if known.
    pub(crate) fn add(
        &self,
        g: &Array,
        sums: Option<&Partials>,
        [rows, d_out]: [usize; 2],
        gradients: &mut Gradients,
    ) {
        let cuda = g.cuda();
        let [_, d_in] = self.x.value().rows();
        let side = Operand::new(g, rows, d_out);
        let factor = self.factor;
        gradients.update_from(self.x, |out, before| {
            let weight = self.weight.value().array().matching(g.dtype());
            let product = Product::new(side, Operand::new(&weight, d_out, d_in), out);
            cuda.multiply(&Product { output: output(before), before, factor, ..product });
        });
        let x = self.x.value().array().matching(g.dtype());
        let reads =
            [Some(g), Some(&x), factor, sums.map(Partials::array)].into_iter().flatten().collect::<Vec<_>>();
        let on_branch = |can_wait: bool, work: &dyn Fn()| {
            if can_wait { cuda.on_branch(&reads, work) } else { work() }
        };
        let can_wait = gradients.can_wait(self.weight);
        gradients.update_from(self.weight, |out, before| {
            let product = Product::new(side.t(), Operand::new(&x, rows, d_in), out);
            let product = Product { output: output(before), before, factor, ..product };
            on_branch(can_wait, &|| cuda.multiply(&product));
        });
        if let Some(bias) = self.bias {
            let can_wait = gradients.can_wait(bias);
            gradients.update_from(bias, |out, before| {
                let target = GradientTarget { out: out.clone(), before: before.cloned() };
                on_branch(can_wait, &|| match sums {
                    Some(sums) => sums.finish([Some(&target), None], factor),
                    None => column_sum(&target, g, rows, factor),
                });
            });
        }
    }
}

fn output(before: Option<&Array>) -> Output {
    if before.is_some() { Output::Accumulate } else { Output::Overwrite }
}
