//! K/V cache: keys and values of the decoded tokens or of a source sentence.
//!
//! On the CPU keys are stored transposed, a row per element of a head and a column per position, so that the scores of
//! many positions are computed side by side. On a GPU keys and values of a position are contiguous, as the projection
//! wrote them.

use super::Columns;
use super::step_rows::{Joined, Regroup, StepRows};
use crate::lanes::LANES;
use crate::tensor::Tensor;
use crate::{Result, error};

/// Positions whose scores are computed at once.
pub(super) const WIDTH: usize = 2 * LANES;

/// Sizes of a K/V cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Heads of keys and values.
    pub n_heads: usize,
    /// Width of a head's keys.
    pub d_key: usize,
    /// Width of a head's values.
    pub d_value: usize,
}

impl CacheShape {
    /// Number of values of all keys and values of a position.
    pub const fn width(self) -> usize {
        self.n_heads * (self.d_key + self.d_value)
    }
}

/// K/V cache of several sequences, one per slot.
#[derive(Debug, Clone)]
pub struct KeysValues {
    pub(super) shape: CacheShape,
    pub(super) n_slots: usize,
    /// Allocated positions, a multiple of [`WIDTH`].
    pub(super) capacity: usize,
    /// slot × head × d_key × capacity.
    pub(super) keys: Vec<f32>,
    /// slot × head × capacity × d_value.
    pub(super) values: Vec<f32>,
    /// Used instead of both on a GPU: for each position of a slot its keys, then its values, all heads side by side.
    /// Decoded tokens are stored position by position, a source sentence slot by slot.
    #[cfg(feature = "cuda")]
    gpu: Option<crate::cuda::Array>,
}

