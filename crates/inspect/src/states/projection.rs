//! Vectors in the plane: principal components of each layer, turned to match the layer before, and cosines of all pairs.
//!
//! Principal components are unique up to mirroring, and components of similar variance up to rotation. So that a layer can be
//! compared with the one before it, its points are turned and mirrored (orthogonal Procrustes analysis, Schönemann 1966), which
//! changes no distance.

use polyhead_words::vectors::map::principal_components;

use crate::embeddings::cosine;
use crate::matrix::Matrix;

/// Points of one layer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Projection {
    /// A point for each vector.
    pub places: Vec<[f64; 2]>,
    /// Share of the variance that the two components have, from 0 to 1.
    pub variance: f64,
}

/// Projects the vectors of a layer; `before` are the points of the layer before it.
pub fn projection(vectors: &Matrix, before: Option<&[[f64; 2]]>) -> Projection {
    let width = vectors.n_columns();
    let flat = principal_components(vectors.numbers(), width, 2);
    let n = width.min(2);
    let mut places: Vec<[f64; 2]> =
        flat.chunks_exact(n.max(1)).map(|own| [own[0], own.get(1).copied().unwrap_or(0.0)]).collect();
    let found: f64 = flat.iter().map(|x| x * x).sum();
    let whole = variance(vectors);
    if let Some(before) = before.filter(|before| before.len() == places.len()) {
        turn(&mut places, before);
    }
    Projection { places, variance: if whole > 0.0 { (found / whole).min(1.0) } else { 1.0 } }
}

/// Sum of squared distances from the mean.
fn variance(vectors: &Matrix) -> f64 {
    let n = vectors.n_rows().max(1) as f64;
    let mut mean = vec![0.0; vectors.n_columns()];
    for row in vectors.rows() {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += f64::from(*x) / n);
    }
    let square =
        |row: &[f32]| -> f64 { row.iter().zip(&mean).map(|(x, mean)| (f64::from(*x) - mean).powi(2)).sum() };
    vectors.rows().map(square).sum()
}

/// Turns and mirrors points to be near to others: of all orthogonal matrices R the one with the largest Σ (R·p)·q.
fn turn(points: &mut [[f64; 2]], others: &[[f64; 2]]) {
    let sum = |a: usize, b: usize| -> f64 { points.iter().zip(others).map(|(p, q)| p[a] * q[b]).sum() };
    let [xx, xy, yx, yy] = [sum(0, 0), sum(0, 1), sum(1, 0), sum(1, 1)];
    // A rotation by α reaches hypot(xx + yy, xy − yx); with a mirrored y axis hypot(xx − yy, xy + yx).
    let rotated = [xx + yy, xy - yx];
    let mirrored = [xx - yy, xy + yx];
    let length = |[a, b]: [f64; 2]| a.hypot(b);
    let (sign, [cosine, sine]) =
        if length(mirrored) > length(rotated) { (-1.0, mirrored) } else { (1.0, rotated) };
    let size = cosine.hypot(sine);
    if size == 0.0 {
        return;
    }
    let (cosine, sine) = (cosine / size, sine / size);
    for point in points {
        let [x, y] = [point[0], sign * point[1]];
        *point = [cosine * x - sine * y, sine * x + cosine * y];
    }
}

/// Cosines of all pairs of rows.
pub fn similarities(vectors: &Matrix) -> Matrix {
    let n = vectors.n_rows();
    let mut found = Matrix::zeros(n, n.max(1));
    for row in 0..n {
        for column in 0..=row {
            let own = if row == column { 1.0 } else { cosine(vectors.row(row), vectors.row(column)) };
            found.row_mut(row)[column] = own;
            found.row_mut(column)[row] = own;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_a_plane_keep_their_distances() {
        // A rectangle of 6 × 2 in three dimensions.
        let vectors = Matrix::new(3, vec![0., 0., 5., 6., 0., 5., 6., 2., 5., 0., 2., 5.]);
        let first = projection(&vectors, None);
        let distance = |a: usize, b: usize| {
            (0..2).map(|i| (first.places[a][i] - first.places[b][i]).powi(2)).sum::<f64>().sqrt()
        };
        assert!((distance(0, 1) - 6.0).abs() < 1e-6 && (distance(1, 2) - 2.0).abs() < 1e-6, "{first:?}");
        assert!((first.variance - 1.0).abs() < 1e-9);
        // Mirrored and turned, the points find their places again.
        let turned = Matrix::new(3, vec![0., 0., 5., 0., 6., 5., 2., 6., 5., 2., 0., 5.]);
        let second = projection(&turned, Some(&first.places));
        for (a, b) in first.places.iter().zip(&second.places) {
            assert!((a[0] - b[0]).abs() < 1e-6 && (a[1] - b[1]).abs() < 1e-6, "{first:?} {second:?}");
        }
    }

    #[test]
    fn small_cases_have_points_too() {
        assert_eq!(projection(&Matrix::new(3, vec![1.0, 2.0, 3.0]), None).places, [[0.0, 0.0]]);
        let line = projection(&Matrix::new(1, vec![0.0, 2.0]), None);
        assert!(line.places.iter().all(|place| place[1] == 0.0) && (line.variance - 1.0).abs() < 1e-9);
        let cosines = similarities(&Matrix::new(2, vec![1.0, 0.0, 1.0, 1.0, 0.0, 3.0]));
        assert_eq!(cosines.row(0)[0], 1.0);
        assert!((cosines.row(1)[2] - 0.5_f32.sqrt()).abs() < 1e-6 && cosines.row(0)[2] == 0.0);
    }
}
