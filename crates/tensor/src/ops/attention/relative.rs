//! Relative positions in attention: learned vectors of the distance from query to key.
//!
//! Shaw, Uszkoreit & Vaswani 2018: scores q·(k + a_K[d])/√d_key, context Σ w·(v + a_V[d]), with d = key − query clipped
//! to ±max_distance. Scores of distances are one small product Q·a_Kᵀ; weights are summed by distance before they are
//! multiplied by a_V. So nothing of size q_len × k_len × d_key is ever stored.

use super::block::Block;
use crate::error::shape;
use crate::tape::Var;
use crate::{Error, Result};

/// Vectors of the distances −max_distance … +max_distance, shared by all heads.
#[derive(Debug, Clone)]
pub struct Relative {
    /// Largest distance; longer ones are clipped to it.
    pub max_distance: usize,
    /// Added to keys: (2·max_distance + 1) × d_key.
    pub keys: Var,
    /// Added to values: (2·max_distance + 1) × d_value. Default: none.
    pub values: Option<Var>,
}

impl Relative {
    /// The tables, keys first.
    pub(crate) fn tables(&self) -> Vec<Var> {
        [&self.keys].into_iter().chain(&self.values).cloned().collect()
    }

    pub(super) fn check(&self, d_key: usize, d_value: usize) -> Result<()> {
        let n = 2 * self.max_distance + 1;
        let sides =
            [("relative keys", Some(&self.keys), d_key), ("relative values", self.values.as_ref(), d_value)];
        for (name, table, width) in sides {
            if let Some(table) = table.filter(|table| table.shape() != [n, width]) {
                return shape("attention", name, table.shape(), format!("[{n}, {width}]"));
            }
        }
        if self.max_distance > 1 << 20 {
            let (found, expected) = (self.max_distance as f64, "at most about a million");
            return Err(Error::Value { operation: "attention", name: "max_distance", found, expected });
        }
        Ok(())
    }

    /// Rows of a table.
    pub(super) fn n_distances(&self) -> usize {
        2 * self.max_distance + 1
    }

    /// Table row of a key at `key` relative to a query at `query`.
    pub(super) fn row(&self, query: usize, key: usize) -> usize {
        let limit = self.max_distance;
        if key >= query { limit + (key - query).min(limit) } else { limit - (query - key).min(limit) }
    }

    /// scores[q][k] += by_distance[q][distance of k from q].
    pub(super) fn spread(&self, block: &Block<'_>, offset: usize, by_distance: &[f32], scores: &mut [f32]) {
        let rows = block.queries().zip(by_distance.chunks_exact(self.n_distances()));
        for ((query, by_distance), scores) in rows.zip(scores.chunks_exact_mut(block.n_keys)) {
            for (column, key) in block.keys_by_column() {
                scores[column] += by_distance[self.row(query + offset, key)];
            }
        }
    }

    /// by_distance[q][d] = the sum of weights[q][k] over the keys at distance d from q.
    pub(super) fn collect(
        &self,
        block: &Block<'_>,
        offset: usize,
        weights: &[f32],
        by_distance: &mut Vec<f32>,
    ) {
        let n = self.n_distances();
        by_distance.clear();
        by_distance.resize(block.queries.count * n, 0.0);
        let rows = block.queries().zip(by_distance.chunks_exact_mut(n));
        for ((query, by_distance), weights) in rows.zip(weights.chunks_exact(block.n_keys)) {
            for (column, key) in block.keys_by_column() {
                by_distance[self.row(query + offset, key)] += weights[column];
            }
        }
    }
}
