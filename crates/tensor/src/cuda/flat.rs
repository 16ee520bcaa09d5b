//! All parameters of a model in one buffer on a GPU, with their gradients in another of the same layout.
//!
//! Each parameter begins at a multiple of 128 values; the gaps are zero and stay zero. Trained parameters come first.
//! If products read bf16, a third buffer holds all values rounded to bf16. Every step must write the same set of
//! gradients: one that a step leaves out would keep the value of the previous step.

use std::ops::Range;
use std::sync::Arc;

use super::array::{Array, ElementType};
use super::device::Cuda;
use super::gradient::CudaGradientSlot;
use crate::Result;
use crate::device::Math;
use crate::parameters::{ParameterId, Parameters};

/// Alignment of parameters in values: 256 bytes also as bf16.
const STEP: usize = 128;

/// Parameters and gradients of a model.
#[derive(Debug)]
pub(crate) struct FlatParameters {
    pub(crate) values: Array,
    /// The values as bf16.
    pub(crate) bf16_copy: Option<Array>,
    pub(crate) gradients: Array,
    /// Number of values of the trained parameters, gaps included.
    pub(crate) trained: usize,
    /// Range of each parameter.
    pub(crate) spans: Vec<(ParameterId, Range<usize>)>,
}

impl FlatParameters {
    /// Lays out parameters in CPU memory.
    pub(crate) fn new(cuda: &Arc<Cuda>, parameters: &Parameters) -> Result<Self> {
        let mut all: Vec<_> = parameters.iter().collect();
        all.sort_by_key(|(id, ..)| (parameters.is_frozen(*id), *id));
        let (mut spans, mut trained, mut end) = (Vec::new(), 0, 0);
        for (id, _, value) in &all {
            spans.push((*id, end..end + value.len()));
            end = (end + value.len()).next_multiple_of(STEP);
            if !parameters.is_frozen(*id) {
                trained = end;
            }
        }
        let mut host = vec![0.0_f32; end];
        for ((_, _, value), (_, span)) in all.iter().zip(&spans) {
            host[span.clone()].copy_from_slice(value.data());
        }
        let values = Array::constant(cuda, &host);
        let bf16_copy = (cuda.math() == Math::Bf16).then(|| values.to_dtype(ElementType::Bf16));
        let gradients = Array::zeros(cuda, ElementType::F32, trained);
        cuda.check()?;
        Ok(Self { values, bf16_copy, gradients, trained, spans })
    }

    /// Values of a range, with their bf16 copy.
    pub(crate) fn value(&self, span: Range<usize>) -> Array {
        let value = self.values.part(span.clone());
        match &self.bf16_copy {
            Some(bf16_copy) => value.with_bf16_copy(bf16_copy.part(span)),
            None => value,
        }
    }

    /// Memory of a parameter's gradient.
    pub(crate) fn slot(&self, id: ParameterId, value: &Array, is_continuing: bool) -> CudaGradientSlot {
        match self.spans.iter().find(|(known, _)| *known == id) {
            Some((_, span)) if span.end <= self.trained => {
                CudaGradientSlot::at(self.gradients.part(span.clone()), is_continuing)
            }
            _ => CudaGradientSlot::new(value),
        }
    }
}
