//! AVX2 kernel: tiles of 6 × 16 in 12 of the 16 vector registers.

use std::arch::x86_64::{
    __m256, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::kernel::Tile;

pub(super) const TILE_ROWS: usize = 6;
pub(super) const PANEL_COLS: usize = 16;
const LANES: usize = 8;

/// Multiplies one tile.
///
/// # Safety
/// The CPU has AVX2 and FMA; `tile.c` points to rows × cols writable values that nobody else accesses.
pub(super) unsafe fn multiply(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees it.
    unsafe {
        match tile.rows {
            1 => rows::<1>(tile),
            2 => rows::<2>(tile),
            3 => rows::<3>(tile),
            4 => rows::<4>(tile),
            5 => rows::<5>(tile),
            _ => rows::<6>(tile),
        }
    }
}

/// Multiplies a tile of `ROWS` rows.
///
/// # Safety
/// As [`multiply`], with `ROWS` = `tile.rows`.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const ROWS: usize>(tile: &Tile<'_>) {
    // SAFETY: partial rows of C go through a buffer; A holds ROWS values every a_stride for each depth, B depth ×
    // PANEL_COLS.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        if tile.continues {
            for (row, sums) in sums.iter_mut().enumerate() {
                *sums = load(tile.c.add(row * tile.row_stride), tile.cols);
            }
        }
        let depth = tile.b.len() / PANEL_COLS;
        let (mut a, mut b) = (tile.a.as_ptr(), tile.b.as_ptr());
        for _ in 0..depth {
            let (left, right) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(LANES)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = _mm256_broadcast_ss(&*a.add(row));
                sums[0] = _mm256_fmadd_ps(a, left, sums[0]);
                sums[1] = _mm256_fmadd_ps(a, right, sums[1]);
            }
            a = a.wrapping_add(tile.a_stride);
            b = b.add(PANEL_COLS);
        }
        for (row, sums) in sums.iter().enumerate() {
            store(tile.c.add(row * tile.row_stride), tile.cols, *sums);
        }
    }
}

/// Loads up to `PANEL_COLS` values of a row of C; zeros beyond.
///
/// # Safety
/// `cols` values can be read at `c`.
#[target_feature(enable = "avx2,fma")]
unsafe fn load(c: *const f32, cols: usize) -> [__m256; 2] {
    let mut row = [0.0; PANEL_COLS];
    // SAFETY: the caller guarantees that `c` is readable; the buffer holds a whole row.
    unsafe {
        std::ptr::copy_nonoverlapping(c, row.as_mut_ptr(), cols.min(PANEL_COLS));
        [_mm256_loadu_ps(row.as_ptr()), _mm256_loadu_ps(row.as_ptr().add(LANES))]
    }
}

/// Stores up to `PANEL_COLS` values of a row of C.
///
/// # Safety
/// `cols` values can be written at `c`.
#[target_feature(enable = "avx2,fma")]
unsafe fn store(c: *mut f32, cols: usize, sums: [__m256; 2]) {
    let mut row = [0.0; PANEL_COLS];
    // SAFETY: the caller guarantees that `c` is writable; the buffer holds a whole row.
    unsafe {
        _mm256_storeu_ps(row.as_mut_ptr(), sums[0]);
        _mm256_storeu_ps(row.as_mut_ptr().add(LANES), sums[1]);
        std::ptr::copy_nonoverlapping(row.as_ptr(), c, cols.min(PANEL_COLS));
    }
}
