//! Choice of the tiled attention kernels of long sequences, their grids and shared memory.
//!
//! The sizes are those of `attention_tiled_*.cu` and `attention_hopper_*.cu`. There a warp has 32 queries or keys (16 if
//! heads have 128 columns), and tiles of the other side are 64 (or 32) long and stored twice; here a warpgroup has 64, and
//! a ring has three tiles of 64, or four if warpgroups share it.

use super::attention_shape::AttentionKernel;
use crate::cuda::{Array, Cuda, ElementType};
use crate::ops::attention::{AttentionKernels, AttentionOptions, Columns, Direction};

/// Columns of the widest head.
const MAX_HEAD: usize = 128;

/// Least number of queries and of keys: for less, one block of the other kernels holds all keys.
const LONG: usize = 65;

/// Maximum bytes of the dropout bits of one attention, which are drawn before it.
const MAX_BITS: usize = 1 << 30;

/// Keys, or queries, per tile of a ring, and bytes of its barriers.
const RING_TILE: usize = 64;
const BARRIERS: usize = 64;

/// Bytes of logsumexp and rowsum(dO ∘ O), in f32, of one query.
const KNOWN: usize = 2 * 4;

/// Keys on a side without a limit; positions plus this fit into 32 bits.
const ALL: usize = 1 << 29;

/// The sizes that determine the tiled kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TiledShape {
    batch: usize,
    n_heads: usize,
    n_key_heads: usize,
    q_len: usize,
    k_len: usize,
    /// Columns of a tile.
    columns: usize,
    /// True for the kernels of Hopper GPUs.
    is_hopper: bool,
    /// Number of keys before and after a query's position that it attends to.
    pub(super) band: [usize; 2],
}

