//! The K/V cache of incremental decoding: keys and values of the tokens so far, so that a step computes one token only.
//!
//! Every row (a hypothesis) has a slot in each layer. Reordering reassigns slots; only a hypothesis with several successors
//! is copied. The cache lives on the device of its rows.
//!
//! ```
//! use polyhead_attention::KvCache;
//! use polyhead_tensor::ops::attention::{CacheShape, StepRows};
//! let mut cache = KvCache::new(CacheShape { n_heads: 2, d_key: 4, d_value: 4 }, 6, StepRows::new(3, 3));
//! cache.reorder(&[2, 0, 0]); // the third row first, then the first row twice
//! assert_eq!(cache.rows().slots(), [2, 0, 1]);
//! ```

use polyhead_tensor::ops::attention::{
    AttentionOutput, CacheShape, Columns, KeysValues, StepAttentionPattern, StepOptions, StepRows, self_step,
};
use polyhead_tensor::{Result, Tensor};

use crate::mask::Mask;

/// Keys and values of all layers for the tokens so far.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<KeysValues>,
    rows: StepRows,
    /// Keys that the newest tokens attend to; `None`: all.
    pattern: Option<StepAttentionPattern>,
}

/// One layer of a [`KvCache`] during a step.
#[derive(Debug)]
pub struct CacheLayer<'a> {
    key_values: &'a mut KeysValues,
    pattern: Option<&'a StepAttentionPattern>,
    /// The rows of the step.
    pub rows: &'a StepRows,
}

impl CacheLayer<'_> {
    /// Caches the keys and values of whole sequences, rows × length × columns: as many tokens of each row as the rows have.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn fill(&mut self, key: Columns<'_>, value: Columns<'_>) -> Result<()> {
        self.key_values.fill(self.rows, key, value)
    }

    /// Appends the newest tokens' keys and values to the cache and attends from their queries to all tokens so far.
    ///
    /// `projected`: rows × (queries, keys and values side by side).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn attend(&mut self, projected: &Tensor, options: &StepOptions<'_>) -> Result<AttentionOutput> {
        let options = StepOptions { seen: self.pattern, ..options.clone() };
        self_step(projected, self.key_values, self.rows, &options)
    }
}

impl KvCache {
    /// A cache of `n_layers` layers for `rows`, whose tokens, if there are any, are to be filled in next; memory is allocated
    /// on demand.
    pub fn new(shape: CacheShape, n_layers: usize, rows: StepRows) -> Self {
        let layers = (0..n_layers).map(|_| KeysValues::of_rows(shape, &rows)).collect();
        Self { layers, rows, pattern: None }
    }

    /// Number of tokens of the longest row so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of the cache.
    pub fn rows(&self) -> &StepRows {
        &self.rows
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(KeysValues::bytes).sum()
    }

    /// Keys and values of one layer.
    pub fn layer(&self, layer: usize) -> &KeysValues {
        &self.layers[layer]
    }

    /// Begins a step: one more token for each row, which attends to what `mask` allows.
    ///
    /// # Panics
    /// If the number of tokens is not the number of rows.
    pub fn begin(&mut self, tokens: &[u32], mask: &Mask) {
        if let Some(regroup) = self.rows.begin(tokens) {
            self.layers.iter_mut().for_each(|layer| layer.regroup(&regroup));
        }
        self.pattern = self.rows.attention_pattern(|len| mask.visible_from_last(len));
    }

    /// One layer, for attention in this step.
    pub fn layer_mut(&mut self, layer: usize) -> CacheLayer<'_> {
        CacheLayer { key_values: &mut self.layers[layer], pattern: self.pattern.as_ref(), rows: &self.rows }
    }

    /// Ends a step: the tokens written in all layers become part of the cache.
    pub fn advance(&mut self) {
        self.rows.advance();
    }

    /// Begins a step on the CPU that appends a text to each row, by which every token is a row; returns the rows themselves, for
    /// [`Self::end_texts`].
    ///
    /// # Panics
    /// If there is not one text for each row, or the cache is on a GPU.
    pub fn begin_texts(&mut self, texts: &[&[u32]], mask: &Mask) -> StepRows {
        let tokens = self.rows.of_texts(texts);
        let rows = std::mem::replace(&mut self.rows, tokens);
        self.pattern = self.rows.attention_pattern(|len| mask.visible_from_last(len));
        rows
    }

    /// Ends the step of [`Self::begin_texts`].
    pub fn end_texts(&mut self, rows: StepRows, texts: &[&[u32]]) {
        self.rows = rows;
        self.rows.advance_by(texts);
    }

    /// A cache with a copy of the first `length` tokens of one row; `None` on a GPU.
    ///
    /// # Panics
    /// If the row has fewer tokens.
    pub fn prefix(&self, row: usize, length: usize) -> Option<Self> {
        if !self.rows.is_on_cpu() {
            return None;
        }
        assert!(
            length <= self.rows.lengths()[row],
            "{length} tokens of a row of {}",
            self.rows.lengths()[row]
        );
        let rows = StepRows::new(1, 1).filled(&[length]);
        let layers = self.layers.iter().map(|layer| {
            let mut copy = KeysValues::new(layer.shape(), 1, length);
            copy.copy_from(layer, (self.rows.slots()[row], 0), length);
            copy
        });
        Some(Self { layers: layers.collect(), rows, pattern: None })
    }

    /// Replaces row i by row `rows[i]`; there may be fewer rows than before, or more, on a GPU up to the number of slots.
    ///
    /// # Panics
    /// If a row does not exist, or on a GPU there are more rows than slots.
    pub fn reorder(&mut self, rows: &[usize]) {
        if rows.len() > self.rows.n_slots() && self.rows.is_on_cpu() {
            self.rows.reserve(rows.len());
            self.layers.iter_mut().for_each(|layer| layer.reserve(rows.len()));
        }
        for (from, to) in self.rows.reorder(rows) {
            self.layers.iter_mut().for_each(|layer| layer.copy(from, to, self.rows.len()));
        }
    }

    /// Frees the memory of slots that no row uses, on the CPU; they grow again when needed.
    pub fn release(&mut self) {
        if self.rows.is_on_cpu() {
            self.layers.iter_mut().for_each(|layer| layer.release(self.rows.slots()));
        }
    }

    /// Appends the rows of `other`, which may have other lengths: they follow the own rows. Rows that have a source cannot
    /// be joined.
    ///
    /// # Panics
    /// If the caches have different layers or devices.
    pub fn join(&mut self, other: &Self) {
        assert!(self.layers.len() == other.layers.len(), "caches of one model");
        let joined = self.rows.join(&other.rows);
        for (layer, other) in self.layers.iter_mut().zip(&other.layers) {
            layer.join(other, &joined);
        }
    }
}
