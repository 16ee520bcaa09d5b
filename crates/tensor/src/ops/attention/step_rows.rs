//! Rows of decoding: hypotheses that grow by one token at each step, and the cache slots of their keys and values.
//!
//! Each row reads the keys and values of its tokens from one slot, and those of its source sentence from another. On
//! the CPU reordering reassigns slots, and only a hypothesis that continues in several rows is copied. On a GPU a table
//! gives the slot of each position of a row, and a step computes a few more rows than there are.
//!
//! ```
//! use polyhead_tensor::ops::attention::StepRows;
//! let mut rows = StepRows::new(3, 3);
//! let copies = rows.reorder(&[2, 0, 0]); // the third row first, then the first row twice
//! assert_eq!((rows.slots(), copies), (&[2, 0, 1][..], vec![(0, 1)]));
//! ```

use std::ops::Range;

use crate::device::Device;

/// Steps of more rows are launched kernel by kernel.
const MAX_RECORDED_ROWS: usize = 1024;

/// Rows that are decoded together.
#[derive(Debug)]
pub struct StepRows {
    n_slots: usize,
    /// Tokens of each row so far.
    lengths: Vec<usize>,
    /// The newest token of each row.
    tokens: Vec<u32>,
    /// The slot of each row.
    slots: Vec<usize>,
    /// Tokens of each source sentence, a list for each source of a model that reads several.
    source_lengths: Vec<Vec<usize>>,
    /// Source sentence of each row, and its numbers of tokens.
    sources: Vec<usize>,
    row_lengths: Vec<Vec<usize>>,
    #[cfg(feature = "cuda")]
    gpu: Option<crate::cuda::GpuRows>,
}

/// Positions that the newest token of each row attends to.
#[derive(Debug)]
pub enum StepAttentionPattern {
    /// Ascending ranges of each row, on the CPU.
    Ranges(Vec<Vec<Range<u32>>>),
    /// A bit per position, for every position of the newest token.
    #[cfg(feature = "cuda")]
    Bits(GpuAttentionPattern),
}

/// Attention pattern of every position, on a GPU.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub struct GpuAttentionPattern {
    pub(crate) bits: crate::cuda::Array,
    /// Words per position.
    pub(crate) words: usize,
}

/// Move of the caches to other slots, when the rows of a GPU need other memory.
#[derive(Debug)]
pub struct Regroup {
    #[cfg(feature = "cuda")]
    pub(crate) inner: crate::cuda::CudaRegroup,
}

impl StepRows {
    /// `count` empty rows without a source; later there may be up to `n_slots`.
    pub fn new(count: usize, n_slots: usize) -> Self {
        Self::of_sources(&vec![0; count], n_slots)
    }

    /// A row for each source sentence, with the given numbers of tokens; later there may be up to `n_slots`.
    pub fn of_sources(source_lengths: &[u32], n_slots: usize) -> Self {
        Self::of_several(&[source_lengths], n_slots)
    }

    /// The same for a model that reads several sources: the numbers of tokens of each source, one for each row.
    ///
    /// # Panics
    /// If there is no source, or the sources have different numbers of rows.
    pub fn of_several(source_lengths: &[&[u32]], n_slots: usize) -> Self {
        let count = source_lengths[0].len();
        assert!(
            source_lengths.iter().all(|lengths| lengths.len() == count),
            "a length of each source for each row"
        );
        let lengths = |lengths: &&[u32]| lengths.iter().map(|&length| length as usize).collect();
        let source_lengths: Vec<Vec<usize>> = source_lengths.iter().map(lengths).collect();
        Self {
            n_slots: n_slots.max(count),
            lengths: vec![0; count],
            tokens: Vec::new(),
            slots: (0..count).collect(),
            sources: (0..count).collect(),
            row_lengths: source_lengths.clone(),
            source_lengths,
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// The same rows, before their first token, for operations on `device`.
    #[must_use]
    pub fn on(self, device: &Device) -> Self {
        match device {
            Device::Cpu => self,
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let gpu = crate::cuda::GpuRows::new(cuda, &self.source_lengths, self.n_slots);
                Self { gpu: Some(gpu), ..self }
            }
        }
    }

    /// The same rows with `lengths` tokens each, whose keys and values are about to be cached.
    ///
    /// # Panics
    /// If there is not one length per row, or the rows have tokens already.
    #[must_use]
    pub fn filled(mut self, lengths: &[usize]) -> Self {
        assert!(lengths.len() == self.count() && self.is_empty(), "a length for each new row");
        lengths.clone_into(&mut self.lengths);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            gpu.fill(lengths);
        }
        self
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn gpu(&self) -> Option<&crate::cuda::GpuRows> {
        self.gpu.as_ref()
    }

    /// Number of rows that a step computes: on a GPU some more than there are, whose results are ignored.
    pub fn computed(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return gpu.rows;
        }
        self.count()
    }

