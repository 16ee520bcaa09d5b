//! A weight that several steps of one pass multiply with: y = x·Wᵀ + b, packed once and differentiated once.
//!
//! A recurrent decoder multiplies with the same weights at every position. As separate linear layers each step would pack
//! W again and add a product of few rows to dW. Here W is packed at the first step, steps leave (g, x) behind, and when
//! the backward pass has left the last step, dW = Gᵀ·X and db = Σ rows of G are computed from all of them at once.
//!
//! ```
//! use polyhead_tensor::ops::shared_weight::SharedWeight;
//! use polyhead_tensor::{Tape, Tensor, Var};
//! let (tape, weight) = (Tape::inference(), Var::constant(Tensor::new(&[1, 2], vec![2.0, 3.0])));
//! let layer = SharedWeight::new(&tape, &weight, None)?;
//! let y = layer.linear(&tape, &Var::constant(Tensor::new(&[2, 2], vec![1.0, 1.0, 0.0, 1.0])))?;
//! assert_eq!(y.value().data(), [5.0, 3.0]);
//! # Ok::<(), polyhead_tensor::Error>(())
//! ```

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use super::linear::{Activation, finish_rows, sum_rows};
use crate::Result;
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut, Output, Packed, gemm, gemm_packed};
use crate::prepared::Prepared;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Gradient of a step's product (rows × d_out) and its input (rows × d_in).
pub(crate) type StepGradient = (Tensor, Tensor);

/// A weight with its bias, shared by the steps of one pass.
#[derive(Debug, Clone)]
pub struct SharedWeight<'a> {
    source: Source<'a>,
    bias: Option<Var>,
    /// The node that receives gradients when all steps have left theirs; without values.
    collector: Var,
    collected: Rc<RefCell<Vec<StepGradient>>>,
}

#[derive(Debug, Clone)]
enum Source<'a> {
    Plain { weight: Var, packed: [Rc<OnceCell<Packed>>; 2] },
    Prepared(&'a Prepared),
}

impl<'a> SharedWeight<'a> {
    /// W (d_out × d_in) and b (d_out) for the steps that follow on `tape`.
    ///
    /// # Errors
    /// If W does not have two axes or b another size than d_out.
    pub fn new(tape: &Tape, weight: &Var, bias: Option<&Var>) -> Result<Self> {
        let &[d_out, _] = weight.shape() else {
            return shape("shared_weight", "weight", weight.shape(), "two axes");
        };
        if let Some(bias) = bias.filter(|bias| bias.shape() != [d_out]) {
            return shape("shared_weight", "bias", bias.shape(), format!("[{d_out}]"));
        }
        let collected = Rc::<RefCell<Vec<StepGradient>>>::default();
        let (steps, own, own_bias) = (Rc::clone(&collected), weight.clone(), bias.cloned());
        let inputs: Vec<&Var> = [weight].into_iter().chain(bias).collect();
        let collector = tape.record(Tensor::zeros(&[0]), &inputs, move |_, gradients| {
            let Some((g, x)) = joined(&steps.take()) else { return };
            add_gradients((&g, &x), &own, own_bias.as_ref(), gradients);
        });
        let packed = [(); 2].map(|()| Rc::default());
        let source = Source::Plain { weight: weight.clone(), packed };
        Ok(Self { source, bias: bias.cloned(), collector, collected })
    }

    /// A prepared W, without gradients.
    ///
    /// # Errors
    /// If b has another size than d_out.
    pub fn prepared(weight: &'a Prepared, bias: Option<&Var>) -> Result<Self> {
        let [d_out, _] = weight.shape();
        if let Some(bias) = bias.filter(|bias| bias.shape() != [d_out]) {
            return shape("shared_weight", "bias", bias.shape(), format!("[{d_out}]"));
        }
        let (source, collector) = (Source::Prepared(weight), Var::constant(Tensor::zeros(&[0])));
        Ok(Self { source, bias: bias.cloned(), collector, collected: Rc::default() })
    }

    /// [d_out, d_in].
    pub fn shape(&self) -> [usize; 2] {
        match &self.source {
            Source::Plain { weight, .. } => weight.value().rows(),
            Source::Prepared(weight) => weight.shape(),
        }
    }

    /// x·Wᵀ + b: … × d_in → … × d_out.
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    pub fn linear(&self, tape: &Tape, x: &Var) -> Result<Var> {
        let [d_out, d_in] = self.shape();
        if x.shape().last() != Some(&d_in) {
            return shape("shared_weight", "x", x.shape(), format!("[…, {d_in}]"));
        }
        let mut out_shape = x.shape().to_vec();
        *out_shape.last_mut().expect("checked above") = d_out;
        on_gpu!(x.value() => Ok(crate::cuda::ops::shared_weight::linear(tape, x, self, &out_shape)));
        let mut y = self.product(x.value()).reshaped(&out_shape);
        finish_rows(&mut y, self.bias().map(Tensor::data), Activation::None);
        let (layer, input) = (self.detached(), x.clone());
        Ok(tape.record(y, &[x, &self.collector], move |gradient, gradients| {
            gradients.update(&input, |out, output| layer.multiply_back(out, gradient.data(), output));
            layer.collect((gradient.clone(), input.value().clone()), gradients);
        }))
    }