impl KeysValues {
    /// `n_slots` empty sequences with room for `capacity` positions; grows when needed.
    pub fn new(shape: CacheShape, n_slots: usize, capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(WIDTH).max(WIDTH);
        let rows = n_slots * shape.n_heads;
        let [keys, values] = [shape.d_key, shape.d_value].map(|width| vec![0.0; rows * width * capacity]);
        Self {
            shape,
            n_slots,
            capacity,
            keys,
            values,
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// An empty cache on the device of `rows`.
    pub fn of_rows(shape: CacheShape, rows: &StepRows) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = rows.gpu() {
            let numbers = gpu.capacity * gpu.n_slots * shape.width();
            let array = crate::cuda::Array::new(gpu.cuda(), gpu.dtype(), numbers);
            return Self::on_gpu(shape, [gpu.n_slots, gpu.capacity], array);
        }
        Self::new(shape, rows.n_slots(), rows.len())
    }

    /// Writes the keys and values of all tokens of `rows`: row r of both (rows × length × width) is that of row r, whose
    /// first tokens are cached, as many as it has.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn fill(&mut self, rows: &StepRows, key: Columns<'_>, value: Columns<'_>) -> Result<()> {
        let widths = [self.shape.n_heads * self.shape.d_key, self.shape.n_heads * self.shape.d_value];
        for ((name, side), width) in [("key", key), ("value", value)].into_iter().zip(widths) {
            let fits = matches!(*side.var.shape(), [count, length, stride]
                if count == rows.count() && length >= rows.len() && side.start + side.width <= stride);
            if !fits || side.width != width {
                let expected = format!("[{}, at least {}, {width} columns]", rows.count(), rows.len());
                return error::shape("K/V cache", name, side.var.shape(), expected);
            }
        }
        #[cfg(feature = "cuda")]
        if let Some(cache) = &self.gpu {
            crate::cuda::ops::step::fill(cache, rows, [key, value]);
            return Ok(());
        }
        let [keys, values] = [key, value].map(|side| side.var.value().data());
        let row_of = |side: Columns<'_>, row: usize, position: usize| {
            let [length, stride] = [side.var.shape()[1], side.var.shape()[2]];
            let start = (row * length + position) * stride + side.start;
            start..start + side.width
        };
        for (row, (&slot, &length)) in rows.slots().iter().zip(rows.lengths()).enumerate() {
            for position in 0..length {
                let (key, value) = (&keys[row_of(key, row, position)], &values[row_of(value, row, position)]);
                self.write(slot, position, key, value);
            }
        }
        Ok(())
    }

    /// Takes over the slots of another cache.
    pub fn join(&mut self, other: &Self, joined: &Joined) {
        #[cfg(feature = "cuda")]
        if let (Some(own), Some(theirs), Some(moves)) = (&self.gpu, &other.gpu, &joined.gpu) {
            let array = moves[0].target(own, self.shape.width());
            moves[0].copy(own, &array, self.shape.width());
            moves[1].copy(theirs, &array, self.shape.width());
            *self = Self::on_gpu(self.shape, [moves[0].n_slots(), moves[0].capacity()], array);
            return;
        }
        self.reserve(joined.n_slots);
        for slot in &joined.slots {
            self.copy_from(other, (slot.from, slot.to), slot.len);
        }
    }

    /// Makes room for `n_slots` sequences in CPU memory.
    pub fn reserve(&mut self, n_slots: usize) {
        if n_slots > self.n_slots {
            let CacheShape { n_heads, d_key, d_value } = self.shape;
            self.keys.resize(n_slots * n_heads * d_key * self.capacity, 0.0);
            self.values.resize(n_slots * n_heads * d_value * self.capacity, 0.0);
            self.n_slots = n_slots;
        }
    }

    /// Copies the first `len` positions of slot `from` of another cache in CPU memory to slot `to`.
    pub fn copy_from(&mut self, other: &Self, (from, to): (usize, usize), len: usize) {
        if len > self.capacity {
            self.grow(len);
        }
        let CacheShape { n_heads, d_key, d_value } = self.shape;
        for row in 0..n_heads * d_key {
            let [own, theirs] = [(to, self.capacity), (from, other.capacity)]
                .map(|(slot, capacity)| (slot * n_heads * d_key + row) * capacity);
            self.keys[own..own + len].copy_from_slice(&other.keys[theirs..theirs + len]);
        }
        for head in 0..n_heads {
            let [own, theirs] = [(to, self.capacity), (from, other.capacity)]
                .map(|(slot, capacity)| (slot * n_heads + head) * capacity * d_value);
            let len = len * d_value;
            self.values[own..own + len].copy_from_slice(&other.values[theirs..theirs + len]);
        }
    }

    #[cfg(feature = "cuda")]
    fn on_gpu(shape: CacheShape, [n_slots, capacity]: [usize; 2], array: crate::cuda::Array) -> Self {
        let (keys, values) = (Vec::new(), Vec::new());
        Self { shape, n_slots, capacity, keys, values, gpu: Some(array) }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn array(&self) -> &crate::cuda::Array {
        self.gpu.as_ref().expect("keys and values are on a GPU")
    }

    /// Allocated positions.
    #[cfg(feature = "cuda")]
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Moves the cache to the slots that `regroup` gives.
    pub fn regroup(&mut self, regroup: &Regroup) {
        #[cfg(not(feature = "cuda"))]
        let _ = regroup;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            let moved = regroup.inner.moved(gpu, self.shape.width());
            let sizes = [regroup.inner.n_slots(), regroup.inner.capacity()];
            *self = Self::on_gpu(self.shape, sizes, moved);
        }
    }

    /// Keys and values of a projection, batch × length × (keys, values): a slot per row of the batch.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn of_product(shape: CacheShape, projected: &Tensor) -> Result<Self> {
        let (d_keys, width) = (shape.n_heads * shape.d_key, shape.width());
        let &[batch, length, found] = projected.shape() else {
            return error::shape("K/V cache", "projected", projected.shape(), "three axes");
        };
        if found != width {
            return error::shape("K/V cache", "projected", projected.shape(), format!("{width} columns"));
        }
        #[cfg(feature = "cuda")]
        if let Some(array) = projected.gpu() {
            return Ok(Self::on_gpu(shape, [batch, length], array.clone()));
        }
        let mut cache = Self::new(shape, batch, length);
        for (index, row) in projected.data().chunks_exact(width.max(1)).enumerate() {
            let (key, value) = row.split_at(d_keys);
            cache.write(index / length, index % length, key, value);
        }
        Ok(cache)
    }

    /// Sizes of its heads.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Number of sequences that there is room for.
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.len() * gpu.dtype().bytes();
        }
        (self.keys.len() + self.values.len()) * size_of::<f32>()
    }

    /// Writes the key and value of one position: all heads side by side.
    ///
    /// # Panics
    /// If a width is not that of the heads.
    pub fn write(&mut self, slot: usize, position: usize, key: &[f32], value: &[f32]) {
        let CacheShape { n_heads, d_key, d_value } = self.shape;
        assert!(key.len() == n_heads * d_key && value.len() == n_heads * d_value, "widths of the heads");
        if position >= self.capacity {
            self.grow(position + 1);
        }
        let first = slot * n_heads * d_key * self.capacity + position;
        let keys = self.keys[first..].iter_mut().step_by(self.capacity);
        keys.zip(key).for_each(|(kept, number)| *kept = *number);
        for (head, value) in value.chunks_exact(d_value.max(1)).enumerate() {
            let first = ((slot * n_heads + head) * self.capacity + position) * d_value;
            self.values[first..first + d_value].copy_from_slice(value);
        }
    }

    /// Copies the first `len` positions of slot `from` to slot `to`.
    pub fn copy(&mut self, from: usize, to: usize, len: usize) {
        let CacheShape { n_heads, d_key, d_value } = self.shape;
        if 2 * len >= self.capacity {
            // Copying the whole slot at once is faster than many copies of its used part.
            for (numbers, width) in [(&mut self.keys, d_key), (&mut self.values, d_value)] {
                let size = n_heads * width * self.capacity;
                numbers.copy_within(from * size..(from + 1) * size, to * size);
            }
            return;
        }
        for row in 0..n_heads * d_key {
            let start = (from * n_heads * d_key + row) * self.capacity;
            self.keys.copy_within(start..start + len, (to * n_heads * d_key + row) * self.capacity);
        }
        for head in 0..n_heads {
            let start = (from * n_heads + head) * self.capacity * d_value;
            self.values
                .copy_within(start..start + len * d_value, (to * n_heads + head) * self.capacity * d_value);
        }
    }

    /// Values of the first `len` positions of a slot, each with all heads side by side.
    pub fn values(&self, slot: usize, len: usize) -> Vec<f32> {
        let CacheShape { n_heads, d_value, .. } = self.shape;
        let first =
            |position: usize, head: usize| ((slot * n_heads + head) * self.capacity + position) * d_value;
        let starts = (0..len).flat_map(|position| (0..n_heads).map(move |head| first(position, head)));
        starts.flat_map(|first| &self.values[first..first + d_value]).copied().collect()
    }

    /// Grows to at least `len` positions, and to twice the capacity.
    fn grow(&mut self, len: usize) {
        let capacity = len.max(2 * self.capacity).next_multiple_of(WIDTH);
        let CacheShape { d_value, .. } = self.shape;
        let mut larger = Self::new(self.shape, self.n_slots, capacity);
        for (new, old) in larger.keys.chunks_exact_mut(capacity).zip(self.keys.chunks_exact(self.capacity)) {
            new[..self.capacity].copy_from_slice(old);
        }
        let [new_size, old_size] = [capacity, self.capacity].map(|capacity| (capacity * d_value).max(1));
        for (new, old) in larger.values.chunks_exact_mut(new_size).zip(self.values.chunks_exact(old_size)) {
            new[..old_size].copy_from_slice(old);
        }
        *self = larger;
    }
}
