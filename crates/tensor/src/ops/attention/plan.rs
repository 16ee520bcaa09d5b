//! Checked sizes and options of one attention, and the memory layout of the heads.

use super::block::{Block, MAX_KEYS, Run};
use super::pattern::MAX_QUERIES;
use super::{AttentionOptions, Columns, Direction};
use crate::Result;
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut};
use crate::ops::dropout::DropoutMask;
use crate::tape::Tape;

/// Layout of the heads of query, key or value in their tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadLayout {
    /// Positions per sequence.
    pub(crate) len: usize,
    /// Values from one position to the next.
    pub(crate) stride: usize,
    /// First column.
    pub(crate) start: usize,
    n_heads: usize,
    pub(crate) d_head: usize,
}

impl HeadLayout {
    /// One head in a buffer of its own.
    fn alone(len: usize, d_head: usize) -> Self {
        Self { len, stride: d_head, start: 0, n_heads: 1, d_head }
    }

    /// Columns of all heads.
    pub(crate) fn width(self) -> usize {
        self.n_heads * self.d_head
    }

    /// True if both have a column in common.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.start < other.start + other.width() && other.start < self.start + self.width()
    }

    /// Index of the first value of `head` at `position` of `row`.
    fn at(self, row: usize, head: usize, position: usize) -> usize {
        (row * self.len + position) * self.stride + self.start + head * self.d_head
    }

    /// Columns of a head at one position.
    pub(super) fn row(self, data: &[f32], [row, head]: [usize; 2], position: usize) -> &[f32] {
        &data[self.at(row, head, position)..][..self.d_head]
    }

    /// Columns of a head at the positions of `run`.
    pub(super) fn head(self, data: &[f32], [row, head]: [usize; 2], run: Run) -> Matrix<'_> {
        let data = &data[self.at(row, head, run.first)..];
        Matrix::strided(data, [run.count, self.d_head], [self.stride * run.step, 1])
    }

    /// As [`HeadLayout::head`], writable.
    ///
    /// # Safety
    /// The tensor at `address` has this layout, and nobody else accesses these columns meanwhile.
    pub(super) unsafe fn head_mut<'a>(
        self,
        address: Address,
        [row, head]: [usize; 2],
        run: Run,
    ) -> MatrixMut<'a> {
        // SAFETY: the caller guarantees that the columns are inside the tensor and not shared.
        unsafe {
            let start = address.0.add(self.at(row, head, run.first));
            MatrixMut::from_raw(start, [run.count, self.d_head], self.stride * run.step)
        }
    }
}

/// An address shared by tasks; each writes its own part.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) *mut f32);

// SAFETY: tasks write disjoint parts, and the tensor outlives them.
unsafe impl Send for Address {}
// SAFETY: as for Send: the address itself never changes.
unsafe impl Sync for Address {}

/// The keys or values of one head: its columns in their tensor, or a copy.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    data: &'a [f32],
    layout: HeadLayout,
    at: [usize; 2],
}

impl<'a> Head<'a> {
    /// The rows of `run`.
    pub(super) fn rows(self, run: Run) -> Matrix<'a> {
        self.layout.head(self.data, self.at, run)
    }
}

/// Where the gradient of [`Head`] is summed.
#[derive(Clone, Copy)]
pub(super) struct HeadGradient {
    address: Address,
    layout: HeadLayout,
    at: [usize; 2],
}

impl HeadGradient {
    /// The rows of `run`.
    ///
    /// # Safety
    /// Nobody else accesses them meanwhile.
    pub(super) unsafe fn rows<'a>(self, run: Run) -> MatrixMut<'a> {
        // SAFETY: the caller guarantees it.
        unsafe { self.layout.head_mut(self.address, self.at, run) }
    }
}

/// Sizes and options, the same for every head.
pub(crate) struct AttentionPlan {
    pub(crate) batch: usize,
    pub(crate) q_len: usize,
    pub(crate) k_len: usize,
    pub(crate) n_heads: usize,
    pub(crate) n_key_heads: usize,
    /// Query, key and value.
    pub(crate) sides: [HeadLayout; 3],
    /// The result, contiguous.
    pub(crate) out: HeadLayout,
    pub(crate) scale: f32,
    pub(crate) mask: Option<DropoutMask>,
    pub(crate) options: AttentionOptions,
}

