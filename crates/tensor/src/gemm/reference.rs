//! Reference implementation: the sum as defined, one element after the other.

use super::Output;
use super::matrix::Matrix;

/// The result that [`gemm`](super::gemm) must equal to the bit. `c` is rows × cols, row-major.
pub fn gemm(c: &mut [f32], a: Matrix<'_>, b: Matrix<'_>, output: Output) {
    for row in 0..a.rows {
        for col in 0..b.cols {
            let c = &mut c[row * b.cols + col];
            let start = if output == Output::Accumulate { *c } else { 0.0 };
            *c = (0..a.cols).fold(start, |sum, k| a.get(row, k).mul_add(b.get(k, col), sum));
        }
    }
}
