//! The K/V cache of decoding: keys and values of the tokens so far, so that a step computes one token only.
//!
//! Every row (a hypothesis) has a slot in each layer. Reordering hands slots on; only a hypothesis that goes on twice is
//! copied.
//!
//! ```
//! use polyhead_attention::KvCache;
//! use polyhead_tensor::ops::attention::CacheShape;
//! let mut cache = KvCache::new(CacheShape { n_heads: 2, d_key: 4, d_value: 4 }, 6, 3, 16);
//! cache.reorder(&[2, 0, 0]); // the third row first, then the first row twice
//! assert_eq!(cache.slots(), [2, 0, 1]);
//! ```

use polyhead_tensor::ops::attention::{CacheShape, KeysValues};

/// Keys and values of all layers.
#[derive(Debug, Clone)]
pub struct KvCache {
    layers: Vec<KeysValues>,
    slots: Vec<usize>,
    len: usize,
}

impl KvCache {
    /// `n_rows` empty sequences in each of `n_layers`, with room for `capacity` tokens; more room is made when needed.
    pub fn new(shape: CacheShape, n_layers: usize, n_rows: usize, capacity: usize) -> Self {
        let layers = (0..n_layers).map(|_| KeysValues::new(shape, n_rows, capacity)).collect();
        Self { layers, slots: (0..n_rows).collect(), len: 0 }
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot of each row.
    pub fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(KeysValues::bytes).sum()
    }

    /// One layer's keys and values.
    pub fn layer(&self, layer: usize) -> &KeysValues {
        &self.layers[layer]
    }

    /// Writes the next token's keys and values in one layer, rows × width each.
    ///
    /// # Panics
    /// If there are more or fewer rows than slots.
    pub fn write(&mut self, layer: usize, keys: &[f32], values: &[f32]) {
        let rows = self.slots.len();
        assert!(
            rows > 0 && keys.len().is_multiple_of(rows) && values.len().is_multiple_of(rows),
            "{rows} rows"
        );
        let (d_key, d_value) = (keys.len() / rows, values.len() / rows);
        for ((&slot, key), value) in
            self.slots.iter().zip(keys.chunks_exact(d_key)).zip(values.chunks_exact(d_value))
        {
            self.layers[layer].write(slot, self.len, key, value);
        }
    }

    /// The token that was written in all layers counts from now on.
    pub fn advance(&mut self) {
        self.len += 1;
    }

    /// Row i becomes what row `rows[i]` was; there may be fewer rows than before, or more while there are slots.
    ///
    /// # Panics
    /// If a row does not exist or there are more rows than slots.
    pub fn reorder(&mut self, rows: &[usize]) {
        let n_slots = self.layers.first().map_or(rows.len(), KeysValues::n_slots);
        let mut taken = vec![false; n_slots];
        // The first to ask keeps the slot.
        let kept: Vec<Option<usize>> = rows
            .iter()
            .map(|&row| {
                let slot = self.slots[row];
                (!std::mem::replace(&mut taken[slot], true)).then_some(slot)
            })
            .collect();
        let mut free = (0..n_slots).filter(|&slot| !taken[slot]);
        let mut slots = Vec::with_capacity(rows.len());
        for (&row, kept) in rows.iter().zip(kept) {
            let slot = kept.unwrap_or_else(|| {
                let slot = free.next().expect("as many slots as rows");
                self.layers.iter_mut().for_each(|layer| layer.copy(self.slots[row], slot, self.len));
                slot
            });
            slots.push(slot);
        }
        self.slots = slots;
    }
}