impl AttentionPlan {
    pub(crate) fn new(tape: &Tape, sides: [Columns<'_>; 3], options: &AttentionOptions) -> Result<Self> {
        let &[batch, q_len, _] = sides[0].var.shape() else {
            return shape("attention", "query", sides[0].var.shape(), "batch × length × width");
        };
        let k_len = sides[1].var.shape().get(1).copied().unwrap_or(0);
        let n_heads = options.n_heads;
        let n_key_heads = options.n_key_heads.unwrap_or(n_heads);
        if n_heads > 0 && (n_key_heads == 0 || !n_heads.is_multiple_of(n_key_heads)) {
            let expected = format!("a divisor of the {n_heads} query heads");
            return shape("attention", "key heads", &[n_key_heads], expected);
        }
        let expected =
            [("query", q_len, n_heads), ("key", k_len, n_key_heads), ("value", k_len, n_key_heads)];
        let mut checked = [HeadLayout { len: 0, stride: 0, start: 0, n_heads: 0, d_head: 0 }; 3];
        for ((side, columns), (name, len, heads)) in checked.iter_mut().zip(sides).zip(expected) {
            *side = check_side(columns, name, [batch, len, heads])?;
        }
        let [query, key, value] = checked;
        if key.d_head != query.d_head {
            let expected = format!("heads of {}, as in the query", query.d_head);
            return shape("attention", "key", sides[1].var.shape(), expected);
        }
        check_options(options, [batch, q_len, k_len])?;
        if let Some(relative) = &options.relative {
            relative.check(key.d_head, value.d_head)?;
        }
        let out = HeadLayout {
            len: q_len,
            stride: n_heads * value.d_head,
            start: 0,
            n_heads,
            d_head: value.d_head,
        };
        let scale = options.scale.unwrap_or(1.0 / (query.d_head as f32).sqrt());
        let mask = DropoutMask::draw(tape, options.dropout)?;
        let options = options.clone();
        Ok(Self { batch, q_len, k_len, n_heads, n_key_heads, sides: checked, out, scale, mask, options })
    }

    /// Number of keys in `row` that are not padding.
    pub(super) fn exists(&self, row: usize) -> usize {
        let lengths = self.options.key_lengths.as_ref();
        lengths.map_or(self.k_len, |lengths| (lengths.host()[row] as usize).min(self.k_len))
    }

    /// Number of leading keys that query `q` of `row` attends to without a pattern.
    pub(super) fn visible(&self, row: usize, q: usize) -> usize {
        match self.options.direction {
            Direction::Both => self.exists(row),
            Direction::Causal => self.exists(row).min((q + 1 + self.k_len).saturating_sub(self.q_len)),
        }
    }

    /// Offset from a query's position to its position among the keys: the last query is at the last key.
    pub(super) fn offset(&self) -> usize {
        self.k_len.saturating_sub(self.q_len)
    }

    /// Row and head of task `index`, and row and head of its keys and values.
    pub(super) fn heads(&self, index: usize) -> ([usize; 2], [usize; 2]) {
        let (row, head) = (index / self.n_heads, index % self.n_heads);
        ([row, head], [row, head / (self.n_heads / self.n_key_heads)])
    }

    /// A head of the keys (side 1) or values (side 2). Rows of a head lie far apart in their tensor, so that many of them
    /// use few sets of a cache and many pages: then they are copied to `copy` once, for all blocks of queries.
    pub(super) fn head<'a>(
        &self,
        side: usize,
        data: &'a [f32],
        at: [usize; 2],
        copy: &'a mut Vec<f32>,
    ) -> Head<'a> {
        let layout = self.sides[side];
        if !self.copies_heads() {
            return Head { data, layout, at };
        }
        copy.clear();
        (0..layout.len).for_each(|position| copy.extend_from_slice(layout.row(data, at, position)));
        Head { data: copy, layout: HeadLayout::alone(layout.len, layout.d_head), at: [0, 0] }
    }

    /// True if keys and values of a head are copied, and their gradients summed in buffers of their own.
    pub(super) fn copies_heads(&self) -> bool {
        self.has_parts() && self.q_len > MAX_QUERIES
    }

    /// True if blocks may see more keys than one part has.
    pub(super) fn has_parts(&self) -> bool {
        self.options.pattern.is_none() && self.k_len > MAX_KEYS
    }

    /// Where the gradient of keys (side 1) or values (side 2) is summed: in its tensor, or in `sum`, both set to 0.
    ///
    /// # Safety
    /// Nobody else accesses this head's columns of the tensor at `address`.
    pub(super) unsafe fn head_gradient(
        &self,
        side: usize,
        address: Address,
        at: [usize; 2],
        sum: &mut Vec<f32>,
    ) -> HeadGradient {
        let layout = self.sides[side];
        if self.copies_heads() {
            sum.clear();
            sum.resize(layout.len * layout.d_head, 0.0);
            let alone = HeadLayout::alone(layout.len, layout.d_head);
            return HeadGradient { address: Address(sum.as_mut_ptr()), layout: alone, at: [0, 0] };
        }
        let gradient = HeadGradient { address, layout, at };
        // SAFETY: the caller guarantees that nobody else accesses these columns.
        unsafe { gradient.rows(Run { first: 0, count: self.k_len, step: 1 }) }.fill(0.0);
        gradient
    }

    /// Copies a gradient that was summed in a buffer of its own to its tensor.
    ///
    /// # Safety
    /// As for [`Self::head_gradient`].
    pub(super) unsafe fn store_gradient(&self, side: usize, address: Address, at: [usize; 2], sum: &[f32]) {
        if !self.copies_heads() {
            return;
        }
        let layout = self.sides[side];
        let all = Run { first: 0, count: layout.len, step: 1 };
        // SAFETY: the caller guarantees that nobody else accesses these columns.
        let mut target = unsafe { layout.head_mut(address, at, all) };
        for (position, row) in sum.chunks_exact(layout.d_head.max(1)).enumerate() {
            target.row_mut(position).copy_from_slice(row);
        }
    }

    /// The blocks of a row of the batch.
    pub(super) fn blocks(&self, row: usize) -> impl Iterator<Item = Block<'_>> {
        let pattern = self.options.pattern.as_deref();
        let dense_len = if pattern.is_some() { 0 } else { self.q_len };
        let dense = (0..dense_len).step_by(MAX_QUERIES).map(move |first| {
            let count = MAX_QUERIES.min(self.q_len - first);
            let seen = (first..first + count).map(|q| self.visible(row, q)).max().unwrap_or(0);
            Block::dense(first, count, seen)
        });
        let limit = self.exists(row);
        let sparse = pattern.into_iter().flat_map(super::pattern::Pattern::blocks);
        dense.chain(sparse.map(move |block| block.clipped(limit)))
    }
}

