//! Exact int8 products for one panel: Σ (a − 128)·b in 32 bits, with VNNI, with AVX2, and in portable code.
//!
//! VNNI multiplies u8 by i8, so it starts from −128 Σ b and adds Σ a·b. AVX2 multiplies |s|, s = a − 128, by b with the
//! sign of s: two such products fit 16 bits as long as b is not −128.

use super::super::matrix::Shared;
use super::{GROUP, PANEL_COLS, ZERO};
use crate::lanes::vectorised;
use crate::ops::activation::Activation;

/// sums[row][col] = Σ over k of (a[row][k] − 128)·b[k][col] for one panel; `offsets` are 128 Σ b of its columns.
pub(super) fn multiply(a: &[u8], b: &[i8], offsets: &[i32; PANEL_COLS], sums: &mut [[i32; PANEL_COLS]]) {
    #[cfg(target_arch = "x86_64")]
    match x86() {
        // SAFETY: `x86` has detected VNNI; a holds a row of whole groups for each of the sums.
        X86::Vnni => return unsafe { vnni_rows(a, b, offsets, sums) },
        // SAFETY: `x86` has detected AVX2; a holds a row of whole groups for each of the sums.
        X86::Avx2 => return unsafe { avx2_rows(a, b, sums) },
        X86::Neither => {}
    }
    plain(a, b, sums);
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum X86 {
    Vnni,
    Avx2,
    Neither,
}

#[cfg(target_arch = "x86_64")]
fn x86() -> X86 {
    use std::sync::OnceLock;

    use crate::isa::Isa;
    static BEST: OnceLock<X86> = OnceLock::new();
    *BEST.get_or_init(|| match Isa::best() {
        Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => X86::Vnni,
        Isa::Avx512 | Isa::Avx2 => X86::Avx2,
        Isa::Portable => X86::Neither,
    })
}

vectorised! {
    /// The reference implementation.
    fn plain(a: &[u8], b: &[i8], sums: &mut [[i32; PANEL_COLS]]) {
        let depth = b.len() / PANEL_COLS;
        for (row, sums) in a.chunks_exact(depth.max(1)).zip(sums) {
            *sums = [0; PANEL_COLS];
            for (a, b) in row.chunks_exact(GROUP).zip(b.chunks_exact(PANEL_COLS * GROUP)) {
                for col in 0..PANEL_COLS {
                    let mut sum = 0;
                    for k in 0..GROUP {
                        sum += (i32::from(a[k]) - i32::from(ZERO)) * i32::from(b[col * GROUP + k]);
                    }
                    sums[col] += sum;
                }
            }
        }
    }
}

/// Calls `$kernel` with the given number of rows, 1 to 8, as a constant.
#[cfg(target_arch = "x86_64")]
macro_rules! with_rows {
    ($rows:expr, $kernel:ident($($argument:expr),*)) => {
        match $rows {
            1 => $kernel::<1>($($argument),*),
            2 => $kernel::<2>($($argument),*),
            3 => $kernel::<3>($($argument),*),
            4 => $kernel::<4>($($argument),*),
            5 => $kernel::<5>($($argument),*),
            6 => $kernel::<6>($($argument),*),
            7 => $kernel::<7>($($argument),*),
            _ => $kernel::<8>($($argument),*),
        }
    };
}

/// Sums of up to 8 rows with VNNI.
///
/// # Safety
/// The CPU has AVX-512 VNNI; `a` holds as many rows as `sums`, with as many bytes as a column of `b`.
#[cfg(target_arch = "x86_64")]
unsafe fn vnni_rows(a: &[u8], b: &[i8], offsets: &[i32; PANEL_COLS], sums: &mut [[i32; PANEL_COLS]]) {
    // SAFETY: the caller guarantees it.
    unsafe { with_rows!(sums.len(), vnni(a, b, offsets, sums)) }
}

/// Computes a whole panel from int8 to f32 in registers: act(s_x s_w Σ (a − 128)·b + bias), for no activation or ReLU.
/// Returns false if this CPU or panel needs [`multiply`] and a separate dequantisation.
pub(super) fn multiply_and_scale(
    a: &[u8],
    b: &[i8],
    offsets: &[i32; PANEL_COLS],
    tile: &mut Int8Tile,
    finish: &Scales<'_>,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let (X86::Vnni, PANEL_COLS, Activation::None | Activation::Relu) =
        (x86(), tile.cols, finish.activation)
    {
        let (scales, _) = finish.columns.as_chunks::<PANEL_COLS>();
        // SAFETY: `x86` has detected VNNI; a tile has as many rows as scales.
        unsafe { with_rows!(finish.rows.len(), vnni_tile(a, b, offsets, tile, (finish, &scales[0]))) };
        return true;
    }
    let _ = (a, b, offsets, tile, finish);
    false
}

/// Scales, bias and activation that turn the sums of a tile into f32.
pub(super) struct Scales<'a> {
    /// Scales of its rows.
    pub(super) rows: &'a [f32],
    /// Scales of its columns.
    pub(super) columns: &'a [f32],
    /// Added to each column.
    pub(super) bias: &'a [f32; PANEL_COLS],
    /// Applied last.
    pub(super) activation: Activation,
}

