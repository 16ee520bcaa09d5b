//! Memory of gradients on a GPU.
//!
//! A gradient has the type of its value. That of a parameter is f32 and has its own place in one buffer with all
//! others, so that clipping and the optimiser process them in one launch; products write it on the branch of a
//! recording, and work that adds to it on the main stream waits for the branch. Any other gradient is shared as long as
//! it is only passed on, and gets its own memory before it is changed.

use std::sync::Arc;

use super::array::{Array, ElementType};
use super::device::Cuda;
use crate::Tensor;
use crate::gemm::Output;

/// Output of a gradient kernel, and the array that it adds to: none, the same or another.
#[derive(Debug, Clone)]
pub(crate) struct GradientTarget {
    pub(crate) out: Array,
    pub(crate) before: Option<Array>,
}

/// Type and memory of a gradient.
#[derive(Debug)]
pub(crate) struct CudaGradientSlot {
    cuda: Arc<Cuda>,
    dtype: ElementType,
    /// Place of a parameter's gradient in the common buffer.
    parameter: Option<Array>,
    /// True if the gradient accumulates onto the previous one.
    is_continuing: bool,
}

impl CudaGradientSlot {
    /// The gradient of a value that is not a parameter.
    pub(crate) fn new(value: &Array) -> Self {
        Self { cuda: Arc::clone(value.cuda()), dtype: value.dtype(), parameter: None, is_continuing: false }
    }

    /// The gradient of a parameter, at its own place.
    pub(super) fn at(parameter: Array, is_continuing: bool) -> Self {
        Self {
            cuda: Arc::clone(parameter.cuda()),
            dtype: parameter.dtype(),
            parameter: Some(parameter),
            is_continuing,
        }
    }

    /// True for the gradient of a parameter.
    pub(crate) fn is_parameter(&self) -> bool {
        self.parameter.is_some()
    }

    /// The previous gradient, if this one accumulates onto it.
    pub(crate) fn before(&self, shape: &[usize]) -> Option<Tensor> {
        let parameter = self.parameter.as_ref().filter(|_| self.is_continuing)?;
        Some(Tensor::on_gpu(shape, parameter.clone()))
    }

    /// An uninitialised gradient.
    pub(crate) fn fresh(&self, shape: &[usize]) -> Tensor {
        let len = shape.iter().product();
        let array = self.parameter.clone().unwrap_or_else(|| Array::new(&self.cuda, self.dtype, len));
        Tensor::on_gpu(shape, array)
    }

    /// True if `sum` may be changed in place.
    pub(crate) fn is_own(&self, sum: &Tensor) -> bool {
        self.parameter.is_some() || sum.is_alone()
    }

    /// The sum so far in memory that may be changed, or an uninitialised gradient.
    pub(crate) fn writable(&self, sum: Option<Tensor>, shape: &[usize]) -> (Tensor, Output) {
        match sum {
            None => (self.fresh(shape), Output::Overwrite),
            Some(sum) if self.is_own(&sum) => {
                self.join_branch();
                (sum, Output::Accumulate)
            }
            Some(sum) => {
                let own = self.fresh(shape);
                own.array().copy_from(sum.array());
                (own, Output::Accumulate)
            }
        }
    }

    /// Waits for the branch if it writes to a parameter's gradient.
    pub(crate) fn join_branch(&self) {
        if self.parameter.is_some() {
            self.cuda.join_branch();
        }
    }

    /// Adds a gradient to the sum so far.
    pub(crate) fn sum(&self, sum: Option<Tensor>, gradient: &Tensor, shape: &[usize]) -> Tensor {
        match sum {
            None if self.parameter.is_none() && gradient.array().dtype() == self.dtype => {
                gradient.reshaped(shape)
            }
            None => {
                let own = self.fresh(shape);
                own.array().set_from(gradient.array());
                own
            }
            Some(sum) if self.is_own(&sum) => {
                self.join_branch();
                sum.array().add(gradient.array());
                sum
            }
            Some(sum) => Tensor::on_gpu(shape, Array::sum_of(sum.array(), gradient.array())),
        }
    }
}
