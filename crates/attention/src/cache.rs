//! The K/V cache of decoding: keys and values of the tokens so far, so that a step computes one token only.
//!
//! Every row (a hypothesis) has a slot in each layer. Reordering hands slots on; only a hypothesis that goes on twice is
//! copied. It lives where its rows live.
//!
//! ```
//! use polyhead_attention::KvCache;
//! use polyhead_tensor::ops::attention::{CacheShape, StepRows};
//! let mut cache = KvCache::new(CacheShape { n_heads: 2, d_key: 4, d_value: 4 }, 6, StepRows::new(3, 3));
//! cache.reorder(&[2, 0, 0]); // the third row first, then the first row twice
//! assert_eq!(cache.rows().slots(), [2, 0, 1]);
//! ```

use polyhead_tensor::ops::attention::{
    Attended, CacheShape, KeysValues, StepOptions, StepRows, StepSight, self_step,
};
use polyhead_tensor::{Result, Tensor};

use crate::mask::Mask;

/// Keys and values of all layers.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<KeysValues>,
    rows: StepRows,
    /// What the newest tokens see; all for `None`.
    sight: Option<StepSight>,
}

/// One layer of a cache in a step.
#[derive(Debug)]
pub struct CacheLayer<'a> {
    kept: &'a mut KeysValues,
    sight: Option<&'a StepSight>,
    /// The rows of the step.
    pub rows: &'a StepRows,
}

impl CacheLayer<'_> {
    /// The newest tokens' queries, keys and values side by side are kept and attend to all so far.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn attend(&mut self, projected: &Tensor, options: &StepOptions<'_>) -> Result<Attended> {
        let options = StepOptions { seen: self.sight, ..options.clone() };
        self_step(projected, self.kept, self.rows, &options)
    }
}

impl KvCache {
    /// Nothing yet, in each of `n_layers`, for `rows`; room is made when it is needed.
    pub fn new(shape: CacheShape, n_layers: usize, rows: StepRows) -> Self {
        let layers = (0..n_layers).map(|_| KeysValues::of_rows(shape, &rows)).collect();
        Self { layers, rows, sight: None }
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows that it keeps.
    pub fn rows(&self) -> &StepRows {
        &self.rows
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(KeysValues::bytes).sum()
    }

    /// One layer's keys and values.
    pub fn layer(&self, layer: usize) -> &KeysValues {
        &self.layers[layer]
    }

    /// Begins a step: one token more for each row, which sees what `mask` lets it see.
    ///
    /// # Panics
    /// If there are more or fewer tokens than rows.
    pub fn begin(&mut self, tokens: &[u32], mask: &Mask) {
        if let Some(regroup) = self.rows.begin(tokens) {
            self.layers.iter_mut().for_each(|layer| layer.regroup(&regroup));
        }
        self.sight = self.rows.sight(|len| mask.seen_by_last(len));
    }

    /// One layer, to attend in.
    pub fn layer_mut(&mut self, layer: usize) -> CacheLayer<'_> {
        CacheLayer { kept: &mut self.layers[layer], sight: self.sight.as_ref(), rows: &self.rows }
    }

    /// The tokens that were written in all layers count from now on.
    pub fn advance(&mut self) {
        self.rows.advance();
    }

    /// Row i becomes what row `rows[i]` was; there may be fewer rows than before, or more while there are slots.
    ///
    /// # Panics
    /// If a row does not exist or there are more rows than slots.
    pub fn reorder(&mut self, rows: &[usize]) {
        for (from, to) in self.rows.reorder(rows) {
            self.layers.iter_mut().for_each(|layer| layer.copy(from, to, self.rows.len()));
        }
    }
}