/// Rows and columns of C in one tile.
pub(super) struct Int8Tile {
    start: *mut f32,
    row_stride: usize,
    pub(super) cols: usize,
}

impl Int8Tile {
    /// The tile of `cols` columns that begins at (`row`, `col`).
    ///
    /// # Safety
    /// The tile lies inside the matrix, and nobody else writes it.
    pub(super) unsafe fn at(target: Shared, [row, col]: [usize; 2], cols: usize) -> Self {
        // SAFETY: the caller guarantees that the tile lies inside the matrix.
        Self { start: unsafe { target.at(row, col) }, row_stride: target.row_stride, cols }
    }

    /// Row `row` of the tile.
    ///
    /// # Safety
    /// The row lies inside the tile.
    #[inline(always)]
    pub(super) unsafe fn row(&mut self, row: usize) -> &mut [f32] {
        // SAFETY: the caller guarantees that the row lies inside the tile.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.row_stride), self.cols) }
    }
}

/// Stores the sums of `ROWS` rows.
///
/// # Safety
/// As for `vnni_sums`; `sums` has `ROWS` rows.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn vnni<const ROWS: usize>(
    a: &[u8],
    b: &[i8],
    offsets: &[i32; PANEL_COLS],
    sums: &mut [[i32; PANEL_COLS]],
) {
    use std::arch::x86_64::_mm512_storeu_si512;
    // SAFETY: the caller guarantees the inputs; each row of `sums` has PANEL_COLS = 2 · 16 values.
    unsafe {
        for (sums, vectors) in sums.iter_mut().zip(vnni_sums::<ROWS>(a, b, offsets)) {
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), vectors[0]);
            _mm512_storeu_si512(sums.as_mut_ptr().add(16).cast(), vectors[1]);
        }
    }
}

/// Stores the dequantised values of `ROWS` rows.
///
/// # Safety
/// As for `vnni_sums`; the tile has `ROWS` rows of PANEL_COLS columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn vnni_tile<const ROWS: usize>(
    a: &[u8],
    b: &[i8],
    offsets: &[i32; PANEL_COLS],
    tile: &mut Int8Tile,
    (finish, scales): (&Scales<'_>, &[f32; PANEL_COLS]),
) {
    use std::arch::x86_64::{
        _CMP_LT_OQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_ps, _mm512_loadu_ps,
        _mm512_mask_mov_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    // SAFETY: the caller guarantees the inputs and the size of the tile.
    unsafe {
        let sums = vnni_sums::<ROWS>(a, b, offsets);
        let [scales, bias] = [scales, finish.bias]
            .map(|numbers| [_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers.as_ptr().add(16))]);
        let zero = _mm512_setzero_ps();
        for (row, sums) in sums.into_iter().enumerate() {
            let row_scale = _mm512_set1_ps(finish.rows[row]);
            let out = tile.row(row).as_mut_ptr();
            for half in 0..2 {
                // The same operations in the same order as in `scale_row`.
                let scaled =
                    _mm512_mul_ps(_mm512_cvtepi32_ps(sums[half]), _mm512_mul_ps(row_scale, scales[half]));
                let mut number = _mm512_add_ps(scaled, bias[half]);
                if finish.activation == Activation::Relu {
                    let negative = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(number, zero);
                    number = _mm512_mask_mov_ps(number, negative, zero);
                }
                _mm512_storeu_ps(out.add(16 * half), number);
            }
        }
    }
}

/// Sums of `ROWS` rows in registers.
///
/// # Safety
/// The CPU has AVX-512 VNNI; `a` holds `ROWS` rows with as many bytes as a column of `b`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
#[inline]
unsafe fn vnni_sums<const ROWS: usize>(
    a: &[u8],
    b: &[i8],
    offsets: &[i32; PANEL_COLS],
) -> [[std::arch::x86_64::__m512i; 2]; ROWS] {
    use std::arch::x86_64::{
        _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_sub_epi32,
    };
    let depth = b.len() / PANEL_COLS;
    // SAFETY: the caller guarantees the sizes; `group` stays below depth / GROUP.
    unsafe {
        let start = [0, 16].map(|col| {
            _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(offsets.as_ptr().add(col).cast()))
        });
        let mut vectors = [start; ROWS];
        for group in 0..depth / GROUP {
            let at = b.as_ptr().add(group * PANEL_COLS * GROUP);
            let (left, right) = (_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast()));
            for (row, vectors) in vectors.iter_mut().enumerate() {
                let four = a.as_ptr().add(row * depth + group * GROUP).cast::<i32>().read_unaligned();
                let four = _mm512_set1_epi32(four);
                vectors[0] = _mm512_dpbusd_epi32(vectors[0], four, left);
                vectors[1] = _mm512_dpbusd_epi32(vectors[1], four, right);
            }
        }
        vectors
    }
}