    /// True if a step is worth recording: with many rows the launches cost little compared with the work.
    pub fn are_few(&self) -> bool {
        self.computed() <= MAX_RECORDED_ROWS
    }

    /// Key of a recorded step: as long as it is equal, the recorded CUDA graph can be replayed.
    pub fn recording_key(&self) -> [usize; 2] {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            return [gpu.rows, gpu.moves];
        }
        [self.count(), 0]
    }

    /// Number of tokens of the longest row so far.
    pub fn len(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Number of tokens of each row so far, which is the position of its newest token during a step.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of rows.
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The newest token of each row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Cache slot of each row's tokens.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// The source sentence of each row.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Tokens of each row's source sentence; `source` is the index of the source, 0 for a model that reads one.
    pub fn row_lengths(&self, source: usize) -> &[usize] {
        &self.row_lengths[source]
    }

    /// Begins a step: appends one token to each row. If a [`Regroup`] is returned, caches must move.
    ///
    /// # Panics
    /// If the number of tokens is not the number of rows.
    #[must_use = "caches must move"]
    pub fn begin(&mut self, tokens: &[u32]) -> Option<Regroup> {
        assert!(tokens.len() == self.count(), "{} tokens for {} rows", tokens.len(), self.count());
        tokens.clone_into(&mut self.tokens);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            return gpu.begin(&self.lengths, tokens).map(|inner| Regroup { inner });
        }
        None
    }

    /// Queues the first work of a step, which can be part of its recorded graph: moves rows to their new order.
    pub fn follow_parents(&self) {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            gpu.follow_parents();
        }
    }

    /// Attention pattern of the newest tokens, if they do not attend to all; `seen(n)` gives it for the last of n
    /// tokens.
    pub fn attention_pattern(
        &self,
        seen: impl Fn(usize) -> Option<Vec<Range<u32>>>,
    ) -> Option<StepAttentionPattern> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            seen(self.len() + 1)?;
            let words = gpu.capacity.div_ceil(32);
            let bits = gpu.whole_table(PATTERN_TABLE, || {
                (1..=gpu.capacity).flat_map(|len| bits(&seen(len).unwrap_or_default(), words)).collect()
            });
            return Some(StepAttentionPattern::Bits(GpuAttentionPattern { bits, words }));
        }
        let ranges = self.lengths.iter().map(|len| seen(len + 1)).collect::<Option<_>>()?;
        Some(StepAttentionPattern::Ranges(ranges))
    }

    /// Ends a step: its tokens count from now on.
    pub fn advance(&mut self) {
        self.lengths.iter_mut().for_each(|len| *len += 1);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            gpu.advance();
        }
    }

    /// Replaces row i by row `rows[i]`; there may be fewer rows than before, or more while there are slots. Returns the
    /// copies that caches must make, from slot to slot.
    ///
    /// # Panics
    /// If a row does not exist or there are more rows than slots.
    #[must_use = "caches must copy"]
    pub fn reorder(&mut self, rows: &[usize]) -> Vec<(usize, usize)> {
        self.sources = rows.iter().map(|&row| self.sources[row]).collect();
        self.lengths = rows.iter().map(|&row| self.lengths[row]).collect();
        let of_rows = |lengths: &Vec<usize>| self.sources.iter().map(|&source| lengths[source]).collect();
        self.row_lengths = self.source_lengths.iter().map(of_rows).collect();
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            gpu.reorder(rows);
            return Vec::new();
        }
        let mut taken = vec![false; self.n_slots];
        // The first row that continues a slot keeps it.
        let kept: Vec<Option<usize>> = rows
            .iter()
            .map(|&row| {
                let slot = self.slots[row];
                (!std::mem::replace(&mut taken[slot], true)).then_some(slot)
            })
            .collect();
        let mut free = (0..self.n_slots).filter(|&slot| !taken[slot]);
        let (mut slots, mut copies) = (Vec::with_capacity(rows.len()), Vec::new());
        for (&row, kept) in rows.iter().zip(kept) {
            let slot = kept.unwrap_or_else(|| {
                let slot = free.next().expect("as many slots as rows");
                copies.push((self.slots[row], slot));
                slot
            });
            slots.push(slot);
        }
        self.slots = slots;
        copies
    }

    /// Rows of a step on the CPU that appends several tokens to each row, or none: every token is a row by itself, in the slot of
    /// its own row and at its own position. Tokens attend to those before them, so all may be cached first.
    ///
    /// # Panics
    /// If there is not one text for each row, or the rows are on a GPU.
    #[must_use]
    pub fn of_texts(&self, texts: &[&[u32]]) -> Self {
        assert!(texts.len() == self.count() && self.is_on_cpu(), "a text for each row, on the CPU");
        let (mut slots, mut lengths) = (Vec::new(), Vec::new());
        for ((text, &slot), &length) in texts.iter().zip(&self.slots).zip(&self.lengths) {
            slots.extend(vec![slot; text.len()]);
            lengths.extend(length..length + text.len());
        }
        let count = slots.len();
        Self {
            n_slots: self.n_slots,
            lengths,
            tokens: texts.concat(),
            slots,
            source_lengths: vec![vec![0; count]],
            sources: (0..count).collect(),
            row_lengths: vec![vec![0; count]],
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }

    /// Counts the tokens of a step of [`Self::of_texts`].
    pub fn advance_by(&mut self, texts: &[&[u32]]) {
        self.lengths.iter_mut().zip(texts).for_each(|(length, text)| *length += text.len());
    }

    /// True if keys and values are in CPU memory.
    pub fn is_on_cpu(&self) -> bool {
        #[cfg(feature = "cuda")]
        if self.gpu.is_some() {
            return false;
        }
        true
    }

    /// Raises the maximum number of rows on the CPU; caches must follow.
    pub fn reserve(&mut self, n_slots: usize) {
        self.n_slots = self.n_slots.max(n_slots);
    }

    /// Appends the rows of `other`, which have no source: they follow the own rows. Caches must take them over.
    ///
    /// # Panics
    /// If the rows are on different devices.
    #[must_use = "caches must take the rows over"]
    pub fn join(&mut self, other: &Self) -> Joined {
        let (count, more) = (self.count(), other.count());
        self.source_lengths.iter_mut().for_each(|lengths| lengths.extend(vec![0; more]));
        let n_sentences = self.source_lengths[0].len();
        self.sources.extend(n_sentences - more..n_sentences);
        self.row_lengths.iter_mut().for_each(|lengths| lengths.extend(vec![0; more]));
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            let theirs = other.gpu.as_ref().expect("both on one GPU");
            let inner = gpu.join(theirs, [&self.lengths, &other.lengths]);
            self.lengths.extend(&other.lengths);
            self.n_slots = self.n_slots.max(count + more);
            return Joined { slots: Vec::new(), n_slots: self.n_slots, gpu: Some(inner) };
        }
        let mut taken = vec![false; self.n_slots];
        self.slots.iter().for_each(|&slot| taken[slot] = true);
        self.n_slots = self.n_slots.max(count + more);
        taken.resize(self.n_slots, false);
        let free = (0..self.n_slots).filter(|&slot| !taken[slot]).take(more);
        let rows = free.zip(&other.slots).zip(&other.lengths);
        let slots: Vec<JoinedSlot> = rows.map(|((to, &from), &len)| JoinedSlot { from, to, len }).collect();
        self.slots.extend(slots.iter().map(|slot| slot.to));
        self.lengths.extend(&other.lengths);
        Joined {
            slots,
            n_slots: self.n_slots,
            #[cfg(feature = "cuda")]
            gpu: None,
        }
    }
}

/// What caches take over from those of other rows.
#[derive(Debug)]
pub struct Joined {
    /// Slots on the CPU.
    pub(super) slots: Vec<JoinedSlot>,
    /// Number of slots from now on.
    pub(super) n_slots: usize,
    #[cfg(feature = "cuda")]
    pub(crate) gpu: Option<[crate::cuda::CudaRegroup; 2]>,
}

/// A slot to copy from another cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinedSlot {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Positions in use.
    pub(super) len: usize,
}

/// Key of the table of attention patterns; no address is as small.
#[cfg(feature = "cuda")]
const PATTERN_TABLE: usize = 1;

/// A bitmap of the positions in the ranges.
#[cfg(feature = "cuda")]
fn bits(ranges: &[Range<u32>], words: usize) -> Vec<u32> {
    let mut bits = vec![0; words];
    for position in ranges.iter().cloned().flatten() {
        bits[position as usize / 32] |= 1 << (position % 32);
    }
    bits
}
