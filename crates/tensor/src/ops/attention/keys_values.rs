//! K/V cache: keys and values of the decoded tokens or of a source sentence.
//!
//! On the CPU each sequence has memory of its own, which grows with it, and keys are stored transposed, a row per element of a
//! head and a column per position, so that the scores of many positions are computed side by side. On a GPU keys and values
//! of a position are contiguous, as the projection wrote them.

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
    shape: CacheShape,
    /// The sequences; empty on a GPU.
    slots: Vec<Slot>,
    /// Used instead on a GPU: for each position of a slot its keys, then its values, all heads side by side.
    /// Decoded tokens are stored position by position, a source sentence slot by slot.
    #[cfg(feature = "cuda")]
    gpu: Option<GpuSlots>,
}

/// Slots in GPU memory, all with room for equally many positions.
#[cfg(feature = "cuda")]
#[derive(Debug, Clone)]
struct GpuSlots {
    n_slots: usize,
    capacity: usize,
    array: crate::cuda::Array,
}

/// Keys and values of one sequence in CPU memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// Allocated positions, a multiple of [`WIDTH`].
    pub(super) capacity: usize,
    /// head × d_key × capacity.
    keys: Vec<f32>,
    /// head × capacity × d_value.
    values: Vec<f32>,
}

impl Slot {
    fn new(shape: CacheShape, capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(WIDTH);
        let [keys, values] =
            [shape.d_key, shape.d_value].map(|width| vec![0.0; shape.n_heads * width * capacity]);
        Self { capacity, keys, values }
    }

    /// Transposed keys of a head.
    pub(super) fn keys(&self, shape: CacheShape, head: usize) -> &[f32] {
        let size = shape.d_key * self.capacity;
        &self.keys[head * size..(head + 1) * size]
    }

    /// Values of a head.
    pub(super) fn values(&self, shape: CacheShape, head: usize) -> &[f32] {
        let size = shape.d_value * self.capacity;
        &self.values[head * size..(head + 1) * size]
    }

    /// Writes the key and value of one position.
    fn write(&mut self, shape: CacheShape, position: usize, key: &[f32], value: &[f32]) {
        if position >= self.capacity {
            self.grow(shape, position + 1);
        }
        let keys = self.keys[position..].iter_mut().step_by(self.capacity);
        keys.zip(key).for_each(|(kept, number)| *kept = *number);
        let d_value = shape.d_value;
        for (head, value) in value.chunks_exact(d_value.max(1)).enumerate() {
            let first = (head * self.capacity + position) * d_value;
            self.values[first..first + d_value].copy_from_slice(value);
        }
    }

    /// Copies the first `len` positions of another sequence, or as many as it has.
    fn copy_from(&mut self, shape: CacheShape, other: &Self, len: usize) {
        let len = len.min(other.capacity);
        if len > self.capacity {
            *self = Self::new(shape, len);
        }
        if self.capacity == other.capacity && 2 * len >= self.capacity {
            // Copying the whole slot at once is faster than many copies of its used part.
            self.keys.copy_from_slice(&other.keys);
            self.values.copy_from_slice(&other.values);
            return;
        }
        let (own, theirs) = (self.capacity.max(1), other.capacity.max(1));
        for (own, theirs) in self.keys.chunks_exact_mut(own).zip(other.keys.chunks_exact(theirs)) {
            own[..len].copy_from_slice(&theirs[..len]);
        }
        let [own, theirs] = [own, theirs].map(|capacity| (capacity * shape.d_value).max(1));
        for (own, theirs) in self.values.chunks_exact_mut(own).zip(other.values.chunks_exact(theirs)) {
            own[..len * shape.d_value].copy_from_slice(&theirs[..len * shape.d_value]);
        }
    }

    /// Grows to at least `len` positions.
    fn grow(&mut self, shape: CacheShape, len: usize) {
        let mut larger = Self::new(shape, grown(self.capacity).max(len));
        larger.copy_from(shape, self, self.capacity);
        *self = larger;
    }
}

/// Positions of a slot of `capacity` positions when it grows: twice as many, of a long one a quarter more.
fn grown(capacity: usize) -> usize {
    if capacity < LONG { 2 * capacity } else { capacity + capacity / 4 }
}

/// Positions from which a slot grows by a quarter only.
const LONG: usize = 256;

impl KeysValues {
    /// `n_slots` empty sequences with room for `capacity` positions; grows when needed.
    pub fn new(shape: CacheShape, n_slots: usize, capacity: usize) -> Self {
        Self::of_slots(shape, (0..n_slots).map(|_| Slot::new(shape, capacity.max(1))).collect())
    }

