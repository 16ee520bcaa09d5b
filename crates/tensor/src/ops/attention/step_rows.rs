//! The rows of decoding: hypotheses that grow by one token at each step, and where what is kept of them lies.
//!
//! Each row reads the keys and values of its tokens in a slot, and those of its source sentence in another. On the processor
//! reordering hands slots on, and only a hypothesis that goes on twice is copied. On a card a table says for each position of
//! a row where it lies, and a step computes a few rows more than there are.
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
const MOST_RECORDED: usize = 1024;

/// Rows that grow together.
#[derive(Debug)]
pub struct StepRows {
    n_slots: usize,
    len: usize,
    /// The newest token of each row.
    tokens: Vec<u32>,
    /// The slot of each row.
    slots: Vec<usize>,
    /// Tokens of each source sentence.
    source_lengths: Vec<usize>,
    /// The source sentence of each row, and its tokens.
    sources: Vec<usize>,
    row_lengths: Vec<usize>,
    #[cfg(feature = "cuda")]
    card: Option<crate::cuda::CardRows>,
}

/// The positions that the newest token sees, the same for all rows.
#[derive(Debug)]
pub enum StepSight {
    /// In rising order, on the processor.
    Ranges(Vec<Range<u32>>),
    /// A bit for each position, for every place of the newest token.
    #[cfg(feature = "cuda")]
    Bits(CardSight),
}

/// What is seen from every place, on a card.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub struct CardSight {
    pub(crate) bits: crate::cuda::Array,
    /// Words for each place.
    pub(crate) words: usize,
}

/// Where caches go on when the rows of a card need other memory.
#[derive(Debug)]
pub struct Regroup {
    #[cfg(feature = "cuda")]
    pub(crate) inner: crate::cuda::Regroup,
}

impl StepRows {
    /// `count` empty rows that have no source; later there may be up to `n_slots`.
    pub fn new(count: usize, n_slots: usize) -> Self {
        Self::of_sources(&vec![0; count], n_slots)
    }

    /// A row for each source sentence, of so many tokens each; later there may be up to `n_slots`.
    pub fn of_sources(source_lengths: &[u32], n_slots: usize) -> Self {
        let source_lengths: Vec<usize> = source_lengths.iter().map(|&length| length as usize).collect();
        let count = source_lengths.len();
        Self {
            n_slots: n_slots.max(count),
            len: 0,
            tokens: Vec::new(),
            slots: (0..count).collect(),
            sources: (0..count).collect(),
            row_lengths: source_lengths.clone(),
            source_lengths,
            #[cfg(feature = "cuda")]
            card: None,
        }
    }

    /// The same rows, before their first token, for operations on `device`.
    #[must_use]
    pub fn on(self, device: &Device) -> Self {
        match device {
            Device::Cpu => self,
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let card = crate::cuda::CardRows::new(cuda, &self.source_lengths, self.n_slots);
                Self { card: Some(card), ..self }
            }
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn card(&self) -> Option<&crate::cuda::CardRows> {
        self.card.as_ref()
    }

    /// Rows that a step computes: those that there are, and on a card some that nobody reads.
    pub fn computed(&self) -> usize {
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            return card.rows;
        }
        self.count()
    }

    /// Whether a step is worth recording: with many rows the card has more to do than to be told.
    pub fn are_few(&self) -> bool {
        self.computed() <= MOST_RECORDED
    }

    /// What a recorded step depends on: as long as it is the same, the step can be replayed.
    pub fn form(&self) -> [usize; 2] {
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            return [card.rows, card.moves];
        }
        [self.count(), 0]
    }

    /// Tokens of each row so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many rows there may be.
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// The newest token of each row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The slot of each row's tokens.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// The source sentence of each row.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Tokens of each row's source sentence.
    pub fn row_lengths(&self) -> &[usize] {
        &self.row_lengths
    }

    /// Begins a step: one token more for each row. Caches must move where something is returned.
    ///
    /// # Panics
    /// If there are more or fewer tokens than rows.
    #[must_use = "caches must move"]
    pub fn begin(&mut self, tokens: &[u32]) -> Option<Regroup> {
        assert!(tokens.len() == self.count(), "{} tokens for {} rows", tokens.len(), self.count());
        tokens.clone_into(&mut self.tokens);
        #[cfg(feature = "cuda")]
        if let Some(card) = &mut self.card {
            return card.begin(self.len, tokens).map(|inner| Regroup { inner });
        }
        None
    }

    /// The first work of a step, of which it can be a recorded part.
    pub fn follow_parents(&self) {
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            card.follow_parents();
        }
    }

    /// What the newest token sees, if not all: `seen` says it for the last of so many tokens.
    pub fn sight(&self, seen: impl Fn(usize) -> Option<Vec<Range<u32>>>) -> Option<StepSight> {
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            seen(self.len + 1)?;
            let words = card.capacity.div_ceil(32);
            let bits = card.whole_table(SIGHT, || {
                (1..=card.capacity).flat_map(|len| bits(&seen(len).unwrap_or_default(), words)).collect()
            });
            return Some(StepSight::Bits(CardSight { bits, words }));
        }
        seen(self.len + 1).map(StepSight::Ranges)
    }

    /// The step is done: its tokens count from now on.
    pub fn advance(&mut self) {
        self.len += 1;
    }

    /// Row i becomes what row `rows[i]` was; there may be fewer rows than before, or more while there are slots. Gives the
    /// copies that caches must make, slot to slot.
    ///
    /// # Panics
    /// If a row does not exist or there are more rows than slots.
    #[must_use = "caches must copy"]
    pub fn reorder(&mut self, rows: &[usize]) -> Vec<(usize, usize)> {
        self.sources = rows.iter().map(|&row| self.sources[row]).collect();
        self.row_lengths = self.sources.iter().map(|&source| self.source_lengths[source]).collect();
        #[cfg(feature = "cuda")]
        if let Some(card) = &mut self.card {
            card.reorder(rows);
            return Vec::new();
        }
        let mut taken = vec![false; self.n_slots];
        // The first to ask keeps the slot.
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
}

/// The key of the table of what is seen; no address is as small.
#[cfg(feature = "cuda")]
const SIGHT: usize = 1;

/// A bit for each position of the ranges.
#[cfg(feature = "cuda")]
fn bits(ranges: &[Range<u32>], words: usize) -> Vec<u32> {
    let mut bits = vec![0; words];
    for position in ranges.iter().cloned().flatten() {
        bits[position as usize / 32] |= 1 << (position % 32);
    }
    bits
}
