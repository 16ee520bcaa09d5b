//! Arrays of f32: a shape and a shared buffer, row after row.
//!
//! Arrays are contiguous. Operations that need another order (a transposed product, one head of an attention) read with
//! strides instead of asking for a copy.

use std::sync::Arc;

use crate::device::Device;
use crate::pool;

/// An array; cloning shares the numbers.
#[derive(Debug, Clone)]
pub struct Tensor {
    buffer: Arc<Buffer>,
    shape: Vec<usize>,
}

/// The numbers and where their memory goes when nobody needs them any more.
#[derive(Debug)]
enum Buffer {
    /// The first so many numbers of a buffer from the pool, and back to it.
    Pooled(Vec<f32>, usize),
    /// From the caller, and freed.
    Given(Vec<f32>),
}

impl Buffer {
    /// `len` numbers of the pool, whatever they are.
    fn pooled(len: usize) -> Self {
        Self::Pooled(pool::take(len), len)
    }

    fn data(&self) -> &[f32] {
        match self {
            Self::Pooled(data, len) => &data[..*len],
            Self::Given(data) => data,
        }
    }

    fn data_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Pooled(data, len) => &mut data[..*len],
            Self::Given(data) => data,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Self::Pooled(data, _) = self {
            pool::give(std::mem::take(data));
        }
    }
}

impl Tensor {
    /// An array with the given numbers, row after row.
    ///
    /// # Panics
    /// If there are more or fewer numbers than the shape says.
    pub fn new(shape: &[usize], data: Vec<f32>) -> Self {
        assert!(shape.iter().product::<usize>() == data.len(), "{} numbers for shape {shape:?}", data.len());
        Self { buffer: Arc::new(Buffer::Given(data)), shape: shape.to_vec() }
    }

    /// An array of zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        let mut tensor = Self::uninit(shape);
        tensor.data_mut().fill(0.0);
        tensor
    }

    /// An array with whatever numbers a used buffer holds, to be written over.
    pub(crate) fn uninit(shape: &[usize]) -> Self {
        Self { buffer: Arc::new(Buffer::pooled(shape.iter().product())), shape: shape.to_vec() }
    }

    /// An array with one number.
    pub fn scalar(value: f32) -> Self {
        let mut tensor = Self::uninit(&[]);
        tensor.data_mut()[0] = value;
        tensor
    }

    /// Where the numbers live.
    pub fn device(&self) -> Device {
        match &*self.buffer {
            Buffer::Pooled(..) | Buffer::Given(_) => Device::Cpu,
        }
    }

    /// Sizes of the axes, the slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many numbers.
    pub fn len(&self) -> usize {
        self.data().len()
    }

    /// True without numbers.
    pub fn is_empty(&self) -> bool {
        self.data().is_empty()
    }

    /// The numbers, row after row.
    pub fn data(&self) -> &[f32] {
        self.buffer.data()
    }

    /// The numbers to write; copied first if somebody else shares them.
    pub fn data_mut(&mut self) -> &mut [f32] {
        if Arc::get_mut(&mut self.buffer).is_none() {
            let mut copy = Buffer::pooled(self.len());
            copy.data_mut().copy_from_slice(self.data());
            self.buffer = Arc::new(copy);
        }
        Arc::get_mut(&mut self.buffer).expect("just made").data_mut()
    }

    /// An array of this shape to write over, and where to read the numbers: nowhere if they stand in it already, because
    /// nobody else shares them.
    pub(crate) fn into_writable(mut self) -> (Self, Option<Self>) {
        if Arc::get_mut(&mut self.buffer).is_some() {
            return (self, None);
        }
        (Self::uninit(&self.shape), Some(self))
    }

    /// The same numbers in another shape.
    ///
    /// # Panics
    /// If the sizes differ.
    #[must_use]
    pub fn reshaped(&self, shape: &[usize]) -> Self {
        assert!(shape.iter().product::<usize>() == self.len(), "{:?} cannot become {shape:?}", self.shape);
        Self { buffer: Arc::clone(&self.buffer), shape: shape.to_vec() }
    }

    /// Rows and their width: all axes but the last, and the last.
    pub(crate) fn rows(&self) -> [usize; 2] {
        let (width, before) = self.shape.split_last().unwrap_or((&1, &[]));
        [before.iter().product(), *width]
    }
}
