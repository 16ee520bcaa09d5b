//! Arrays of f32: a shape and a shared buffer, row-major.
//!
//! Arrays are contiguous. Operations that need another order (a transposed product, one head of an attention) read with
//! strides instead of copying.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::cuda::Array;
use crate::device::Device;
use crate::indices::Indices;
use crate::{Result, pool};

/// An array; clones share the values.
#[derive(Debug, Clone)]
pub struct Tensor {
    buffer: Arc<Buffer>,
    shape: Vec<usize>,
}

/// The values, and what happens to their memory when the last owner is dropped.
#[derive(Debug)]
enum Buffer {
    /// The first `len` values of a pooled buffer, which is returned to the pool.
    Pooled(Vec<f32>, usize),
    /// Allocated by the caller, and freed.
    Given(Vec<f32>),
    /// On a GPU.
    #[cfg(feature = "cuda")]
    Gpu(Array),
}

/// Panic message where values on a GPU are read as if they were in CPU memory.
#[cfg(feature = "cuda")]
const ON_GPU: &str = "the values are on a GPU: `to_host` copies them";

impl Buffer {
    /// `len` uninitialised values from the pool.
    fn pooled(len: usize) -> Self {
        Self::Pooled(pool::take(len), len)
    }

    fn data(&self) -> &[f32] {
        match self {
            Self::Pooled(data, len) => &data[..*len],
            Self::Given(data) => data,
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => panic!("{ON_GPU}"),
        }
    }

    fn data_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Pooled(data, len) => &mut data[..*len],
            Self::Given(data) => data,
            #[cfg(feature = "cuda")]
            Self::Gpu(_) => panic!("{ON_GPU}"),
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
    /// An array with the given values, row-major.
    ///
    /// # Panics
    /// If the number of values is not that of the shape.
    pub fn new(shape: &[usize], data: Vec<f32>) -> Self {
        assert!(shape.iter().product::<usize>() == data.len(), "{} values for shape {shape:?}", data.len());
        Self { buffer: Arc::new(Buffer::Given(data)), shape: shape.to_vec() }
    }

