//! Scalars between a program and its device: a factor that changes from step to step, and results that are collected on
//! the device and read together, so that the program does not wait for a GPU after every step.
//!
//! ```
//! use polyhead_tensor::{Device, Tensor, journal::Journal};
//! let mut journal = Journal::new(&Device::Cpu, 8)?;
//! journal.note(&Tensor::scalar(2.5));
//! journal.note(&Tensor::scalar(-1.0));
//! assert_eq!(journal.take()?, [2.5, -1.0]);
//! assert!(journal.take()?.is_empty());
//! # Ok::<(), polyhead_tensor::Error>(())
//! ```

use crate::Result;
use crate::device::Device;
use crate::tensor::Tensor;

/// An f32 at a fixed address on a device, so that a recorded graph reads its current value.
#[derive(Debug)]
pub struct DeviceScalar {
    value: f32,
    tensor: Tensor,
}

impl DeviceScalar {
    /// Allocates a scalar on `device`.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn new(device: &Device, value: f32) -> Result<Self> {
        let tensor = match device {
            Device::Cpu => Tensor::scalar(value),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Tensor::on_gpu(&[], crate::cuda::Array::constant(cuda, &[value])),
        };
        device.check()?;
        Ok(Self { value, tensor })
    }

    /// Sets the value, in the order of the device's work.
    pub fn set(&mut self, value: f32) {
        if value.to_bits() == self.value.to_bits() {
            return;
        }
        self.value = value;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = self.tensor.gpu() {
            return gpu.write(&[value]);
        }
        self.tensor.data_mut()[0] = value;
    }

    /// The scalar as a tensor without axes.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// Scalar results of a device, in the order in which they were noted.
#[derive(Debug)]
pub struct Journal {
    /// Results on the CPU.
    noted: Vec<f32>,
    /// Number of results noted.
    len: usize,
    capacity: usize,
    #[cfg(feature = "cuda")]
    gpu: Option<crate::cuda::Array>,
}

impl Journal {
    /// Allocates room for `capacity` results on `device`.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn new(device: &Device, capacity: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        let gpu = match device {
            Device::Cpu => None,
            Device::Cuda(cuda) => {
                Some(crate::cuda::Array::zeros(cuda, crate::cuda::ElementType::F32, capacity))
            }
        };
        device.check()?;
        Ok(Self {
            noted: Vec::new(),
            len: 0,
            capacity,
            #[cfg(feature = "cuda")]
            gpu,
        })
    }

    /// Notes a result without waiting for it.
    ///
    /// # Panics
    /// If the journal is full, or `number` is not a scalar.
    pub fn note(&mut self, number: &Tensor) {
        assert!(number.len() == 1 && self.len < self.capacity, "room for {} scalars", self.capacity);
        self.len += 1;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.part(self.len - 1..self.len).set_from(number.array());
        }
        self.noted.push(number.data()[0]);
    }

    /// Returns all results noted since the last call; waits for them.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn take(&mut self) -> Result<Vec<f32>> {
        let len = std::mem::take(&mut self.len);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.part(0..len).read();
        }
        debug_assert_eq!(len, self.noted.len());
        Ok(std::mem::take(&mut self.noted))
    }
}
