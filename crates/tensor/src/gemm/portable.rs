//! Portable kernel in plain Rust, for machines without supported vector instructions.

use super::kernel::Tile;

pub(super) const TILE_ROWS: usize = 4;
pub(super) const PANEL_COLS: usize = 16;

/// Multiplies one tile.
///
/// # Safety
/// `tile.c` points to rows × cols writable values that nobody else accesses.
pub(super) unsafe fn multiply(tile: &Tile<'_>) {
    for row in 0..tile.rows {
        // SAFETY: the caller guarantees that the row is writable and not shared.
        let c = unsafe { std::slice::from_raw_parts_mut(tile.c.add(row * tile.row_stride), tile.cols) };
        let mut sums = [0.0_f32; PANEL_COLS];
        if tile.continues {
            sums[..tile.cols].copy_from_slice(c);
        }
        for (depth, b) in tile.b.chunks_exact(PANEL_COLS).enumerate() {
            let a = tile.a[depth * tile.a_stride + row];
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = a.mul_add(b, *sum);
            }
        }
        c.copy_from_slice(&sums[..tile.cols]);
    }
}
