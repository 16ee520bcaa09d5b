//! AVX-512 kernel: tiles of 14 × 32 in 28 of the 32 vector registers.

use std::arch::x86_64::{
    __m512, __mmask16, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps, _mm512_loadu_ps,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4,
    _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

use super::kernel::Tile;

pub(super) const TILE_ROWS: usize = 14;
pub(super) const PANEL_COLS: usize = 32;
const LANES: usize = 16;

/// Multiplies one tile.
///
/// # Safety
/// The CPU has AVX-512F; `tile.c` points to rows × cols writable values that nobody else accesses.
pub(super) unsafe fn multiply(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees it.
    unsafe { if tile.cols > LANES { multiply_wide::<2>(tile) } else { multiply_wide::<1>(tile) } }
}

/// Multiplies a tile of up to `VECTORS` vectors per row.
///
/// # Safety
/// As [`multiply`], with `VECTORS` · `LANES` ≥ `tile.cols`.
unsafe fn multiply_wide<const VECTORS: usize>(tile: &Tile<'_>) {
    // SAFETY: the caller guarantees it.
    unsafe {
        match tile.rows {
            1 => rows::<1, VECTORS>(tile),
            2 => rows::<2, VECTORS>(tile),
            3 => rows::<3, VECTORS>(tile),
            4 => rows::<4, VECTORS>(tile),
            5 => rows::<5, VECTORS>(tile),
            6 => rows::<6, VECTORS>(tile),
            7 => rows::<7, VECTORS>(tile),
            8 => rows::<8, VECTORS>(tile),
            9 => rows::<9, VECTORS>(tile),
            10 => rows::<10, VECTORS>(tile),
            11 => rows::<11, VECTORS>(tile),
            12 => rows::<12, VECTORS>(tile),
            13 => rows::<13, VECTORS>(tile),
            _ => rows::<14, VECTORS>(tile),
        }
    }
}

/// Multiplies a tile of `ROWS` rows.
///
/// # Safety
/// As [`multiply_wide`], with `ROWS` = `tile.rows`.
#[target_feature(enable = "avx512f")]
unsafe fn rows<const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>) {
    let masks = masks(tile.cols);
    // SAFETY: the masks keep loads and stores inside the tile; A holds ROWS values every a_stride for each depth, B
    // depth × PANEL_COLS.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
        if tile.continues {
            for (row, sums) in sums.iter_mut().enumerate() {
                let c = tile.c.add(row * tile.row_stride);
                for (vector, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm512_maskz_loadu_ps(masks[vector], c.wrapping_add(vector * LANES));
                }
            }
        }
        let depth = tile.b.len() / PANEL_COLS;
        let (mut a, mut b) = (tile.a.as_ptr(), tile.b.as_ptr());
        for _ in 0..depth {
            let mut across = [_mm512_setzero_ps(); VECTORS];
            for (vector, across) in across.iter_mut().enumerate() {
                *across = _mm512_loadu_ps(b.add(vector * LANES));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let a = _mm512_set1_ps(*a.add(row));
                for (sum, across) in sums.iter_mut().zip(across) {
                    *sum = _mm512_fmadd_ps(a, across, *sum);
                }
            }
            a = a.wrapping_add(tile.a_stride);
            b = b.add(PANEL_COLS);
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = tile.c.add(row * tile.row_stride);
            for (vector, &sum) in sums.iter().enumerate() {
                _mm512_mask_storeu_ps(c.wrapping_add(vector * LANES), masks[vector], sum);
            }
        }
    }
}

/// Masks of the existing columns in the two vectors of a row.
fn masks(cols: usize) -> [__mmask16; 2] {
    let mask = |cols: usize| if cols >= LANES { __mmask16::MAX } else { (1 << cols) - 1 };
    [mask(cols), mask(cols.saturating_sub(LANES))]
}

/// Packs a tile of contiguous rows of A: `rows[i][depth]` goes to `out[depth][i]`; missing rows become zeros.
///
/// # Safety
/// The CPU has AVX-512F; every row is as long as `out`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn transpose(rows: &[&[f32]], out: &mut [[f32; TILE_ROWS]]) {
    for (start, out) in (0..).step_by(LANES).zip(out.chunks_mut(LANES)) {
        let depths = masks(out.len())[0];
        let mut block = [_mm512_setzero_ps(); LANES];
        for (vector, row) in block.iter_mut().zip(rows) {
            // SAFETY: the mask keeps the load inside the row.
            *vector = unsafe { _mm512_maskz_loadu_ps(depths, row.as_ptr().add(start)) };
        }
        for (out, column) in out.iter_mut().zip(transposed(&block)) {
            // SAFETY: the mask keeps the store inside the tile's row.
            unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), (1 << TILE_ROWS) - 1, column) };
        }
    }
}

/// Packs a panel of contiguous columns of B: `cols[j][depth]` goes to `out[depth][j]`; missing columns become zeros.
///
/// # Safety
/// The CPU has AVX-512F; every column is as long as `out`.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn transpose_panel(cols: &[&[f32]], out: &mut [[f32; PANEL_COLS]]) {
    for (start, out) in (0..).step_by(LANES).zip(out.chunks_mut(LANES)) {
        let depths = masks(out.len())[0];
        for first in [0, LANES] {
            let mut block = [_mm512_setzero_ps(); LANES];
            for (vector, col) in block.iter_mut().zip(cols.iter().skip(first)) {
                // SAFETY: the mask keeps the load inside the column.
                *vector = unsafe { _mm512_maskz_loadu_ps(depths, col.as_ptr().add(start)) };
            }
            for (out, row) in out.iter_mut().zip(transposed(&block)) {
                // SAFETY: `first` is 0 or LANES, and half a row of the panel has LANES values.
                unsafe { _mm512_mask_storeu_ps(out[first..].as_mut_ptr(), __mmask16::MAX, row) };
            }
        }
    }
}

/// The transpose of sixteen vectors: swaps pairs, then fours, then quarters of vectors.
#[target_feature(enable = "avx512f")]
fn transposed(rows: &[__m512; LANES]) -> [__m512; LANES] {
    let mut pairs = *rows;
    for i in (0..LANES).step_by(2) {
        pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    // fours[4g + c] holds, in quarter q, column 4q + c of rows 4g to 4g + 3.
    let mut fours = pairs;
    for g in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| _mm512_castps_pd(pairs[4 * g + i]));
        fours[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        fours[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        fours[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        fours[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    let mut out = fours;
    for c in 0..4 {
        let low = _mm512_shuffle_f32x4::<0x88>(fours[c], fours[4 + c]);
        let high = _mm512_shuffle_f32x4::<0xdd>(fours[c], fours[4 + c]);
        let low_next = _mm512_shuffle_f32x4::<0x88>(fours[8 + c], fours[12 + c]);
        let high_next = _mm512_shuffle_f32x4::<0xdd>(fours[8 + c], fours[12 + c]);
        out[c] = _mm512_shuffle_f32x4::<0x88>(low, low_next);
        out[4 + c] = _mm512_shuffle_f32x4::<0x88>(high, high_next);
        out[8 + c] = _mm512_shuffle_f32x4::<0xdd>(low, low_next);
        out[12 + c] = _mm512_shuffle_f32x4::<0xdd>(high, high_next);
    }
    out
}
