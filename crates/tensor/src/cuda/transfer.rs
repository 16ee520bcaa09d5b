//! Copies of tensors between CPU and GPU.

use std::sync::Arc;

use super::array::{Array, ElementType};
use super::device::Cuda;
use crate::bf16::Bf16Tensor;
use crate::device::Math;
use crate::{Result, Tensor};

/// Copies a tensor to a GPU, in its compute dtype.
pub(crate) fn upload(cuda: &Arc<Cuda>, tensor: &Tensor) -> Result<Tensor> {
    if tensor.gpu().is_some_and(|array| Arc::ptr_eq(array.cuda(), cuda)) {
        return Ok(tensor.clone());
    }
    let host = tensor.to_host()?;
    let array = match cuda.math() {
        Math::F32 | Math::Tf32 => Array::constant(cuda, host.data()),
        Math::Bf16 => Array::constant(cuda, Bf16Tensor::from_f32(&host).bits()),
    };
    cuda.check()?;
    Ok(Tensor::on_gpu(tensor.shape(), array))
}

/// Reads an array as f32.
pub(crate) fn download(array: &Array) -> Result<Vec<f32>> {
    match array.dtype() {
        ElementType::F32 => array.read(),
        ElementType::Bf16 => {
            Ok(array.read::<u16>()?.into_iter().map(|bits| f32::from_bits(u32::from(bits) << 16)).collect())
        }
        ElementType::U32 => Ok(array.read::<u32>()?.into_iter().map(|number| number as f32).collect()),
    }
}

/// The value 1 in the given shape, as a gradient of `array`.
pub(crate) fn one_like(shape: &[usize], array: &Array) -> Tensor {
    let one = Array::constant(array.cuda(), &[1.0_f32]);
    Tensor::on_gpu(shape, one.to_dtype(array.dtype()))
}

/// Memory for the random key of a step.
pub(crate) fn step_key(cuda: &Arc<Cuda>) -> Array {
    Array::zeros(cuda, ElementType::U32, 2)
}