fn check_side(
    columns: Columns<'_>,
    name: &'static str,
    [batch, len, n_heads]: [usize; 3],
) -> Result<HeadLayout> {
    let found = columns.var.shape();
    let Columns { start, width, .. } = columns;
    match *found {
        [rows, length, stride] if rows == batch && length == len && start + width <= stride => {
            if n_heads == 0 || !width.is_multiple_of(n_heads) {
                return shape("attention", name, found, format!("a last axis divisible by {n_heads} heads"));
            }
            Ok(HeadLayout { len, stride, start, n_heads, d_head: width / n_heads })
        }
        _ => shape("attention", name, found, format!("[{batch}, {len}, {}]", start + width)),
    }
}

fn check_options(options: &AttentionOptions, [batch, q_len, k_len]: [usize; 3]) -> Result<()> {
    let n_heads = options.n_heads;
    if let Some(lengths) = options.key_lengths.as_ref().filter(|lengths| lengths.len() != batch) {
        return shape("attention", "key_lengths", &[lengths.len()], format!("[{batch}]"));
    }
    if let Some(bias) = options.bias.as_ref().filter(|bias| bias.shape() != [n_heads, q_len, k_len]) {
        return shape("attention", "bias", bias.shape(), format!("[{n_heads}, {q_len}, {k_len}]"));
    }
    if let Some(pattern) = options.pattern.as_ref().filter(|pattern| pattern.lengths() != [q_len, k_len]) {
        return shape("attention", "pattern", &pattern.lengths(), format!("[{q_len}, {k_len}]"));
    }
    if options.pattern.is_some() && options.direction == Direction::Causal {
        return shape("attention", "pattern", &[q_len, k_len], "a causal pattern and direction Both");
    }
    Ok(())
}
