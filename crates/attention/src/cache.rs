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
    AttentionOutput, CacheShape, KeysValues, StepAttentionPattern, StepOptions, StepRows, self_step,
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
    /// An empty cache of `n_layers` layers for `rows`; memory is allocated on demand.
    pub fn new(shape: CacheShape, n_layers: usize, rows: StepRows) -> Self {
        let layers = (0..n_layers).map(|_| KeysValues::of_rows(shape, &rows)).collect();
        Self { layers, rows, pattern: None }
    }

    /// Number of tokens so far.
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

    /// Replaces row i by row `rows[i]`; there may be fewer rows than before, or more up to the number of slots.
    ///
    /// # Panics
    /// If a row does not exist or there are more rows than slots.
    pub fn reorder(&mut self, rows: &[usize]) {
        for (from, to) in self.rows.reorder(rows) {
            self.layers.iter_mut().for_each(|layer| layer.copy(from, to, self.rows.len()));
        }
    }
}