    /// Numbers that travel as integers: an array whose values have these bits. On a GPU they are shared.
    ///
    /// ```
    /// use polyhead_tensor::{Indices, Tensor};
    /// let bits: Indices = [0.5_f32, -1.0].iter().map(|number| number.to_bits()).collect();
    /// assert_eq!(Tensor::from_bits(&[2], &bits).data(), [0.5, -1.0]);
    /// ```
    ///
    /// # Panics
    /// If the number of values is not that of the shape.
    pub fn from_bits(shape: &[usize], bits: &Indices) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(array) = bits.on_gpu() {
            return Self::on_gpu(shape, array.as_f32());
        }
        Self::new(shape, bits.host().iter().map(|&bits| f32::from_bits(bits)).collect())
    }

    /// An array of zeros.
    pub fn zeros(shape: &[usize]) -> Self {
        let mut tensor = Self::uninit(shape);
        tensor.data_mut().fill(0.0);
        tensor
    }

    /// An array with the old values of a used buffer, to be overwritten.
    pub(crate) fn uninit(shape: &[usize]) -> Self {
        Self { buffer: Arc::new(Buffer::pooled(shape.iter().product())), shape: shape.to_vec() }
    }

    /// An array with no axes and one value.
    pub fn scalar(value: f32) -> Self {
        let mut tensor = Self::uninit(&[]);
        tensor.data_mut()[0] = value;
        tensor
    }

    /// Device that holds the values.
    pub fn device(&self) -> Device {
        match &*self.buffer {
            Buffer::Pooled(..) | Buffer::Given(_) => Device::Cpu,
            #[cfg(feature = "cuda")]
            Buffer::Gpu(array) => Device::Cuda(Arc::clone(array.cuda())),
        }
    }

    /// Sizes of the axes, the slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, row-major.
    ///
    /// # Panics
    /// If they are not in CPU memory.
    pub fn data(&self) -> &[f32] {
        self.buffer.data()
    }

    /// The values, mutable; copied first if they are shared.
    pub fn data_mut(&mut self) -> &mut [f32] {
        if Arc::get_mut(&mut self.buffer).is_none() {
            let mut copy = Buffer::pooled(self.len());
            copy.data_mut().copy_from_slice(self.data());
            self.buffer = Arc::new(copy);
        }
        Arc::get_mut(&mut self.buffer).expect("copied above if it was shared").data_mut()
    }

    /// Returns an array of this shape to overwrite, and where to read the old values: `None` if they are in the array
    /// itself, because nobody else shares them.
    pub(crate) fn into_writable(mut self) -> (Self, Option<Self>) {
        if Arc::get_mut(&mut self.buffer).is_some() {
            return (self, None);
        }
        (Self::uninit(&self.shape), Some(self))
    }

    /// The same values in another shape.
    ///
    /// # Panics
    /// If the sizes differ.
    #[must_use]
    pub fn reshaped(&self, shape: &[usize]) -> Self {
        assert!(
            shape.iter().product::<usize>() == self.len(),
            "{:?} cannot be reshaped to {shape:?}",
            self.shape
        );
        Self { buffer: Arc::clone(&self.buffer), shape: shape.to_vec() }
    }

    /// The first `count` rows along the first axis; on a GPU they are shared.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[must_use]
    pub fn first_rows(&self, count: usize) -> Self {
        let (rows, inner) = self.shape.split_first().expect("an axis of rows");
        assert!(count <= *rows, "the first {count} of {rows} rows");
        if count == *rows {
            return self.clone();
        }
        let shape: Vec<usize> = [count].iter().chain(inner).copied().collect();
        let len = shape.iter().product();
        match &*self.buffer {
            #[cfg(feature = "cuda")]
            Buffer::Gpu(array) => Self::on_gpu(&shape, array.part(0..len)),
            buffer => Self::new(&shape, buffer.data()[..len].to_vec()),
        }
    }

    /// The same values for operations on `device`; a GPU that computes in bf16 rounds them to it.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => self.to_host(),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => crate::cuda::upload(cuda, self),
        }
    }

    /// The same values in CPU memory, as f32; waits for the GPU that computes them.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn to_host(&self) -> Result<Self> {
        match &*self.buffer {
            #[cfg(feature = "cuda")]
            Buffer::Gpu(array) => Ok(Self::new(&self.shape, crate::cuda::download(array)?)),
            Buffer::Pooled(..) | Buffer::Given(_) => Ok(self.clone()),
        }
    }

    /// Rows and their width: the product of all axes but the last, and the last.
    pub(crate) fn rows(&self) -> [usize; 2] {
        let (width, before) = self.shape.split_last().unwrap_or((&1, &[]));
        [before.iter().product(), *width]
    }
}

#[cfg(feature = "cuda")]
impl Tensor {
    /// An array on a GPU.
    pub(crate) fn on_gpu(shape: &[usize], array: Array) -> Self {
        assert!(shape.iter().product::<usize>() == array.len(), "{} values for shape {shape:?}", array.len());
        Self { buffer: Arc::new(Buffer::Gpu(array)), shape: shape.to_vec() }
    }

    /// The values, if they are on a GPU.
    pub(crate) fn gpu(&self) -> Option<&Array> {
        match &*self.buffer {
            Buffer::Gpu(array) => Some(array),
            Buffer::Pooled(..) | Buffer::Given(_) => None,
        }
    }

    /// The values on the GPU.
    pub(crate) fn array(&self) -> &Array {
        self.gpu().expect("the values are on a GPU")
    }

    /// Uninitialised values on the same GPU, of the same shape and dtype.
    pub(crate) fn uninit_like(&self) -> Self {
        let array = self.array();
        Self::on_gpu(&self.shape, Array::new(array.cuda(), array.dtype(), array.len()))
    }

    /// True if nobody else shares the values on the GPU.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.buffer) == 1 && self.array().is_alone()
    }
}
