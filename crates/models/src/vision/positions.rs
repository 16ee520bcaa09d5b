//! Learned positions of patches, interpolated for images of another size (Dosovitskiy et al. 2021, section 3.2).
//!
//! The positions of a grid are interpolated bicubically (Keys 1981 with a = −0.75, corners not aligned, edges repeated), as
//! PyTorch's `interpolate` does. Interpolation is linear in the table, so it is a product with a matrix of coefficients.

use polyhead_tensor::Tensor;

/// The parameter a of the cubic kernel.
const A: f64 = -0.75;

/// The matrix that maps the positions of a grid of `from` rows and columns to one of `to`: new × old positions.
pub(super) fn interpolation(from: [usize; 2], to: [usize; 2]) -> Tensor {
    let [rows, columns] = [0, 1].map(|axis| coefficients(from[axis], to[axis]));
    let (n_old, n_new) = (from[0] * from[1], to[0] * to[1]);
    let mut data = vec![0.0_f32; n_old * n_new];
    for (y, row) in rows.iter().enumerate() {
        for (x, column) in columns.iter().enumerate() {
            let out = &mut data[(y * to[1] + x) * n_old..][..n_old];
            for &(old_y, by_y) in row {
                for &(old_x, by_x) in column {
                    out[old_y * from[1] + old_x] += (by_y * by_x) as f32;
                }
            }
        }
    }
    Tensor::new(&[n_new, n_old], data)
}

/// For each new position along an axis the four old positions around it, with their coefficients.
fn coefficients(from: usize, to: usize) -> Vec<[(usize, f64); 4]> {
    let scale = from as f64 / to as f64;
    let at = |index: usize| {
        let place = (index as f64 + 0.5) * scale - 0.5;
        let first = place.floor();
        let share = place - first;
        let old = |offset: i64| (first as i64 + offset).clamp(0, from as i64 - 1) as usize;
        [-1, 0, 1, 2].map(|offset| (old(offset), cubic((share - offset as f64).abs())))
    };
    (0..to).map(at).collect()
}

/// The cubic kernel at a distance.
fn cubic(x: f64) -> f64 {
    if x <= 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_of_the_same_size_stays_and_coefficients_sum_to_one() {
        let same = interpolation([2, 3], [2, 3]);
        for (index, row) in same.data().chunks_exact(6).enumerate() {
            assert!((0..6).all(|at| row[at] == f32::from(u8::from(at == index))), "{row:?}");
        }
        let larger = interpolation([2, 3], [5, 4]);
        assert_eq!(larger.shape(), [20, 6]);
        assert!(larger.data().chunks_exact(6).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6));
    }

    #[test]
    fn doubling_a_row_gives_the_numbers_of_the_cubic_kernel() {
        // Position 1 of 4 lies at 0.25 between old positions 0 and 1: w(0.25), w(0.75), and the edges repeated.
        let found = interpolation([1, 2], [1, 4]);
        let left = cubic(1.25) + cubic(0.25);
        assert!((f64::from(found.data()[2]) - left).abs() < 1e-7, "{:?}", found.data());
        assert!((left - 0.773_437_5).abs() < 1e-12, "{left}");
    }
}
