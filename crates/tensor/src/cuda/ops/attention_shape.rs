//! Choice of the attention kernel, its grid and its shared memory.
//!
//! The sizes are those of `attention_*.cu`: a warp has 16 queries or keys in bf16, 8 or 4 in f32; tiles of heads are
//! padded to 32, 64, 128 or 256 columns, and their rows to avoid bank conflicts.

use crate::cuda::ElementType;
use crate::ops::attention::AttentionPlan;

/// Columns of the widest head.
pub(super) const MAX_HEAD: usize = 256;

/// Maximum number of queries and keys for which the backward pass is one kernel.
const SHORT: usize = 64;

/// Queries per tile of the kernel for dK and dV, and bytes of its state per tile: four words per query.
const TILE_QUERIES: usize = 32;
const KNOWN: usize = 16 * TILE_QUERIES;

/// Keys, or queries, per tile in f32.
const TILE_F32: usize = 32;

/// Bytes of the bits that a warp draws at once, and padding that may be read past the last.
const DRAWN: usize = 32;
const SPARE: usize = 16;

/// A kernel and its launch configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AttentionKernel {
    pub(super) file: &'static str,
    pub(super) name: String,
    pub(super) grid: [usize; 3],
    pub(super) block: usize,
    pub(super) shared: usize,
}

/// The sizes that determine the kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionShape {
    batch: usize,
    n_heads: usize,
    n_key_heads: usize,
    q_len: usize,
    k_len: usize,
    /// Columns of a tile.
    columns: usize,
    is_bf16: bool,
}

impl AttentionShape {
    pub(super) fn new(plan: &AttentionPlan, dtype: ElementType) -> Self {
        let widest = plan.sides[1].d_head.max(plan.sides[2].d_head);
        Self {
            batch: plan.batch,
            n_heads: plan.n_heads,
            n_key_heads: plan.n_key_heads,
            q_len: plan.q_len,
            k_len: plan.k_len,
            columns: widest.next_power_of_two().max(32),
            is_bf16: dtype == ElementType::Bf16,
        }
    }

    /// True if the backward pass is one kernel.
    pub(super) fn is_short(self) -> bool {
        self.is_bf16 && self.q_len.max(self.k_len) <= SHORT && self.columns <= 128
    }

    pub(super) fn forward(self) -> AttentionKernel {
        let rows = self.rows(self.q_len);
        let grid = [self.batch * self.n_heads, self.q_len.div_ceil(rows), 1];
        if !self.is_bf16 {
            return self.f32("attention_forward_f32", grid, rows, [1, self.bits(rows, TILE_F32)]);
        }
        let keys = if self.k_len <= 32 || self.columns == 256 { 32 } else { 64 };
        let name = format!("attention_forward_bf16_{}_{keys}", self.columns);
        let shared = self.tile(2 * keys + rows) + self.bits(rows, keys);
        AttentionKernel { file: "attention_forward", name, grid, block: rows * 2, shared }
    }

    /// Backward pass of short sequences.
    pub(super) fn backward(self) -> AttentionKernel {
        let is_grouped = self.n_heads != self.n_key_heads;
        let keys = if self.k_len <= 32 && self.columns < 128 && !is_grouped { 32 } else { 64 };
        let rows = self.q_len.next_multiple_of(16);
        let kind = if is_grouped { "_grouped" } else { "" };
        // Weights and their gradients, queries × keys.
        let weights = 2 * rows * (keys + 8) * 2;
        AttentionKernel {
            file: "attention_backward",
            name: format!("attention_backward{kind}_bf16_{}_{keys}", self.columns),
            grid: [self.batch * self.n_key_heads, 1, 1],
            block: 32 * self.q_len.max(self.k_len).div_ceil(16).max(1),
            shared: self.tile(2 * keys + 2 * rows) + weights + self.bits(rows, keys),
        }
    }

    /// Backward pass of long sequences: dQ and rowsum(dO ∘ O).
    pub(super) fn queries_backward(self) -> AttentionKernel {
        let rows = self.rows(self.q_len);
        let grid = [self.batch * self.n_heads, self.q_len.div_ceil(rows), 1];
        if !self.is_bf16 {
            return self.f32("attention_queries_f32", grid, rows, [2, self.bits(rows, TILE_F32)]);
        }
        let keys = if self.columns <= 64 { 64 } else { 32 };
        AttentionKernel {
            file: "attention_backward_long",
            name: format!("attention_queries_bf16_{}", self.columns),
            grid,
            block: rows * 2,
            shared: self.tile(2 * keys + 2 * rows) + self.bits(rows, keys),
        }
    }