impl TiledShape {
    /// The tiled kernels for an attention; `None` if others compute it, or its shapes do not fit together.
    pub(super) fn new(
        inputs: &[Array; 3],
        sides: [Columns<'_>; 3],
        options: &AttentionOptions,
    ) -> Option<Self> {
        let (&[batch, q_len, _], &[_, k_len, _]) = (sides[0].var.shape(), sides[1].var.shape()) else {
            return None;
        };
        let (n_heads, n_key_heads) = (options.n_heads, options.n_key_heads.unwrap_or(options.n_heads));
        if n_heads == 0 || n_key_heads == 0 || !n_heads.is_multiple_of(n_key_heads) {
            return None;
        }
        let is_aligned = inputs.iter().zip(sides).all(|(array, side)| {
            let stride = side.var.shape().last().copied().unwrap_or(0);
            array.dtype() == ElementType::Bf16
                && array.pointer().is_multiple_of(16)
                && side.start.is_multiple_of(8)
                && stride.is_multiple_of(8)
        });
        let [d_key, d_value] = [sides[0].width / n_heads, sides[2].width / n_key_heads];
        let columns = d_key.max(d_value).next_power_of_two().max(32);
        let fits = columns <= MAX_HEAD && d_key.is_multiple_of(8) && d_value.is_multiple_of(8);
        let is_plain = options.bias.is_none() && options.relative.is_none();
        let drawn = if options.dropout > 0.0 { batch * n_heads * q_len * k_len / 8 } else { 0 };
        let cuda = inputs[0].cuda();
        let kernels = cuda.attention_kernels();
        let is_wanted = kernels != AttentionKernels::Untiled && q_len.min(k_len) >= LONG && drawn <= MAX_BITS;
        // A negative factor would turn the maximum of the scores into a minimum.
        let is_positive = options.scale.is_none_or(|scale| scale > 0.0);
        if !(is_aligned && fits && is_plain && is_wanted && is_positive) {
            return None;
        }
        let band = match (&options.pattern, options.direction) {
            (Some(pattern), Direction::Both) => pattern.band()?,
            (Some(_), Direction::Causal) => return None,
            (None, Direction::Causal) => [ALL, 0],
            (None, Direction::Both) => [ALL, ALL],
        };
        let is_hopper = kernels == AttentionKernels::Fastest && is_hopper(cuda) && columns >= 64;
        Some(Self { batch, n_heads, n_key_heads, q_len, k_len, columns, is_hopper, band })
    }

    pub(super) fn forward(self) -> AttentionKernel {
        let sizes = [self.n_heads, self.q_len];
        if self.is_hopper {
            let rows = if self.columns == 64 { 128 } else { 192 };
            return self.kernel("forward", sizes, rows, (rows + 2 * ring(rows), BARRIERS));
        }
        self.kernel("forward", sizes, self.rows(), (self.rows() + 4 * 64, 0))
    }

    /// Backward pass: dQ and rowsum(dO ∘ O).
    pub(super) fn queries_backward(self) -> AttentionKernel {
        let sizes = [self.n_heads, self.q_len];
        if self.is_hopper {
            let rows = if self.columns == 64 { 64 } else { 192 };
            return self.kernel("queries", sizes, rows, (2 * rows + 2 * ring(rows), BARRIERS));
        }
        self.kernel("queries", sizes, self.rows(), (self.overwritten(), 0))
    }

    /// Backward pass: dK and dV, after the queries.
    pub(super) fn keys_backward(self) -> AttentionKernel {
        let sizes = [self.n_key_heads, self.k_len];
        if self.is_hopper {
            let rows = if self.columns == 64 { 64 } else { 128 };
            return self.kernel(
                "keys",
                sizes,
                rows,
                (2 * rows + 2 * ring(rows), ring(rows) * KNOWN + BARRIERS),
            );
        }
        self.kernel("keys", sizes, self.rows(), (self.overwritten(), 2 * self.others() * KNOWN))
    }

    /// A kernel with `rows` queries or keys per block and shared memory for tiles of so many rows in total, and more
    /// bytes.
    fn kernel(
        self,
        name: &str,
        [heads, len]: [usize; 2],
        rows: usize,
        (tiles, more): (usize, usize),
    ) -> AttentionKernel {
        let pass = usize::from(name != "forward");
        let (files, kind, row_bytes, block) = if self.is_hopper {
            (["attention_hopper_forward", "attention_hopper_backward"], "hopper", 2 * self.columns, 2 * rows)
        } else {
            // Rows are padded by sixteen bytes.
            (["attention_tiled_forward", "attention_tiled_backward"], "tiled", 2 * self.columns + 16, 128)
        };
        AttentionKernel {
            file: files[pass],
            name: format!("attention_{kind}_{name}_{}", self.columns),
            grid: [self.batch * heads, len.div_ceil(rows), 1],
            block,
            shared: tiles * row_bytes + more,
        }
    }

    /// Queries or keys per block.
    fn rows(self) -> usize {
        if self.columns == 128 { 64 } else { 128 }
    }

    /// Rows of two tiles of a block's own side, which two tiles twice of the other side overwrite.
    fn overwritten(self) -> usize {
        (2 * self.rows()).max(4 * self.others())
    }

    /// Keys, or queries, per tile of the other side in the backward pass.
    fn others(self) -> usize {
        if self.columns == 128 { 32 } else { 64 }
    }
}

/// Keys, or queries, of a ring in blocks of `rows`, 64 per warpgroup.
fn ring(rows: usize) -> usize {
    RING_TILE * if rows == 64 { 3 } else { 4 }
}

/// True if the GPU has the instructions that the kernels for Hopper use; later GPUs have others.
fn is_hopper(cuda: &Cuda) -> bool {
    cuda.capability() == (9, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(columns: usize, is_hopper: bool) -> TiledShape {
        let band = [ALL, ALL];
        TiledShape { batch: 4, n_heads: 8, n_key_heads: 2, q_len: 1000, k_len: 700, columns, is_hopper, band }
    }

    #[test]
    fn every_kernel_fits_into_the_shared_memory_of_its_gpus() {
        for (columns, is_hopper, limit) in
            [(32, false, 99), (64, false, 99), (128, false, 99), (64, true, 227), (128, true, 227)]
        {
            let shape = shape(columns, is_hopper);
            for kernel in [shape.forward(), shape.queries_backward(), shape.keys_backward()] {
                assert!(kernel.shared <= limit << 10, "{kernel:?}");
                assert!(kernel.block.is_multiple_of(128) && kernel.block <= 384, "{kernel:?}");
            }
        }
    }

    #[test]
    fn blocks_cover_all_queries_and_keys() {
        let shape = shape(64, true);
        assert_eq!(shape.forward().grid, [32, 8, 1]);
        assert_eq!(shape.queries_backward().grid, [32, 16, 1]);
        assert_eq!(shape.keys_backward().grid, [8, 11, 1]);
        assert_eq!(shape.keys_backward().block, 128);
        assert_eq!(shape.forward().name, "attention_hopper_forward_64");
        assert_eq!(shape.keys_backward().file, "attention_hopper_backward");
    }
}
