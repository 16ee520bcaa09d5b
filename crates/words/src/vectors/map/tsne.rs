//! t-SNE (van der Maaten & Hinton 2008, *Visualizing data using t-SNE*), exact: neighbours in many dimensions stay neighbours in
//! two.
//!
//! Affinities pᵢⱼ are Gaussian, each row with the width that gives it the chosen perplexity; qᵢⱼ ∝ 1/(1 + |yᵢ − yⱼ|²). Gradient
//! descent on KL(P‖Q) starts from the principal components, with momentum, gains and early exaggeration as in the paper. Every
//! row's sum has a fixed order, so any number of threads gives the same bits.

use rayon::prelude::*;

/// Options of t-SNE.
#[derive(Debug, Clone, PartialEq)]
pub struct TsneOptions {
    /// Effective number of neighbours. Default: 30.
    pub perplexity: f64,
    /// Steps of gradient descent. Default: 750.
    pub iterations: usize,
}

impl Default for TsneOptions {
    fn default() -> Self {
        Self { perplexity: 30.0, iterations: 750 }
    }
}

impl TsneOptions {
    /// Most points: time and memory grow with their square.
    pub const MAX_POINTS: usize = 4_000;
    /// Steps with exaggerated affinities, and the factor.
    const EXAGGERATED: usize = 250;
    const EXAGGERATION: f64 = 12.0;
}

/// Positions of points, from the rows of `points`, `dimensions` numbers each, whose first two are the start.
pub fn tsne(
    points: &[f64],
    dimensions: usize,
    options: &TsneOptions,
    progress: &mut dyn FnMut(usize),
) -> Vec<[f64; 2]> {
    let n = points.len() / dimensions;
    let affinities = affinities(points, dimensions, options.perplexity.min((n as f64 - 1.0) / 3.0).max(1.0));
    let spread = (points.iter().step_by(dimensions).map(|x| x * x).sum::<f64>() / n as f64).sqrt().max(1e-12);
    let second = usize::from(dimensions > 1);
    let mut positions: Vec<[f64; 2]> = points
        .chunks_exact(dimensions)
        .map(|row| [row[0] / spread * 1e-2, row[second] / spread * 1e-2])
        .collect();
    let rate = (n as f64 / TsneOptions::EXAGGERATION / 4.0).max(50.0);
    let mut velocity = vec![[0.0; 2]; n];
    let mut gains = vec![[1.0_f64; 2]; n];
    for iteration in 0..options.iterations {
        let is_early = iteration < TsneOptions::EXAGGERATED.min(options.iterations / 3);
        let factor = if is_early { TsneOptions::EXAGGERATION } else { 1.0 };
        let momentum = if is_early { 0.5 } else { 0.8 };
        let gradient = gradient(&affinities, &positions, factor);
        for at in 0..n {
            for axis in 0..2 {
                let (gain, g) = (&mut gains[at][axis], gradient[at][axis]);
                let turns = (g > 0.0) == (velocity[at][axis] > 0.0);
                *gain = if turns { (*gain * 0.8).max(0.01) } else { *gain + 0.2 };
                velocity[at][axis] = momentum * velocity[at][axis] - rate * *gain * g;
                positions[at][axis] += velocity[at][axis];
            }
        }
        progress(iteration + 1);
    }
    positions
}

/// 4 Σⱼ (factor · pᵢⱼ − qᵢⱼ) (yᵢ − yⱼ) / (1 + |yᵢ − yⱼ|²).
fn gradient(affinities: &[f32], positions: &[[f64; 2]], factor: f64) -> Vec<[f64; 2]> {
    let n = positions.len();
    let near: Vec<[f32; 2]> = positions.iter().map(|[x, y]| [*x as f32, *y as f32]).collect();
    // Attraction, repulsion and the sum of kernels of each row; the normalisation of q needs all rows.
    let rows: Vec<([f64; 4], f64)> = (0..n)
        .into_par_iter()
        .map(|i| {
            let mut forces = [0.0_f64; 4];
            let mut total = 0.0_f64;
            let own = near[i];
            for (j, (other, p)) in near.iter().zip(&affinities[i * n..(i + 1) * n]).enumerate() {
                let (dx, dy) = (own[0] - other[0], own[1] - other[1]);
                let kernel = 1.0 / (1.0 + dx * dx + dy * dy);
                let kernel = if i == j { 0.0 } else { kernel };
                let (attract, repel) = (p * kernel, kernel * kernel);
                forces[0] += f64::from(attract * dx);
                forces[1] += f64::from(attract * dy);
                forces[2] += f64::from(repel * dx);
                forces[3] += f64::from(repel * dy);
                total += f64::from(kernel);
            }
            (forces, total)
        })
        .collect();
    let total: f64 = rows.iter().map(|(_, total)| total).sum();
    rows.iter()
        .map(|(forces, _)| [0, 1].map(|axis| 4.0 * (factor * forces[axis] - forces[axis + 2] / total)))
        .collect()
}

