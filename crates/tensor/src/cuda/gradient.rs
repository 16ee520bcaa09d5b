//! Where the gradient of an input stands on a card.
//!
//! A gradient has the type of its value. That of a parameter is f32 and has a place of its own, in one piece with all
//! others, so that clipping and the optimiser go over them in one launch; products write it on the branch of a recording,
//! and whoever adds to it on the main stream waits for that. Every other one is shared as long as it is only
//! handed on, and gets memory of its own before it is changed.

use std::sync::Arc;

use super::array::{Array, Dtype};
use super::device::Cuda;
use crate::Tensor;
use crate::gemm::Output;

/// Where numbers are written, and what they are added to: nothing, the same place or another.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) out: Array,
    pub(crate) before: Option<Array>,
}

/// What a gradient is like.
#[derive(Debug)]
pub(crate) struct Slot {
    cuda: Arc<Cuda>,
    dtype: Dtype,
    /// The place of a parameter's gradient.
    home: Option<Array>,
    /// Whether what stands there is gone on from.
    is_continuing: bool,
}

impl Slot {
    /// The gradient of a value.
    pub(crate) fn new(value: &Array) -> Self {
        Self { cuda: Arc::clone(value.cuda()), dtype: value.dtype(), home: None, is_continuing: false }
    }

    /// The gradient of a parameter, at a place of its own.
    pub(super) fn at(home: Array, is_continuing: bool) -> Self {
        Self { cuda: Arc::clone(home.cuda()), dtype: home.dtype(), home: Some(home), is_continuing }
    }

    /// Whether it is the gradient of a parameter, at a place of its own.
    pub(crate) fn has_home(&self) -> bool {
        self.home.is_some()
    }

    /// What stands there already, if it is gone on from.
    pub(crate) fn before(&self, shape: &[usize]) -> Option<Tensor> {
        let home = self.home.as_ref().filter(|_| self.is_continuing)?;
        Some(Tensor::on_card(shape, home.clone()))
    }

    /// A place with whatever numbers.
    pub(crate) fn fresh(&self, shape: &[usize]) -> Tensor {
        let len = shape.iter().product();
        let array = self.home.clone().unwrap_or_else(|| Array::new(&self.cuda, self.dtype, len));
        Tensor::on_card(shape, array)
    }

    /// Whether `sum` may be changed in place.
    pub(crate) fn is_own(&self, sum: &Tensor) -> bool {
        self.home.is_some() || sum.is_alone()
    }

    /// The sum so far, ready to be changed, or a fresh place.
    pub(crate) fn writable(&self, sum: Option<Tensor>, shape: &[usize]) -> (Tensor, Output) {
        match sum {
            None => (self.fresh(shape), Output::Overwrite),
            Some(sum) if self.is_own(&sum) => {
                self.meet();
                (sum, Output::Accumulate)
            }
            Some(sum) => {
                let own = self.fresh(shape);
                own.array().copy_from(sum.array());
                (own, Output::Accumulate)
            }
        }
    }

    /// Waits for what the branch writes to the place of a parameter.
    pub(crate) fn meet(&self) {
        if self.home.is_some() {
            self.cuda.meet();
        }
    }

    /// The sum so far with one more gradient.
    pub(crate) fn sum(&self, sum: Option<Tensor>, gradient: &Tensor, shape: &[usize]) -> Tensor {
        match sum {
            None if self.home.is_none() && gradient.array().dtype() == self.dtype => gradient.reshaped(shape),
            None => {
                let own = self.fresh(shape);
                own.array().set_from(gradient.array());
                own
            }
            Some(sum) if self.is_own(&sum) => {
                self.meet();
                sum.array().add(gradient.array());
                sum
            }
            Some(sum) => Tensor::on_card(shape, Array::sum_of(sum.array(), gradient.array())),
        }
    }
}
