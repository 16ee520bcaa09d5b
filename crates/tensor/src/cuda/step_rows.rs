//! Rows of decoding on a GPU: everything that changes from step to step is in its memory, so that one recorded step
//! serves for all; see [`crate::ops::attention::StepRows`].
//!
//! Rows are aligned at their newest token: all write the same line p of the cache in a step, and a shorter row begins at a
//! later line, its start. Keys and values of line p of row r are in slot ancestry[p][r]: reordering changes this table,
//! never the cache. A step computes some padding rows, so that there are few sizes of steps: they copy the first row, and
//! their results are ignored.

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
    /// Allocated lines.
    pub(crate) capacity: usize,
    /// Lines in use: the newest tokens are written to this one.
    line: usize,
    /// Number of rows that a step computes.
    pub(crate) rows: usize,
    /// Number of times that the memory moved.
    pub(crate) moves: usize,
    /// Line of the newest tokens; then, for each row, its token, its parent and its start.
    input: Array,
    /// capacity × n_slots: the slot of each position of each row.
    ancestry: Array,
    /// Source sentence of each row, then its length in each source.
    sources: Array,
    n_sources: usize,
    /// Parent of each row at the next step; `None` if the order is unchanged.
    parents: Option<Vec<u32>>,
    /// Tables that live as long as the rows, keyed by the address of their source and the capacity.
    tables: Mutex<Vec<([usize; 2], Array)>>,
}

/// Move of the caches of a step to memory with other slots, or with room for more lines.
#[derive(Debug)]
pub(crate) struct CudaRegroup {
    ancestry: Array,
    /// Rows and lines that move.
    rows: usize,
    lines: usize,
    /// The first line, before and after.
    from: usize,
    to: usize,
    /// The slot of the first row afterwards.
    first_slot: usize,
    old_slots: usize,
    n_slots: usize,
    capacity: usize,
}

/// At most a quarter more than `count`, with few distinct results.
pub(crate) fn rounded(count: usize) -> usize {
    let count = count.max(FEWEST_ROWS);
    count.next_multiple_of((1 << count.ilog2().saturating_sub(2)).max(FEWEST_ROWS))
}

/// Number of values of a step's input.
fn input_size(n_slots: usize) -> usize {
    TOKENS_AT + 3 * n_slots
}

fn longest(lengths: &[usize]) -> usize {
    lengths.iter().copied().max().unwrap_or(0)
}

