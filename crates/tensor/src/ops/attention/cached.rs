//! Attention of one new query per row to the K/V cache, for decoding token by token.
//!
//! Every value is the same chain of operations as in [`super::attention`]: one query after the other gives the bits of
//! all at once.

use std::ops::Range;

use rayon::prelude::*;

use super::keys_values::{CacheShape, KeysValues, Slot, WIDTH};
use super::relative::Relative;
use super::rows::{VisibleColumns, scale, softmax};
use crate::error::shape;
use crate::lanes::{LANES, vectorised};
use crate::tensor::Tensor;
use crate::{Result, gemm};

/// Values that are mixed at once.
const VALUES: usize = 4 * LANES;
/// Multiply-adds from which several threads are used.
const PARALLEL_WORK: usize = 1 << 17;

/// One decoding step: the cache slot and the length of each row.
#[derive(Debug, Clone)]
pub struct CachedOptions<'a> {
    /// Heads of the query.
    pub n_heads: usize,
    /// Factor of the scores. Default: 1/√d_key.
    pub scale: Option<f32>,
    /// Cache slot of each row; several rows may share one.
    pub slots: &'a [usize],
    /// Number of valid positions of each row.
    pub lengths: &'a [usize],
    /// Visible positions of each row in ascending order. Default: all.
    pub seen: Option<&'a [Vec<Range<u32>>]>,
    /// Vectors of relative distances; the query is at the last position. Default: none.
    pub relative: Option<&'a Relative>,
}

/// Context of `query`, rows × (n_heads·d_key): rows × (n_heads·d_value).
///
/// # Errors
/// If the shapes do not fit together.
pub fn cached_attention(query: &Tensor, cache: &KeysValues, options: &CachedOptions<'_>) -> Result<Tensor> {
    let step = CachedStep::new(query, cache, options)?;
    let d_value = cache.shape().d_value;
    let mut out = Tensor::zeros(&[options.slots.len(), options.n_heads * d_value]);
    step.each_head(out.data_mut(), d_value, |index, weights, scratch, out| {
        step.weights(index, weights, scratch);
        step.mix(index, weights, out);
    });
    Ok(out)
}

/// The weights of [`cached_attention`]: rows × n_heads × the largest length.
///
/// # Errors
/// If the shapes do not fit together.
pub fn cached_weights(query: &Tensor, cache: &KeysValues, options: &CachedOptions<'_>) -> Result<Tensor> {
    let step = CachedStep::new(query, cache, options)?;
    let longest = options.lengths.iter().copied().max().unwrap_or(0);
    let mut out = Tensor::zeros(&[options.slots.len(), options.n_heads, longest]);
    step.each_head(out.data_mut(), longest, |index, weights, scratch, out| {
        step.weights(index, weights, scratch);
        out[..weights.len()].copy_from_slice(weights);
    });
    Ok(out)
}

struct CachedStep<'a> {
    query: &'a [f32],
    cache: &'a KeysValues,
    options: &'a CachedOptions<'a>,
    scale: f32,
}

impl<'a> CachedStep<'a> {
    fn new(query: &'a Tensor, cache: &'a KeysValues, options: &'a CachedOptions<'a>) -> Result<Self> {
        let CacheShape { n_heads, d_key, d_value } = cache.shape();
        let rows = options.slots.len();
        if query.shape() != [rows, options.n_heads * d_key] {
            let expected = format!("[{rows}, {}]", options.n_heads * d_key);
            return shape("cached attention", "query", query.shape(), expected);
        }
        if n_heads == 0 || !options.n_heads.is_multiple_of(n_heads) {
            return shape(
                "cached attention",
                "key heads",
                &[n_heads],
                format!("a divisor of {}", options.n_heads),
            );
        }
        let fits =
            |(slot, length): (&usize, &usize)| cache.slot(*slot).is_some_and(|slot| *length <= slot.capacity);
        if options.lengths.len() != rows || !options.slots.iter().zip(options.lengths).all(fits) {
            let expected = format!("{rows} of {} slots, and lengths inside of them", cache.n_slots());
            return shape("cached attention", "lengths", &[options.lengths.len()], expected);
        }
        if let Some(seen) = options.seen.filter(|seen| seen.len() != rows) {
            return shape("cached attention", "seen", &[seen.len()], format!("[{rows}]"));
        }
        if let Some(relative) = options.relative {
            relative.check(d_key, d_value)?;
        }
        let scale = options.scale.unwrap_or(1.0 / (d_key as f32).sqrt());
        Ok(Self { query: query.data(), cache, options, scale })
    }