    /// Backward pass of long sequences: dK and dV, after the queries.
    pub(super) fn keys_backward(self) -> AttentionKernel {
        let rows = self.rows(self.k_len);
        let grid = [self.batch * self.n_key_heads, self.k_len.div_ceil(rows), 1];
        if !self.is_bf16 {
            return self.f32("attention_keys_f32", grid, rows, [2, self.bits(TILE_F32, rows)]);
        }
        AttentionKernel {
            file: "attention_backward_long",
            name: format!("attention_keys_bf16_{}", self.columns),
            // Sums of more than 128 columns do not fit into registers.
            grid: [grid[0], grid[1], self.columns.div_ceil(128)],
            block: rows * 2,
            shared: self.tile(2 * TILE_QUERIES + 2 * rows) + KNOWN + self.bits(TILE_QUERIES, rows),
        }
    }

    /// Queries or keys per warp.
    fn of_warp(self) -> usize {
        match (self.is_bf16, self.columns) {
            (true, _) => 16,
            (false, 256) => 4,
            (false, _) => 8,
        }
    }

    /// Queries or keys per block out of `len`: up to four warps, fewer if tiles are wide.
    fn rows(self, len: usize) -> usize {
        let warps = if self.columns == 256 { 2 } else { 4 };
        self.of_warp() * len.div_ceil(self.of_warp()).clamp(1, warps)
    }

    /// Bytes of a bf16 tile.
    fn tile(self, rows: usize) -> usize {
        rows * (self.columns + 8) * 2
    }

    /// Bytes of the dropout bits of `rows` queries. If a block covers all keys, they follow each other without gaps.
    fn bits(self, rows: usize, keys: usize) -> usize {
        let draws = if self.k_len <= keys { (127 + rows * self.k_len).div_ceil(256) } else { rows };
        draws * DRAWN + SPARE
    }

    /// A kernel in f32 with `own` tiles of the block's rows, two of the other side, and room for the weights.
    fn f32(self, name: &str, grid: [usize; 3], rows: usize, [own, bits]: [usize; 2]) -> AttentionKernel {
        let tiles = (2 * TILE_F32 + own * rows) * (self.columns + 4) * 4;
        AttentionKernel {
            file: "attention_f32",
            name: format!("{name}_{}", self.columns),
            grid,
            block: 32 * rows / self.of_warp(),
            shared: tiles + rows * TILE_F32 * 4 + bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(q_len: usize, k_len: usize, columns: usize) -> AttentionShape {
        AttentionShape { batch: 256, n_heads: 8, n_key_heads: 8, q_len, k_len, columns, is_bf16: true }
    }

    #[test]
    fn short_sequences_take_one_block_a_head() {
        let shape = shape(32, 32, 64);
        assert!(shape.is_short());
        let name = "attention_forward_bf16_64_32".into();
        let forward = AttentionKernel {
            file: "attention_forward",
            name,
            grid: [2048, 1, 1],
            block: 64,
            shared: 14_000,
        };
        assert_eq!(shape.forward(), forward);
        let name = "attention_backward_bf16_64_32".into();
        let backward = AttentionKernel {
            file: "attention_backward",
            name,
            grid: [2048, 1, 1],
            block: 64,
            shared: 23_728,
        };
        assert_eq!(shape.backward(), backward);
    }

    #[test]
    fn every_kernel_fits_into_the_shared_memory_of_small_gpus() {
        for columns in [32, 64, 128, 256] {
            for is_bf16 in [true, false] {
                for len in [1, 17, 32, 64, 65, 5000] {
                    let shape = AttentionShape { is_bf16, ..shape(len, len, columns) };
                    let mut kernels = vec![shape.forward(), shape.queries_backward(), shape.keys_backward()];
                    if shape.is_short() {
                        kernels.push(shape.backward());
                    }
                    for kernel in kernels {
                        assert!(kernel.shared <= 99 << 10, "{kernel:?}");
                        assert!((32..=128).contains(&kernel.block), "{kernel:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn empty_shapes_are_valid() {
        assert_eq!(shape(0, 5, 64).forward().grid, [2048, 0, 1]);
        assert_eq!(shape(0, 5, 64).backward().block, 32);
        assert_eq!(shape(0, 0, 64).keys_backward().grid, [2048, 0, 1]);
    }
}
