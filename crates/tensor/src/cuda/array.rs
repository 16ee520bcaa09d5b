//! Arrays on a GPU: views of a piece of its memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::result;

use super::device::{Cuda, gpu_error};
use super::memory::Storage;
use crate::Result;

/// Element types that are stored on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ElementType {
    F32,
    Bf16,
    U32,
}

impl ElementType {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Types whose bytes are copied without conversion.
pub(crate) trait Plain: Copy {
    const DTYPE: ElementType;
}

impl Plain for f32 {
    const DTYPE: ElementType = ElementType::F32;
}

impl Plain for u32 {
    const DTYPE: ElementType = ElementType::U32;
}

/// The bits of a bf16 value.
impl Plain for u16 {
    const DTYPE: ElementType = ElementType::Bf16;
}

/// An array on a GPU; clones share the values.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    storage: Arc<Storage>,
    /// Bytes before the first value.
    start: usize,
    len: usize,
    dtype: ElementType,
    /// The same values as bf16, stored beside those of a parameter.
    bf16_copy: Option<Arc<Array>>,
}

impl Array {
    /// `len` uninitialised values.
    pub(crate) fn new(cuda: &Arc<Cuda>, dtype: ElementType, len: usize) -> Self {
        let storage = Arc::new(Storage::new(cuda, len * dtype.bytes()));
        Self { storage, start: 0, len, dtype, bf16_copy: None }
    }

    pub(crate) fn zeros(cuda: &Arc<Cuda>, dtype: ElementType, len: usize) -> Self {
        let array = Self::new(cuda, dtype, len);
        array.clear();
        array
    }

    /// A persistent array, copied to the GPU at once; inside a recording the copy is not recorded.
    pub(crate) fn constant<T: Plain>(cuda: &Arc<Cuda>, numbers: &[T]) -> Self {
        let array = cuda.persistent(|| Self::new(cuda, T::DTYPE, numbers.len()));
        if array.is_usable() {
            cuda.bind();
            // The memory may have been in use before. In stream order all reads of it come earlier; while the stream
            // records, all earlier work has been waited for.
            let is_recording = cuda.recording.load(Ordering::Relaxed);
            let stream = if is_recording { cuda.side_stream() } else { cuda.stream() };
            // SAFETY: the array has room for the values, which outlive the copy because the stream is synchronised.
            let copied = unsafe {
                result::memcpy_htod_async(array.pointer(), numbers, stream)
                    .and_then(|()| result::stream::synchronize(stream))
            };
            cuda.note_result(copied, "copying to the GPU");
        }
        cuda.retain_while_recorded(&array);
        array
    }

    /// This array with its bf16 copy.
    pub(crate) fn with_bf16_copy(self, bf16_copy: Self) -> Self {
        assert!(
            self.len == bf16_copy.len && bf16_copy.dtype == ElementType::Bf16,
            "the bf16 copy has the same length"
        );
        Self { bf16_copy: Some(Arc::new(bf16_copy)), ..self }
    }

    pub(crate) fn cuda(&self) -> &Arc<Cuda> {
        &self.storage.cuda
    }