    /// The bias.
    pub(crate) fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref().map(Var::value)
    }

    /// The input of operations through which gradients reach W and b.
    pub(crate) fn collector(&self) -> &Var {
        &self.collector
    }

    /// The weight on its device; `None` if it is prepared.
    #[cfg(feature = "cuda")]
    pub(crate) fn weight(&self) -> Option<&Tensor> {
        match &self.source {
            Source::Plain { weight, .. } => Some(weight.value()),
            Source::Prepared(_) => None,
        }
    }

    /// W packed for products x·Wᵀ; `None` for int8.
    pub(crate) fn packed(&self) -> Option<&Packed> {
        match &self.source {
            Source::Plain { weight, packed: [forward, _] } => Some(forward.get_or_init(|| {
                let [d_out, d_in] = weight.value().rows();
                Packed::pooled(Matrix::new(weight.value().data(), d_out, d_in).t())
            })),
            Source::Prepared(Prepared::Packed(packed)) => Some(packed),
            Source::Prepared(Prepared::Int8(_)) => None,
        }
    }

    /// W packed for products g·W.
    ///
    /// # Panics
    /// If W is prepared: it has no gradients.
    pub(crate) fn packed_back(&self) -> &Packed {
        let Source::Plain { weight, packed: [_, backward] } = &self.source else {
            unreachable!("a prepared weight records nothing")
        };
        backward.get_or_init(|| {
            let [d_out, d_in] = weight.value().rows();
            Packed::pooled(Matrix::new(weight.value().data(), d_out, d_in))
        })
    }

    /// x·Wᵀ without the bias, on the CPU: rows × d_out.
    pub(crate) fn product(&self, x: &Tensor) -> Tensor {
        let ([d_out, d_in], Some(packed)) = (self.shape(), self.packed()) else {
            let Source::Prepared(weight) = &self.source else { unreachable!("only int8 is not packed") };
            return weight.linear(x, None, Activation::None);
        };
        let rows = x.len() / d_in.max(1);
        let mut y = Tensor::uninit(&[rows, d_out]);
        let mut target = MatrixMut::new(y.data_mut(), rows, d_out);
        gemm_packed(&mut target, Matrix::new(x.data(), rows, d_in), packed, Output::Overwrite);
        y
    }

    /// out = or += g·W on the CPU.
    fn multiply_back(&self, out: &mut [f32], g: &[f32], output: Output) {
        let [d_out, d_in] = self.shape();
        let rows = g.len() / d_out.max(1);
        let mut target = MatrixMut::new(out, rows, d_in);
        gemm_packed(&mut target, Matrix::new(g, rows, d_out), self.packed_back(), output);
    }

    /// Leaves the gradient of a step's product and its input for dW and db.
    pub(crate) fn collect(&self, step: StepGradient, gradients: &mut Gradients) {
        if self.collector.needs_gradient() {
            self.collected.borrow_mut().push(step);
            gradients.add(&self.collector, &Tensor::zeros(&[0]));
        }
    }

    /// The same weight for a backward function, which outlives the borrow of a prepared one and never needs it.
    pub(crate) fn detached(&self) -> SharedWeight<'static> {
        let source = match &self.source {
            Source::Plain { weight, packed } => {
                Source::Plain { weight: weight.clone(), packed: packed.clone() }
            }
            Source::Prepared(_) => {
                let nothing = Var::constant(Tensor::zeros(&[0, 0]));
                Source::Plain { weight: nothing, packed: [(); 2].map(|()| Rc::default()) }
            }
        };
        let (bias, collector) = (self.bias.clone(), self.collector.clone());
        SharedWeight { source, bias, collector, collected: Rc::clone(&self.collected) }
    }
}

impl Drop for SharedWeight<'_> {
    fn drop(&mut self) {
        if let Source::Plain { packed, .. } = &mut self.source {
            for packed in packed {
                if let Some(packed) = Rc::get_mut(packed).and_then(OnceCell::take) {
                    packed.recycle();
                }
            }
        }
    }
}

/// The gradients and inputs of all steps, one below the other; `None` if there are none.
fn joined(steps: &[StepGradient]) -> Option<StepGradient> {
    match steps {
        [] => None,
        [one] => Some(one.clone()),
        _ => {
            on_gpu!(steps[0].0 => Some(crate::cuda::ops::shared_weight::joined(steps)));
            let all = |part: &dyn Fn(&StepGradient) -> &Tensor| {
                let width = part(&steps[0]).rows()[1];
                let rows: usize = steps.iter().map(|step| part(step).rows()[0]).sum();
                let mut out = Tensor::uninit(&[rows, width]);
                let mut rest = out.data_mut();
                for step in steps {
                    let (now, later) = rest.split_at_mut(part(step).len());
                    now.copy_from_slice(part(step).data());
                    rest = later;
                }
                out
            };
            Some((all(&|step| &step.0), all(&|step| &step.1)))
        }
    }
}

/// dW += Gᵀ·X, db += Σ rows of G.
fn add_gradients((g, x): (&Tensor, &Tensor), weight: &Var, bias: Option<&Var>, gradients: &mut Gradients) {
    #[cfg(feature = "cuda")]
    if g.gpu().is_some() {
        return crate::cuda::ops::shared_weight::add_gradients((g, x), weight, bias, gradients);
    }
    let ([rows, d_out], [_, d_in]) = (g.rows(), x.rows());
    gradients.update(weight, |out, output| {
        let (g, x) = (Matrix::new(g.data(), rows, d_out), Matrix::new(x.data(), rows, d_in));
        gemm(&mut MatrixMut::new(out, d_out, d_in), g.t(), x, output);
    });
    if let Some(bias) = bias {
        gradients.update(bias, |out, output| sum_rows(out, g.data(), output));
    }
}
