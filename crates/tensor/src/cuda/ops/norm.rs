//! Norms of rows on a GPU, with the residual and dropout before them; see [`crate::ops::norm`] and
//! [`crate::ops::rms_norm`].

use std::sync::Arc;

use super::column_sum::Partials;
use crate::cuda::{Array, ElementType, GradientTarget, KernelFamily, Launch, args};
use crate::ops::dropout::DropoutMask;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Inputs and options of a norm.
pub(crate) struct Norm<'a> {
    pub(crate) x: &'a Var,
    pub(crate) residual: Option<&'a Var>,
    pub(crate) gamma: &'a Var,
    /// β of a layer norm; `None` for RMS norm.
    pub(crate) beta: Option<&'a Var>,
    pub(crate) mask: Option<DropoutMask>,
    pub(crate) epsilon: f32,
}

/// Threads per block of the forward pass, and of the backward pass, where more rows share one sum.
const THREADS: [usize; 2] = [128, 256];

/// Kernel variant for rows of `width` values, rows that `threads` process at once, and blocks of the backward pass per
/// multiprocessor.
fn variant(width: usize, threads: usize) -> (&'static str, usize, usize) {
    match width {
        _ if !width.is_multiple_of(8) || width > 1024 => ("any", 1, 2),
        ..=512 => ("512", threads / 32, 2),
        _ => ("1024", threads / 32, 1),
    }
}

impl Norm<'_> {
    fn kind(&self) -> &'static str {
        if self.beta.is_some() { "layer_norm" } else { "rms_norm" }
    }

    /// Norm of residual + dropout(x).
    pub(crate) fn forward(self, tape: &Tape) -> Var {
        let [rows, width] = self.x.value().rows();
        let x = self.x.value().array();
        let cuda = x.cuda();
        let residual = self.residual.map(|residual| residual.value().array().to_dtype(x.dtype()));
        // Without a residual and dropout h is x.
        let h = (residual.is_some() || self.mask.is_some()).then(|| Array::new(cuda, x.dtype(), x.len()));
        let y = Array::new(cuda, x.dtype(), x.len());
        let [mean, inverse] = [(); 2].map(|()| Array::new(cuda, ElementType::F32, rows));
        let gamma = self.gamma.value().array().to_dtype(ElementType::F32);
        let beta = self.beta.map(|beta| beta.value().array().to_dtype(ElementType::F32));
        let (size, at_once, _) = variant(width, THREADS[0]);
        let launch = Launch {
            file: "norm",
            name: &format!("{}_forward_{size}_{}", self.kind(), x.suffix()),
            grid: [rows.div_ceil(at_once), 1, 1],
            block: THREADS[0],
            shared: 0,
            family: KernelFamily::Norm,
        };
        cuda.launch(
            launch,
            args![
                x,
                residual.as_ref(),
                &gamma,
                beta.as_ref(),
                h.as_ref(),
                &y,
                &mean,
                &inverse,
                rows,
                width,
                self.epsilon,
                self.mask
            ],
        );
        let saved = CudaNormSaved {
            kind: self.kind(),
            h: h.unwrap_or_else(|| x.clone()),
            scales: gamma,
            mean,
            inverse,
            mask: self.mask,
            nodes: [Some(self.x), self.residual, Some(self.gamma), self.beta]
                .map(|var| var.map(Var::node_only)),
        };
        let value = Tensor::on_gpu(self.x.shape(), y);
        let inputs: Vec<&Var> =
            [self.x, self.gamma].into_iter().chain(self.beta).chain(self.residual).collect();
        tape.record(value, &inputs, move |gradient, gradients| saved.backward(gradient, gradients))
    }
}

struct CudaNormSaved {
    kind: &'static str,
    h: Array,
    scales: Array,
    mean: Array,
    inverse: Array,
    mask: Option<DropoutMask>,
    /// x, residual, γ, β.
    nodes: [Option<Var>; 4],
}

impl CudaNormSaved {
    /// Computes with one kernel the gradients of x and the residual, each added to the sum so far, and the partial sums
    /// of dγ and dβ.
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let [rows, width] = gradient.rows();
        let dy = gradient.array().to_dtype(self.h.dtype());
        let cuda = dy.cuda();
        let (size, at_once, side_by_side) = variant(width, THREADS[1]);
        let [x, residual, gamma, beta] = &self.nodes;
        let mut target = |var: &Option<Var>| var.as_ref().and_then(|var| gradients.target(var));
        let (residual, x) = (target(residual), target(x));
        let fits = |target: &GradientTarget| target.out.dtype() == self.h.dtype();
        assert!(
            [&x, &residual].into_iter().flatten().all(fits),
            "x, the residual and their gradients have the same type"
        );
        let (gamma, beta) = (target(gamma), target(beta));
        let blocks = rows.div_ceil(at_once).min(side_by_side * cuda.multiprocessors() as usize);
        let columns = if self.kind == "layer_norm" { 2 * width } else { width };
        let is_summed = gamma.is_some() || beta.is_some();
        let partials = is_summed.then(|| Partials::new(cuda, blocks, columns));
        let launch = Launch {
            file: "norm",
            name: &format!("{}_backward_{size}_{}", self.kind, dy.suffix()),
            grid: [blocks, 1, 1],
            block: THREADS[1],
            shared: 0,
            family: KernelFamily::Norm,
        };
        Arc::clone(cuda).launch(
            launch,
            args![
                &dy,
                &self.h,
                &self.scales,
                &self.mean,
                &self.inverse,
                residual.as_ref().map(|target| &target.out),
                residual.as_ref().and_then(|target| target.before.as_ref()),
                x.as_ref().map(|target| &target.out),
                x.as_ref().and_then(|target| target.before.as_ref()),
                partials.as_ref().map(Partials::array),
                rows,
                width,
                self.mask
            ],
        );
        if let Some(partials) = partials {
            partials.finish([gamma.as_ref(), beta.as_ref()], None);
        }
    }
}