/// Symmetric affinities that sum to 1, row by row.
fn affinities(points: &[f64], dimensions: usize, perplexity: f64) -> Vec<f32> {
    let n = points.len() / dimensions;
    let row = |at: usize| &points[at * dimensions..][..dimensions];
    let conditional: Vec<f64> = (0..n)
        .into_par_iter()
        .flat_map_iter(|i| {
            let squared = |j: usize| row(i).iter().zip(row(j)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            let distances: Vec<f64> = (0..n).map(squared).collect();
            gaussian_row(&distances, i, perplexity)
        })
        .collect();
    let symmetric = |at: usize| {
        let (i, j) = (at / n, at % n);
        ((conditional[at] + conditional[j * n + i]) / (2.0 * n as f64)) as f32
    };
    (0..n * n).into_par_iter().map(symmetric).collect()
}

/// Probabilities of the other points, of the width whose entropy is ln(perplexity), by bisection.
fn gaussian_row(distances: &[f64], own: usize, perplexity: f64) -> Vec<f64> {
    let nearest = distances
        .iter()
        .enumerate()
        .filter(|(j, _)| *j != own)
        .map(|(_, d)| *d)
        .fold(f64::INFINITY, f64::min);
    let (mut low, mut high, mut beta) = (0.0, f64::INFINITY, 1.0);
    let mut row = vec![0.0; distances.len()];
    for _ in 0..60 {
        for (j, (p, distance)) in row.iter_mut().zip(distances).enumerate() {
            *p = if j == own { 0.0 } else { (-(distance - nearest) * beta).exp() };
        }
        let sum: f64 = row.iter().sum();
        let mean: f64 =
            row.iter().zip(distances).map(|(p, distance)| p * (distance - nearest)).sum::<f64>() / sum;
        for p in &mut row {
            *p /= sum;
        }
        let entropy = sum.ln() + beta * mean;
        if (entropy - perplexity.ln()).abs() < 1e-5 {
            break;
        }
        if entropy > perplexity.ln() {
            low = beta;
            beta = if high.is_finite() { f64::midpoint(low, high) } else { beta * 2.0 };
        } else {
            high = beta;
            beta = f64::midpoint(low, high);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_perplexity_asked_for() {
        let distances: Vec<f64> = (0..40).map(|at| f64::from(at * at) * 0.1).collect();
        let row = gaussian_row(&distances, 0, 7.0);
        let entropy: f64 = row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        assert!((entropy.exp() - 7.0).abs() < 1e-3, "{}", entropy.exp());
        assert_eq!(row[0], 0.0);
    }

    /// Two groups far apart stay apart: every point's nearest neighbour is of its own group.
    #[test]
    fn groups_stay_together() {
        let random = polyhead_random::Random::new(4);
        let points: Vec<f64> =
            (0..240).map(|at| random.uniform(at) + if (at / 4) % 2 == 0 { 0.0 } else { 5.0 }).collect();
        let map = tsne(&points, 4, &TsneOptions { perplexity: 8.0, iterations: 300 }, &mut |_| ());
        let distance = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
        for (i, own) in map.iter().enumerate() {
            let others = (0..map.len()).filter(|&j| j != i);
            let nearest = others.min_by(|&a, &b| distance(*own, map[a]).total_cmp(&distance(*own, map[b])));
            assert_eq!(nearest.expect("a point") % 2, i % 2);
        }
    }
}
