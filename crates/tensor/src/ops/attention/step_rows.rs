//! The rows of decoding: hypotheses that grow by one token at each step, and where what is kept of them lies.
//!
//! Each row reads the keys and values of its tokens in a slot, and those of its source sentence in another. On the processor
//! reordering hands slots on, and only a hypothesis that goes on twice is copied.
//!
//! ```
//! use polyhead_tensor::ops::attention::StepRows;
//! let mut rows = StepRows::new(3, 3);
//! let copies = rows.reorder(&[2, 0, 0]); // the third row first, then the first row twice
//! assert_eq!((rows.slots(), copies), (&[2, 0, 1][..], vec![(0, 1)]));
//! ```

/// Rows that grow together.
#[derive(Debug, Clone)]
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
        }
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

    /// Begins a step: one token more for each row.
    ///
    /// # Panics
    /// If there are more or fewer tokens than rows.
    pub fn begin(&mut self, tokens: &[u32]) {
        assert!(tokens.len() == self.count(), "{} tokens for {} rows", tokens.len(), self.count());
        tokens.clone_into(&mut self.tokens);
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