    fn of_slots(shape: CacheShape, slots: Vec<Slot>) -> Self {
        Self {
            shape,
            slots,
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// The most positions that a sequence of `len` tokens ever has memory for, while it grows with every token.
    pub fn most_positions(len: usize) -> usize {
        (len + len / 4).max(2 * len.min(LONG)).next_multiple_of(WIDTH).max(WIDTH)
    }

    /// An empty cache on the device of `rows`.
    pub fn of_rows(shape: CacheShape, rows: &StepRows) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = rows.gpu() {
            let numbers = gpu.capacity * gpu.n_slots * shape.width();
            let array = crate::cuda::Array::new(gpu.cuda(), gpu.dtype(), numbers);
            return Self::on_gpu(shape, [gpu.n_slots, gpu.capacity], array);
        }
        let mut cache = Self::new(shape, rows.n_slots(), 0);
        for (&slot, &length) in rows.slots().iter().zip(rows.lengths()) {
            if length > cache.slots[slot].capacity {
                cache.slots[slot] = Slot::new(shape, length);
            }
        }
        cache
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
        if let Some(GpuSlots { array, .. }) = &self.gpu {
            crate::cuda::ops::step::fill(array, rows, [key, value]);
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
            let (own, theirs) = (&own.array, &theirs.array);
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
        if n_slots > self.slots.len() {
            self.slots.resize(n_slots, Slot::default());
        }
    }

    /// Frees the memory of all slots but `used` in CPU memory; they stay, and grow when needed.
    pub fn release(&mut self, used: &[usize]) {
        for (slot, own) in self.slots.iter_mut().enumerate() {
            if !used.contains(&slot) {
                *own = Slot::default();
            }
        }
    }

    /// Copies the first `len` positions of slot `from` of another cache in CPU memory to slot `to`.
    pub fn copy_from(&mut self, other: &Self, (from, to): (usize, usize), len: usize) {
        self.slots[to].copy_from(self.shape, &other.slots[from], len);
    }

    #[cfg(feature = "cuda")]
    fn on_gpu(shape: CacheShape, [n_slots, capacity]: [usize; 2], array: crate::cuda::Array) -> Self {
        Self { shape, slots: Vec::new(), gpu: Some(GpuSlots { n_slots, capacity, array }) }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn array(&self) -> &crate::cuda::Array {
        &self.gpu.as_ref().expect("keys and values are on a GPU").array
    }

    /// Allocated positions of each slot on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn capacity(&self) -> usize {
        self.gpu.as_ref().expect("keys and values are on a GPU").capacity
    }

    /// Moves the cache to the slots that `regroup` gives.
    pub fn regroup(&mut self, regroup: &Regroup) {
        #[cfg(not(feature = "cuda"))]
        let _ = regroup;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            let moved = regroup.inner.moved(&gpu.array, self.shape.width());
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
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.n_slots;
        }
        self.slots.len()
    }

    /// A slot in CPU memory.
    pub(super) fn slot(&self, slot: usize) -> Option<&Slot> {
        self.slots.get(slot)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.array.len() * gpu.array.dtype().bytes();
        }
        self.slots.iter().map(|slot| slot.keys.len() + slot.values.len()).sum::<usize>() * size_of::<f32>()
    }

    /// Writes the key and value of one position: all heads side by side.
    ///
    /// # Panics
    /// If a width is not that of the heads.
    pub fn write(&mut self, slot: usize, position: usize, key: &[f32], value: &[f32]) {
        let CacheShape { n_heads, d_key, d_value } = self.shape;
        assert!(key.len() == n_heads * d_key && value.len() == n_heads * d_value, "widths of the heads");
        self.slots[slot].write(self.shape, position, key, value);
    }

    /// Copies the first `len` positions of slot `from`, or as many as it has, to slot `to`.
    pub fn copy(&mut self, from: usize, to: usize, len: usize) {
        if let Ok([from, to]) = self.slots.get_disjoint_mut([from, to]) {
            to.copy_from(self.shape, from, len);
        }
    }

    /// Values of the first `len` positions of a slot, each with all heads side by side.
    pub fn values(&self, slot: usize, len: usize) -> Vec<f32> {
        let (slot, d_value) = (&self.slots[slot], self.shape.d_value);
        let first = |position: usize, head: usize| (head * slot.capacity + position) * d_value;
        let n_heads = self.shape.n_heads;
        let starts = (0..len).flat_map(|position| (0..n_heads).map(move |head| first(position, head)));
        starts.flat_map(|first| &slot.values[first..first + d_value]).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: CacheShape = CacheShape { n_heads: 2, d_key: 3, d_value: 2 };

    #[test]
    fn each_slot_grows_with_its_own_sequence_and_never_beyond_the_bound() {
        for first in [0, 1, 31, 32, 40, 130, 224, 255, 256, 500] {
            let mut cache = KeysValues::new(SHAPE, 3, 0);
            cache.slots[1] = Slot::new(SHAPE, first);
            for position in first..2000 {
                cache.write(1, position, &[position as f32; 6], &[-(position as f32); 4]);
                let most = KeysValues::most_positions(position + 1);
                assert!(cache.slots[1].capacity <= most, "{first}, {position}: {}", cache.slots[1].capacity);
            }
            assert!([0, 2].iter().all(|&slot| cache.slots[slot].capacity == WIDTH));
            let values = cache.values(1, 2000);
            assert!((first..2000).all(|position| values[position * 4] == -(position as f32)));
        }
    }

    #[test]
    fn slots_are_copied_released_and_grow_again() {
        let mut cache = KeysValues::new(SHAPE, 2, 0);
        for position in 0..100 {
            cache.write(0, position, &[position as f32; 6], &[position as f32; 4]);
        }
        let bytes = cache.bytes();
        cache.copy(0, 1, 1000);
        assert_eq!(cache.values(1, 100), cache.values(0, 100));
        cache.release(&[1]);
        assert!(cache.bytes() <= bytes && cache.slots[0].capacity == 0, "{}", cache.bytes());
        cache.copy(1, 0, 5);
        assert_eq!(cache.values(0, 5), cache.values(1, 5));
        cache.write(0, 5, &[7.0; 6], &[7.0; 4]);
        assert_eq!(cache.values(0, 6)[20..], [7.0; 4]);
        let keys = cache.slots[0].keys(SHAPE, 1);
        let capacity = cache.slots[0].capacity;
        assert_eq!((keys[4], keys[5], keys[capacity + 4]), (4.0, 7.0, 4.0));
    }
}
