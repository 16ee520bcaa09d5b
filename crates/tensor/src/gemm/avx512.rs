//! Tiles of 14 × 32 in 28 of the 32 vector registers of AVX-512.

use std::arch::x86_64::{
    __mmask16, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_set1_ps, _mm512_setzero_ps,
};

use super::kernel::Tile;

pub(super) const TILE_ROWS: usize = 14;
pub(super) const PANEL_COLS: usize = 32;
const LANES: usize = 16;

/// Multiplies one tile.
///
/// # Safety
/// The machine has AVX-512F; `tile.c` points to rows × cols writable numbers that nobody else touches.
pub(super) unsafe fn multiply(tile: &Tile<'_>) {
    // SAFETY: promised by the caller.
    unsafe {
        match tile.rows {
            1 => rows::<1>(tile),
            2 => rows::<2>(tile),
            3 => rows::<3>(tile),
            4 => rows::<4>(tile),
            5 => rows::<5>(tile),
            6 => rows::<6>(tile),
            7 => rows::<7>(tile),
            8 => rows::<8>(tile),
            9 => rows::<9>(tile),
            10 => rows::<10>(tile),
            11 => rows::<11>(tile),
            12 => rows::<12>(tile),
            13 => rows::<13>(tile),
            _ => rows::<14>(tile),
        }
    }
}

/// # Safety
/// As [`multiply`], with `ROWS` = `tile.rows`.
#[target_feature(enable = "avx512f")]
unsafe fn rows<const ROWS: usize>(tile: &Tile<'_>) {
    let masks = masks(tile.cols);
    // SAFETY: the masks keep loads and stores inside the tile; a and b hold depth × TILE_ROWS and depth × PANEL_COLS.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        if tile.continues {
            for (row, sums) in sums.iter_mut().enumerate() {
                let c = tile.c.add(row * tile.row_stride);
                *sums = [
                    _mm512_maskz_loadu_ps(masks[0], c),
                    _mm512_maskz_loadu_ps(masks[1], c.wrapping_add(LANES)),
                ];
            }
        }
        let depth = tile.b.len() / PANEL_COLS;
        let (mut a, mut b) = (tile.a.as_ptr(), tile.b.as_ptr());
        for _ in 0..depth {
            let (left, right) = (_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(LANES)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = _mm512_set1_ps(*a.add(row));
                sums[0] = _mm512_fmadd_ps(a, left, sums[0]);
                sums[1] = _mm512_fmadd_ps(a, right, sums[1]);
            }
            a = a.add(TILE_ROWS);
            b = b.add(PANEL_COLS);
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = tile.c.add(row * tile.row_stride);
            _mm512_mask_storeu_ps(c, masks[0], sums[0]);
            _mm512_mask_storeu_ps(c.wrapping_add(LANES), masks[1], sums[1]);
        }
    }
}

/// Which lanes of the two vectors of a row exist.
fn masks(cols: usize) -> [__mmask16; 2] {
    let mask = |cols: usize| if cols >= LANES { __mmask16::MAX } else { (1 << cols) - 1 };
    [mask(cols), mask(cols.saturating_sub(LANES))]
}
