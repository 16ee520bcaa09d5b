//! Principal components by orthogonal iteration on the covariance matrix XᵀX, or, of fewer rows than dimensions, on the Gram
//! matrix XXᵀ: for its eigenvector u with eigenvalue λ, the direction is Xᵀu/√λ and the coordinates are √λ·u.

use polyhead_random::Random;
use rayon::prelude::*;

/// Iterations; directions converge by the ratio of neighbouring variances in each.
const ITERATIONS: usize = 60;

/// Coordinates of each row on the `n` directions of greatest variance, at most as many as a row has numbers: rows × n.
///
/// Signs are chosen so that the largest number of each direction is positive.
pub fn principal_components(rows: &[f32], dimensions: usize, n: usize) -> Vec<f64> {
    let n = n.min(dimensions);
    let n_rows = rows.len() / dimensions.max(1);
    let mut mean = vec![0.0; dimensions];
    for row in rows.chunks_exact(dimensions) {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += f64::from(*x) / n_rows as f64);
    }
    let centred: Vec<f64> = rows
        .chunks_exact(dimensions)
        .flat_map(|row| row.iter().zip(&mean).map(|(x, mean)| f64::from(*x) - mean))
        .collect();
    let mut directions = if n_rows < dimensions {
        directions_by_rows(&centred, dimensions, n)
    } else {
        orthogonal_iteration(&covariance(&centred, dimensions), dimensions, n)
    };
    for direction in &mut directions {
        let largest = direction.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        if largest < 0.0 {
            for x in direction.iter_mut() {
                *x = -*x;
            }
        }
    }
    centred
        .chunks_exact(dimensions)
        .flat_map(|row| directions.iter().map(|direction| dot(row, direction)).collect::<Vec<f64>>())
        .collect()
}

fn covariance(centred: &[f64], dimensions: usize) -> Vec<f64> {
    (0..dimensions)
        .into_par_iter()
        .flat_map_iter(|i| {
            let mut row = vec![0.0; dimensions];
            for x in centred.chunks_exact(dimensions) {
                row.iter_mut().zip(x).for_each(|(sum, y)| *sum += x[i] * y);
            }
            row
        })
        .collect()
}

/// The `n` directions of greatest variance of fewer rows than dimensions.
fn directions_by_rows(centred: &[f64], dimensions: usize, n: usize) -> Vec<Vec<f64>> {
    let rows: Vec<&[f64]> = centred.chunks_exact(dimensions).collect();
    let gram: Vec<f64> = rows
        .par_iter()
        .flat_map_iter(|row| rows.iter().map(|other| dot(row, other)).collect::<Vec<f64>>())
        .collect();
    let found = orthogonal_iteration(&gram, rows.len(), n);
    let mut directions: Vec<Vec<f64>> = found
        .iter()
        .map(|weights| {
            let mut direction = vec![0.0; dimensions];
            for (weight, row) in weights.iter().zip(&rows) {
                direction.iter_mut().zip(*row).for_each(|(sum, x)| *sum += weight * x);
            }
            direction
        })
        .collect();
    orthogonalize(&mut directions);
    directions
}

/// The `n` leading eigenvectors of a symmetric matrix.
fn orthogonal_iteration(matrix: &[f64], size: usize, n: usize) -> Vec<Vec<f64>> {
    let random = Random::new(0x9ca);
    let start = |row: usize| (0..size).map(|at| random.uniform((row * size + at) as u64) - 0.5).collect();
    let mut directions: Vec<Vec<f64>> = (0..n).map(start).collect();
    for _ in 0..ITERATIONS {
        directions = directions
            .par_iter()
            .map(|direction| matrix.chunks_exact(size).map(|row| dot(row, direction)).collect())
            .collect();
        orthogonalize(&mut directions);
    }
    directions
}

/// Gram–Schmidt; a direction that vanishes stays zero.
fn orthogonalize(directions: &mut [Vec<f64>]) {
    for at in 0..directions.len() {
        let (before, rest) = directions.split_at_mut(at);
        let own = &mut rest[0];
        for other in before {
            let along = dot(own, other);
            own.iter_mut().zip(other).for_each(|(x, y)| *x -= along * *y);
        }
        let norm = dot(own, own).sqrt();
        let factor = if norm > 1e-12 { 1.0 / norm } else { 0.0 };
        for x in own.iter_mut() {
            *x *= factor;
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points on a line through space: one direction has all the variance.
    #[test]
    fn a_line_has_one_component() {
        let rows: Vec<f32> =
            (0..9).flat_map(|at| [1.0 + at as f32, 2.0 * at as f32, 3.0 - 2.0 * at as f32]).collect();
        let found = principal_components(&rows, 3, 2);
        for (at, pair) in found.chunks_exact(2).enumerate() {
            assert!((pair[0].abs() - 3.0 * (at as f64 - 4.0).abs()).abs() < 1e-9, "{pair:?}");
            assert!(pair[1].abs() < 1e-6);
        }
    }

    /// The same rows with columns of zeros, so that there are fewer rows than dimensions.
    #[test]
    fn few_rows_have_the_components_of_many() {
        let random = Random::new(5);
        let scale = [4.0, 2.0, 1.0];
        let rows: Vec<f32> =
            (0..24).map(|at| ((random.uniform(at as u64) - 0.5) * scale[at % 3]) as f32).collect();
        let wide: Vec<f32> =
            rows.chunks(3).flat_map(|row| row.iter().copied().chain([0.0; 9]).collect::<Vec<_>>()).collect();
        let (narrow, wide) = (principal_components(&rows, 3, 2), principal_components(&wide, 12, 2));
        for (a, b) in narrow.iter().zip(&wide) {
            assert!((a - b).abs() < 1e-6, "{narrow:?} {wide:?}");
        }
        // Fewer rows than components.
        assert_eq!(principal_components(&[1.0, 2.0, 3.0], 3, 2), [0.0, 0.0]);
    }
}