    pub(crate) fn dtype(&self) -> ElementType {
        self.dtype
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn pointer(&self) -> u64 {
        self.storage.pointer() + self.start as u64
    }

    /// True if nobody else shares the values.
    pub(crate) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.storage) == 1
    }

    /// The values of a range, shared.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "values {range:?} of {}", self.len);
        Self {
            storage: Arc::clone(&self.storage),
            start: self.start + range.start * self.dtype.bytes(),
            len: range.len(),
            dtype: self.dtype,
            bf16_copy: self.bf16_copy.as_ref().map(|bf16_copy| Arc::new(bf16_copy.part(range))),
        }
    }

    /// The bits of integers read as f32, shared.
    pub(crate) fn as_f32(&self) -> Self {
        assert!(self.dtype == ElementType::U32, "integers of 32 bits");
        Self { dtype: ElementType::F32, ..self.clone() }
    }

    /// The bf16 copy of a parameter.
    pub(crate) fn bf16_copy(&self) -> Option<&Self> {
        self.bf16_copy.as_deref()
    }

    /// The array that products and look-ups read: the bf16 copy if there is one.
    pub(crate) fn operand(&self) -> &Self {
        self.bf16_copy().unwrap_or(self)
    }

    /// The values as operands of a product with values of type `dtype`.
    pub(crate) fn matching(&self, dtype: ElementType) -> Self {
        if dtype == ElementType::Bf16 { self.operand().to_dtype(dtype) } else { self.to_dtype(dtype) }
    }

    /// A copy in memory of its own.
    pub(crate) fn duplicate(&self) -> Self {
        let copy = Self::new(self.cuda(), self.dtype, self.len);
        copy.copy_from(self);
        copy
    }

    /// Suffix of the names of kernels for this element type.
    pub(crate) fn suffix(&self) -> &'static str {
        match self.dtype {
            ElementType::F32 => "f32",
            ElementType::Bf16 => "bf16",
            ElementType::U32 => "u32",
        }
    }

    /// False after an error, or if the array is empty.
    fn is_usable(&self) -> bool {
        self.len > 0 && !self.cuda().has_failed()
    }

    /// Sets all bits to zero, in stream order.
    pub(crate) fn clear(&self) {
        if self.is_usable() {
            let cuda = self.cuda();
            cuda.bind();
            // SAFETY: the array has these bytes.
            let answer = unsafe {
                result::memset_d8_async(self.pointer(), 0, self.len * self.dtype.bytes(), cuda.stream())
            };
            cuda.note_result(answer, "clearing memory");
        }
    }

    /// Copies the values of another array of the same length and type, in stream order.
    pub(crate) fn copy_from(&self, from: &Self) {
        assert!(self.len == from.len && self.dtype == from.dtype, "arrays of the same length and type");
        if self.is_usable() {
            let cuda = self.cuda();
            cuda.bind();
            let bytes = self.len * self.dtype.bytes();
            // SAFETY: both arrays have these bytes.
            let answer =
                unsafe { result::memcpy_dtod_async(self.pointer(), from.pointer(), bytes, cuda.stream()) };
            cuda.note_result(answer, "copying memory");
        }
    }

    /// Copies values from CPU memory, in stream order; never part of a recording.
    pub(crate) fn write<T: Plain>(&self, numbers: &[T]) {
        assert!(
            numbers.len() == self.len && T::DTYPE == self.dtype,
            "{} values for {}",
            numbers.len(),
            self.len
        );
        if !self.is_usable() {
            return;
        }
        let cuda = self.cuda();
        assert!(!cuda.recording.load(Ordering::Relaxed), "a copy from CPU memory cannot be recorded");
        cuda.bind();
        // SAFETY: values of a `Plain` type can be read as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) };
        let answer = cuda.staging().copy(cuda.stream(), self.pointer(), bytes);
        cuda.note_result(answer, "copying to the GPU");
    }

    /// Reads the values; waits for all earlier work.
    pub(crate) fn read<T: Plain>(&self) -> Result<Vec<T>> {
        assert!(T::DTYPE == self.dtype, "values are read as their own type");
        let cuda = self.cuda();
        cuda.check()?;
        let mut numbers = Vec::with_capacity(self.len);
        if self.len > 0 {
            cuda.bind();
            // SAFETY: the vector has room for the values, every bit pattern is valid, and the copy is done before they
            // are read.
            unsafe {
                numbers.set_len(self.len);
                result::memcpy_dtoh_async(&mut numbers[..], self.pointer(), cuda.stream())
                    .and_then(|()| result::stream::synchronize(cuda.stream()))
                    .map_err(|error| {
                        let error = gpu_error("computing", error);
                        cuda.note_error(error.clone());
                        error
                    })?;
            }
        }
        Ok(numbers)
    }
}