    /// Runs `work` for every row and head on its part of `out`, of `width` values.
    fn each_head(
        &self,
        out: &mut [f32],
        width: usize,
        work: impl Fn(usize, &mut Vec<f32>, &mut Vec<f32>, &mut [f32]) + Sync,
    ) {
        let (width, CacheShape { d_key, d_value, .. }) = (width.max(1), self.cache.shape());
        let total = self.options.lengths.iter().sum::<usize>() * self.options.n_heads * (d_key + d_value);
        let work = |(index, out): (usize, &mut [f32])| {
            SCRATCH.with_borrow_mut(|[weights, scratch]| work(index, weights, scratch, out));
        };
        if total < PARALLEL_WORK || rayon::current_num_threads() == 1 {
            out.chunks_exact_mut(width).enumerate().for_each(work);
        } else {
            out.par_chunks_exact_mut(width).enumerate().for_each(work);
        }
    }

    /// The slot and the cached head of task `index`, and the row of the task.
    fn head(&self, index: usize) -> (&Slot, usize, usize) {
        let (row, head) = (index / self.options.n_heads, index % self.options.n_heads);
        let slot = self.cache.slot(self.options.slots[row]).expect("slots were checked");
        (slot, head / (self.options.n_heads / self.cache.shape().n_heads), row)
    }

    /// Weights of one row and head, 0 for positions that are not visible.
    fn weights(&self, index: usize, weights: &mut Vec<f32>, scratch: &mut Vec<f32>) {
        let d_key = self.cache.shape().d_key;
        let (slot, head, row) = self.head(index);
        let len = self.options.lengths[row];
        let query = &self.query[index * d_key..(index + 1) * d_key];
        weights.clear();
        weights.resize(len.next_multiple_of(WIDTH), 0.0);
        scores(weights, query, slot.keys(self.cache.shape(), head), slot.capacity);
        weights.truncate(len);
        if let Some(relative) = self.options.relative {
            let n = relative.n_distances();
            scratch.clear();
            scratch.resize(n, 0.0);
            let (query, table) = (gemm::Matrix::new(query, 1, d_key), relative.keys.value().data());
            let mut by_distance = gemm::MatrixMut::new(scratch, 1, n);
            let table = gemm::Matrix::new(table, n, d_key);
            gemm::gemm_serial(&mut by_distance, query, table.t(), gemm::Output::Overwrite);
            for (key, score) in weights.iter_mut().enumerate() {
                *score += scratch[relative.row(len - 1, key)];
            }
        }
        scale(weights, self.scale);
        let seen = self
            .options
            .seen
            .map_or(VisibleColumns::One(0, len), |seen| VisibleColumns::Several(&seen[row], len));
        softmax(weights, seen, scratch);
    }

    /// Adds the values weighted with `weights` to `out`.
    fn mix(&self, index: usize, weights: &[f32], out: &mut [f32]) {
        let (slot, head, _) = self.head(index);
        add_rows(out, weights, slot.values(self.cache.shape(), head));
        let relative = self.options.relative.and_then(|relative| Some((relative, relative.values.as_ref()?)));
        if let (Some((relative, table)), len @ 1..) = (relative, weights.len()) {
            let mut by_distance = vec![0.0; relative.n_distances()];
            for (key, weight) in weights.iter().enumerate() {
                by_distance[relative.row(len - 1, key)] += weight;
            }
            add_rows(out, &by_distance, table.value().data());
        }
    }
}

thread_local! {
    /// Each thread's row of weights and a spare one.
    static SCRATCH: std::cell::RefCell<[Vec<f32>; 2]> = const { std::cell::RefCell::new([Vec::new(), Vec::new()]) };
}

vectorised! {
    /// scores[p] = Σ over d of query[d]·keys[d][p], one chain of fused operations for each position.
    fn scores(scores: &mut [f32], query: &[f32], keys: &[f32], capacity: usize) {
        for (index, scores) in scores.chunks_exact_mut(WIDTH).enumerate() {
            let mut sums = [0.0_f32; WIDTH];
            for (&number, row) in query.iter().zip(keys.chunks_exact(capacity)) {
                let Some(row) = row[index * WIDTH..].first_chunk::<WIDTH>() else { break };
                for lane in 0..WIDTH {
                    sums[lane] = number.mul_add(row[lane], sums[lane]);
                }
            }
            scores.copy_from_slice(&sums);
        }
    }
}

vectorised! {
    /// out[d] ← out[d] + Σ over p of weights[p]·rows[p][d], one chain of fused operations for each number.
    fn add_rows(out: &mut [f32], weights: &[f32], rows: &[f32]) {
        let width = out.len();
        let (blocks, rest) = out.as_chunks_mut::<VALUES>();
        // Sums stay in registers during the loop over positions.
        for (block, out) in blocks.iter_mut().enumerate() {
            let mut sums = *out;
            for (&weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
                let Some(row) = row[block * VALUES..].first_chunk::<VALUES>() else { break };
                for lane in 0..VALUES {
                    sums[lane] = weight.mul_add(row[lane], sums[lane]);
                }
            }
            *out = sums;
        }
        let done = width - rest.len();
        for (&weight, row) in weights.iter().zip(rows.chunks_exact(width)) {
            for (sum, number) in rest.iter_mut().zip(&row[done..]) {
                *sum = weight.mul_add(*number, *sum);
            }
        }
    }
}
