//! Rows of decoding on a GPU: everything that changes from step to step is in its memory, so that one recorded step
//! serves for all; see [`crate::ops::attention::StepRows`].
//!
//! Keys and values of position p of row r are in slot ancestry[p][r]: reordering changes this table, never the cache. A
//! step computes some padding rows, so that there are few sizes of steps: they copy the first row, and their results
//! are ignored.

use std::sync::{Arc, Mutex, PoisonError};

use super::array::Plain;
use super::{Array, Cuda, ElementType, KernelFamily, Launch, args};
use crate::device::Math;
use crate::tensor::Tensor;

/// Initial capacity in positions.
const FIRST_CAPACITY: usize = 64;
/// Index of the first token, so that tokens are aligned.
const TOKENS_AT: usize = 8;
/// Minimum number of rows of a step.
const FEWEST_ROWS: usize = 8;
/// Up to this many rows take no longer than fewer: reading the weights dominates.
const CHEAP_ROWS: usize = 256;

/// Rows that are decoded together on a GPU.
#[derive(Debug)]
pub(crate) struct GpuRows {
    cuda: Arc<Cuda>,
    /// Allocated rows.
    pub(crate) n_slots: usize,
    /// Allocated positions.
    pub(crate) capacity: usize,
    /// Number of rows that a step computes.
    pub(crate) rows: usize,
    /// Number of times that the memory moved.
    pub(crate) moves: usize,
    /// Position of the newest token, then the tokens, then the parent of each row.
    input: Array,
    /// capacity × n_slots: the slot of each position of each row.
    ancestry: Array,
    /// Source sentence of each row, then its length.
    sources: Array,
    /// Parent of each row at the next step; `None` if the order is unchanged.
    parents: Option<Vec<u32>>,
    /// Tables that live as long as the rows, keyed by the address of their source and the capacity.
    tables: Mutex<Vec<([usize; 2], Array)>>,
}

/// Move of the caches of a step to memory with other slots, or with room for more positions.
#[derive(Debug)]
pub(crate) struct CudaRegroup {
    ancestry: Array,
    rows: usize,
    len: usize,
    old_slots: usize,
    n_slots: usize,
    capacity: usize,
}

/// At most a quarter more than `count`, with few distinct results.
pub(crate) fn rounded(count: usize) -> usize {
    let count = count.max(FEWEST_ROWS);
    count.next_multiple_of((1 << count.ilog2().saturating_sub(2)).max(FEWEST_ROWS))
}

impl GpuRows {
    /// A row for each source sentence.
    pub(crate) fn new(cuda: &Arc<Cuda>, source_lengths: &[usize], n_slots: usize) -> Self {
        let (n_slots, rows, capacity) = (rounded(n_slots), rounded(source_lengths.len()), FIRST_CAPACITY);
        let n_slots = n_slots.max(rows);
        let sources = Array::new(cuda, ElementType::U32, 2 * n_slots);
        let mut numbers = vec![0_u32; 2 * n_slots];
        for (row, &length) in source_lengths.iter().enumerate() {
            (numbers[row], numbers[n_slots + row]) = (row as u32, length as u32);
        }
        sources.write(&numbers);
        Self {
            cuda: Arc::clone(cuda),
            n_slots,
            capacity,
            rows,
            moves: 0,
            input: Array::zeros(cuda, ElementType::U32, TOKENS_AT + 2 * n_slots),
            ancestry: Array::zeros(cuda, ElementType::U32, capacity * n_slots),
            sources,
            parents: None,
            tables: Mutex::default(),
        }
    }

    pub(crate) fn cuda(&self) -> &Arc<Cuda> {
        &self.cuda
    }

    /// Element type of activations.
    pub(crate) fn dtype(&self) -> ElementType {
        if self.cuda.math() == Math::Bf16 { ElementType::Bf16 } else { ElementType::F32 }
    }

    /// Replaces row i by row `rows[i]`.
    pub(crate) fn reorder(&mut self, rows: &[usize]) {
        let before = self.parents.take();
        let parent = |&row: &usize| before.as_ref().map_or(row as u32, |before| before[row]);
        self.parents = Some(rows.iter().map(parent).collect());
    }

    /// Begins the step of the tokens at position `len`. If a move is returned, caches must follow it.
    pub(crate) fn begin(&mut self, len: usize, tokens: &[u32]) -> Option<CudaRegroup> {
        let wanted = rounded(tokens.len());
        let rows_before = self.rows;
        // Fewer rows need a new recording, which pays off only if many rows are halved.
        if wanted > self.rows || (2 * wanted <= self.rows && self.rows > CHEAP_ROWS) {
            self.rows = wanted;
        }
        let must_move = len >= self.capacity || self.rows > self.n_slots;
        let regroup = must_move.then(|| self.regroup(len, rows_before));
        let mut numbers = vec![0_u32; self.input.len()];
        numbers[0] = len as u32;
        numbers[TOKENS_AT..TOKENS_AT + tokens.len()].copy_from_slice(tokens);
        let parents = &mut numbers[TOKENS_AT + self.n_slots..];
        match self.parents.take() {
            Some(rows) => parents[..rows.len()].copy_from_slice(&rows),
            None => (0..tokens.len()).for_each(|row| parents[row] = row as u32),
        }
        self.input.write(&numbers);
        regroup
    }