/// Sums of all rows with AVX2, two rows at a time.
///
/// # Safety
/// The CPU has AVX2; `a` holds as many rows as `sums`, with as many bytes as a column of `b`.
#[cfg(target_arch = "x86_64")]
unsafe fn avx2_rows(a: &[u8], b: &[i8], sums: &mut [[i32; PANEL_COLS]]) {
    let depth = b.len() / PANEL_COLS;
    let (pairs, last) = sums.as_chunks_mut::<2>();
    let done = 2 * pairs.len();
    // SAFETY: the caller guarantees it.
    unsafe {
        for (pair, sums) in pairs.iter_mut().enumerate() {
            avx2::<2>(&a[2 * pair * depth..], b, sums);
        }
        if !last.is_empty() {
            avx2::<1>(&a[done * depth..], b, last);
        }
    }
}

/// Sums of `ROWS` rows with AVX2.
///
/// # Safety
/// As for `avx2_rows`; `sums` has `ROWS` rows.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const ROWS: usize>(a: &[u8], b: &[i8], sums: &mut [[i32; PANEL_COLS]]) {
    use std::arch::x86_64::{
        _mm256_abs_epi8, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
        _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_sign_epi8,
        _mm256_storeu_si256, _mm256_xor_si256,
    };
    /// Columns of a vector.
    const COLS: usize = 8;
    let depth = b.len() / PANEL_COLS;
    let (ones, high) = (_mm256_set1_epi16(1), _mm256_set1_epi8(i8::MIN));
    let mut vectors = [[_mm256_setzero_si256(); PANEL_COLS / COLS]; ROWS];
    // SAFETY: the caller guarantees the sizes; `group` stays below depth / GROUP.
    unsafe {
        for group in 0..depth / GROUP {
            let at = b.as_ptr().add(group * PANEL_COLS * GROUP);
            let signed: [_; ROWS] = std::array::from_fn(|row| {
                let four = a.as_ptr().add(row * depth + group * GROUP).cast::<i32>().read_unaligned();
                // Flipping the highest bit subtracts 128.
                _mm256_xor_si256(_mm256_set1_epi32(four), high)
            });
            for part in 0..PANEL_COLS / COLS {
                let weights = _mm256_loadu_si256(at.add(part * COLS * GROUP).cast());
                for (vectors, &signed) in vectors.iter_mut().zip(&signed) {
                    let pairs =
                        _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(weights, signed));
                    vectors[part] = _mm256_add_epi32(vectors[part], _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        for (sums, vectors) in sums.iter_mut().zip(vectors) {
            for (part, vector) in vectors.into_iter().enumerate() {
                _mm256_storeu_si256(sums.as_mut_ptr().add(part * COLS).cast(), vector);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use polyhead_random::Random;

    use super::*;

    #[test]
    fn all_kernels_are_exact() {
        for (rows, depth) in [(1, 4), (3, 64), (8, 252)] {
            let random = Random::new(1).stream(depth as u64);
            // The outermost values are the likeliest to overflow.
            let a: Vec<u8> = (0..rows * depth).map(|i| [0, 255, random.u64(i as u64) as u8][i % 3]).collect();
            let b: Vec<i8> = (0..depth * PANEL_COLS)
                .map(|i| [127, -127, (random.u64(1_000_000 + i as u64) as i8).max(-127)][i / GROUP % 3])
                .collect();
            let byte =
                |k: usize, col: usize| i32::from(b[(k / GROUP * PANEL_COLS + col) * GROUP + k % GROUP]);
            let offsets = std::array::from_fn(|col| 128 * (0..depth).map(|k| byte(k, col)).sum::<i32>());
            let product = |row: usize, col: usize| {
                (0..depth).map(|k| (i32::from(a[row * depth + k]) - 128) * byte(k, col)).sum::<i32>()
            };
            let expected: Vec<[i32; PANEL_COLS]> =
                (0..rows).map(|row| std::array::from_fn(|col| product(row, col))).collect();
            let run = |kernel: &dyn Fn(&mut [[i32; PANEL_COLS]])| {
                let mut sums = vec![[0; PANEL_COLS]; rows];
                kernel(&mut sums);
                sums
            };
            assert_eq!(run(&|sums| multiply(&a, &b, &offsets, sums)), expected, "{rows} × {depth}");
            assert_eq!(run(&|sums| plain(&a, &b, sums)), expected, "plain, {rows} × {depth}");
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: AVX2 was just detected; a holds a row for each of the sums.
                let avx2 = run(&|sums| unsafe { avx2_rows(&a, &b, sums) });
                assert_eq!(avx2, expected, "AVX2, {rows} × {depth}");
            }
        }
    }
}