impl GpuRows {
    /// A row for each source sentence.
    pub(crate) fn new(cuda: &Arc<Cuda>, source_lengths: &[Vec<usize>], n_slots: usize) -> Self {
        let (n_slots, rows, capacity) = (rounded(n_slots), rounded(source_lengths[0].len()), FIRST_CAPACITY);
        let (n_slots, n_sources) = (n_slots.max(rows), source_lengths.len());
        let sources = Array::new(cuda, ElementType::U32, (1 + n_sources) * n_slots);
        let mut numbers = vec![0_u32; sources.len()];
        for row in 0..source_lengths[0].len() {
            numbers[row] = row as u32;
            for (source, lengths) in source_lengths.iter().enumerate() {
                numbers[(1 + source) * n_slots + row] = lengths[row] as u32;
            }
        }
        sources.write(&numbers);
        Self {
            cuda: Arc::clone(cuda),
            n_slots,
            capacity,
            line: 0,
            rows,
            moves: 0,
            input: Array::zeros(cuda, ElementType::U32, input_size(n_slots)),
            ancestry: Array::zeros(cuda, ElementType::U32, capacity * n_slots),
            sources,
            n_sources,
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

    /// Makes room for the tokens of new rows.
    pub(crate) fn fill(&mut self, lengths: &[usize]) {
        self.line = longest(lengths);
        while self.capacity <= self.line {
            self.capacity *= 2;
        }
        self.ancestry = self.own_slots();
    }

    /// A table of ancestors in which every row is in its own slot.
    fn own_slots(&self) -> Array {
        let own: Vec<u32> = (0..self.capacity * self.n_slots).map(|at| (at % self.n_slots) as u32).collect();
        self.upload(&own)
    }

    /// Begins a step of rows with `lengths` tokens so far. If a move is returned, caches must follow it.
    pub(crate) fn begin(&mut self, lengths: &[usize], tokens: &[u32]) -> Option<CudaRegroup> {
        let wanted = rounded(tokens.len());
        let rows_before = self.rows;
        // Fewer rows need a new recording, which pays off only if many rows are halved.
        if wanted > self.rows || (2 * wanted <= self.rows && self.rows > CHEAP_ROWS) {
            self.rows = wanted;
        }
        let must_move = self.line >= self.capacity || self.rows > self.n_slots;
        let regroup = must_move.then(|| self.regroup(longest(lengths), rows_before));
        let parents: Vec<u32> = match self.parents.take() {
            Some(rows) => rows,
            None => (0..tokens.len() as u32).collect(),
        };
        let starts: Vec<u32> = lengths.iter().map(|len| (self.line - len) as u32).collect();
        let mut numbers = vec![0_u32; self.input.len()];
        numbers[0] = self.line as u32;
        for (at, (part, padding)) in
            [(tokens, tokens.first()), (&parents[..], parents.first()), (&starts[..], starts.first())]
                .into_iter()
                .enumerate()
        {
            let out = &mut numbers[TOKENS_AT + at * self.n_slots..][..self.rows];
            out[..part.len()].copy_from_slice(part);
            // Padding rows copy the first row.
            out[part.len()..].fill(padding.copied().unwrap_or(0));
        }
        self.input.write(&numbers);
        regroup
    }

    /// Ends a step.
    pub(crate) fn advance(&mut self) {
        self.line += 1;
    }

    /// Makes room for more lines and for the current rows; lines that no row uses any more are left behind.
    fn regroup(&mut self, len: usize, rows_before: usize) -> CudaRegroup {
        let capacity = if len < self.capacity { self.capacity } else { 2 * self.capacity };
        let n_slots = rounded(self.rows.max(rows_before));
        let (old_slots, old_line) = (self.n_slots, self.line);
        let sources = Array::new(&self.cuda, ElementType::U32, (1 + self.n_sources) * n_slots);
        for side in 0..=self.n_sources {
            let both = n_slots.min(old_slots);
            let from = self.sources.part(side * old_slots..side * old_slots + both);
            sources.part(side * n_slots..side * n_slots + both).copy_from(&from);
        }
        self.sources = sources;
        let ancestry = self.move_to(n_slots, capacity);
        self.line = len;
        CudaRegroup {
            ancestry,
            rows: rows_before,
            lines: len,
            from: old_line - len,
            to: 0,
            first_slot: 0,
            old_slots,
            n_slots,
            capacity,
        }
    }

    /// Memory for other numbers of slots and lines, in which every row is in its own slot; returns the ancestors before.
    fn move_to(&mut self, n_slots: usize, capacity: usize) -> Array {
        (self.n_slots, self.capacity, self.moves) = (n_slots, capacity, self.moves + 1);
        self.input = Array::new(&self.cuda, ElementType::U32, input_size(n_slots));
        let own = self.own_slots();
        std::mem::replace(&mut self.ancestry, own)
    }

    /// Appends the rows of `other`; `lengths` are those of the own rows and of the others. Caches must follow both moves.
    pub(crate) fn join(&mut self, other: &Self, lengths: [&[usize]; 2]) -> [CudaRegroup; 2] {
        let [own, theirs] = lengths.map(longest);
        let line = own.max(theirs);
        let mut capacity = self.capacity;
        while capacity <= line {
            capacity *= 2;
        }
        let (old_slots, old_line, old_rows) = (self.n_slots, self.line, self.rows);
        let n_slots = rounded(old_rows + other.rows);
        let parents = |rows: &Self, count: usize| -> Vec<u32> {
            rows.parents.clone().unwrap_or_else(|| (0..count as u32).collect())
        };
        let mut all = parents(self, lengths[0].len());
        all.extend(parents(other, lengths[1].len()).into_iter().map(|row| row + old_rows as u32));
        let ancestry = self.move_to(n_slots, capacity);
        self.sources = Array::zeros(&self.cuda, ElementType::U32, (1 + self.n_sources) * n_slots);
        (self.parents, self.line) = (Some(all), line);
        let own = CudaRegroup {
            ancestry,
            rows: old_rows,
            lines: own,
            from: old_line - own,
            to: line - own,
            first_slot: 0,
            old_slots,
            n_slots,
            capacity,
        };
        let theirs = CudaRegroup {
            ancestry: other.ancestry.clone(),
            rows: other.rows,
            lines: theirs,
            from: other.line - theirs,
            to: line - theirs,
            first_slot: old_rows,
            old_slots: other.n_slots,
            n_slots,
            capacity,
        };
        [own, theirs]
    }

    /// Queues the first work of a step: replaces rows by their parents.
    pub(crate) fn follow_parents(&self) {
        let launch = Launch {
            file: "reorder",
            name: "reorder",
            grid: [self.capacity + 1 + self.n_sources, 1, 1],
            block: 256,
            shared: 4 * self.rows,
            family: KernelFamily::Elementwise,
        };
        let parents = self.input.part(TOKENS_AT + self.n_slots..TOKENS_AT + 2 * self.n_slots);
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

    /// Line of the newest tokens, a scalar.
    pub(crate) fn position(&self) -> Array {
        self.input.part(0..1)
    }

    /// First line of each row.
    pub(crate) fn starts(&self) -> Array {
        let first = TOKENS_AT + 2 * self.n_slots;
        self.input.part(first..first + self.rows)
    }

    /// First line of each row that has `lengths` tokens, before a step.
    pub(crate) fn starts_of(&self, lengths: &[usize]) -> Array {
        let starts: Vec<u32> = lengths.iter().map(|len| (self.line - len) as u32).collect();
        let array = Array::new(&self.cuda, ElementType::U32, starts.len());
        array.write(&starts);
        array
    }

    /// Lines in use.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// The newest token of each row.
    pub(crate) fn tokens(&self) -> Array {
        self.input.part(TOKENS_AT..TOKENS_AT + self.rows)
    }

    pub(crate) fn ancestry(&self) -> &Array {
        &self.ancestry
    }

    /// Source sentence of each row, and its length in one of the sources.
    pub(crate) fn sources(&self, source: usize) -> [Array; 2] {
        [0, (1 + source) * self.n_slots].map(|start| self.sources.part(start..start + self.rows))
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
    /// The keys and values at their new places; `width` values per line of a row.
    pub(crate) fn moved(&self, cache: &Array, width: usize) -> Array {
        let moved = self.target(cache, width);
        self.copy(cache, &moved, width);
        moved
    }

    /// Memory for the new places.
    pub(crate) fn target(&self, cache: &Array, width: usize) -> Array {
        Array::new(cache.cuda(), cache.dtype(), self.capacity * self.n_slots * width)
    }

    /// Copies keys and values to their new places.
    pub(crate) fn copy(&self, cache: &Array, moved: &Array, width: usize) {
        if self.lines == 0 {
            return;
        }
        let launch = Launch {
            file: "reorder",
            name: &format!("regroup_{}", cache.suffix()),
            grid: [self.rows, self.lines, 1],
            block: 128,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        let arguments = args![
            cache,
            moved,
            &self.ancestry,
            self.old_slots,
            self.n_slots,
            self.from,
            self.to,
            self.first_slot,
            width
        ];
        cache.cuda().launch(launch, arguments);
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