    /// Makes room for more positions and for the current rows.
    fn regroup(&mut self, len: usize, rows_before: usize) -> CudaRegroup {
        let capacity = if len < self.capacity { self.capacity } else { 2 * self.capacity };
        let n_slots = rounded(self.rows.max(rows_before));
        let old_slots = self.n_slots;
        // From now on every row is in its own slot.
        let own: Vec<u32> = (0..capacity * n_slots).map(|index| (index % n_slots) as u32).collect();
        let ancestry = self.upload(&own);
        let sources = Array::new(&self.cuda, ElementType::U32, 2 * n_slots);
        for side in 0..2 {
            let both = n_slots.min(old_slots);
            let from = self.sources.part(side * old_slots..side * old_slots + both);
            sources.part(side * n_slots..side * n_slots + both).copy_from(&from);
        }
        let ancestry = std::mem::replace(&mut self.ancestry, ancestry);
        self.sources = sources;
        self.input = Array::new(&self.cuda, ElementType::U32, TOKENS_AT + 2 * n_slots);
        (self.n_slots, self.capacity, self.moves) = (n_slots, capacity, self.moves + 1);
        CudaRegroup { ancestry, rows: rows_before, len, old_slots, n_slots, capacity }
    }

    /// Queues the first work of a step: replaces rows by their parents.
    pub(crate) fn follow_parents(&self) {
        let launch = Launch {
            file: "reorder",
            name: "reorder",
            grid: [self.capacity + 2, 1, 1],
            block: 256,
            shared: 4 * self.rows,
            family: KernelFamily::Elementwise,
        };
        let parents = self.input.part(TOKENS_AT + self.n_slots..self.input.len());
        self.cuda.launch(
            launch,
            args![
                &self.ancestry,
                &self.sources,
                &self.position(),
                &parents,
                self.n_slots,
                self.rows,
                self.capacity
            ],
        );
    }

    /// Position of the newest token, a scalar.
    pub(crate) fn position(&self) -> Array {
        self.input.part(0..1)
    }

    /// The newest token of each row.
    pub(crate) fn tokens(&self) -> Array {
        self.input.part(TOKENS_AT..TOKENS_AT + self.rows)
    }

    pub(crate) fn ancestry(&self) -> &Array {
        &self.ancestry
    }

    /// Source sentence of each row, and its length.
    pub(crate) fn sources(&self) -> [Array; 2] {
        [0, self.n_slots].map(|start| self.sources.part(start..start + self.rows))
    }

    /// A table of f32 that lives as long as the rows, copied to the GPU on first use, which is never recorded.
    pub(crate) fn table(&self, key: usize, make: impl FnOnce() -> Tensor) -> Array {
        self.cached_table(key, || self.upload(make().data()))
    }

    /// As [`GpuRows::table`], for integers.
    pub(crate) fn whole_table(&self, key: usize, make: impl FnOnce() -> Vec<u32>) -> Array {
        self.cached_table(key, || self.upload(&make()))
    }

    fn upload<T: Plain>(&self, numbers: &[T]) -> Array {
        let array = self.cuda.persistent(|| Array::new(&self.cuda, T::DTYPE, numbers.len()));
        array.write(numbers);
        array
    }

    fn cached_table(&self, key: usize, make: impl FnOnce() -> Array) -> Array {
        let key = [key, self.capacity];
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = tables.iter().find(|(known, _)| *known == key) {
            return table.clone();
        }
        let table = make();
        tables.push((key, table.clone()));
        table
    }
}

impl CudaRegroup {
    /// The keys and values at their new places; `width` values per position of a row.
    pub(crate) fn moved(&self, cache: &Array, width: usize) -> Array {
        let cuda = cache.cuda();
        let moved = Array::new(cuda, cache.dtype(), self.capacity * self.n_slots * width);
        if self.len == 0 {
            return moved;
        }
        let launch = Launch {
            file: "reorder",
            name: &format!("regroup_{}", cache.suffix()),
            grid: [self.rows, self.len, 1],
            block: 128,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        cuda.launch(launch, args![cache, &moved, &self.ancestry, self.old_slots, self.n_slots, width]);
        moved
    }

    pub(crate) fn n_slots(&self) -> usize {
        self.n_slots
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_few_sizes() {
        assert_eq!([1, 8, 9, 17, 33, 100, 4000].map(rounded), [8, 8, 16, 24, 40, 112, 4096]);
        assert!((1..5000).all(|count| rounded(count) >= count && rounded(rounded(count)) == rounded(count)));
    }
}
