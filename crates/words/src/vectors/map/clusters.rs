//! k-means of unit vectors, started by k-means++ (Arthur & Vassilvitskii 2007).

use polyhead_random::Random;
use rayon::prelude::*;

use super::super::nearest::normalize;

const MAX_ROUNDS: usize = 100;

/// The cluster of each row, `0..k` by descending size, of rows scaled to unit length. The same on any number of threads.
pub fn clusters(rows: &[f32], dimensions: usize, k: usize, seed: u64) -> Vec<usize> {
    let mut units = rows.to_vec();
    units.chunks_exact_mut(dimensions).for_each(normalize);
    let n_rows = units.len() / dimensions;
    let k = k.clamp(1, n_rows.max(1));
    let row = |at: usize| &units[at * dimensions..][..dimensions];
    let mut centres = start(&units, dimensions, k, Random::new(seed));
    let mut assigned = vec![usize::MAX; n_rows];
    for _ in 0..MAX_ROUNDS {
        let nearest: Vec<usize> = (0..n_rows)
            .into_par_iter()
            .map(|at| {
                let distances = centres.iter().map(|centre| distance(row(at), centre));
                distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(cluster, _)| cluster)
            })
            .collect();
        if nearest == assigned {
            break;
        }
        assigned = nearest;
        let mut counts = vec![0.0_f32; k];
        let mut sums = vec![vec![0.0_f32; dimensions]; k];
        for (at, &cluster) in assigned.iter().enumerate() {
            counts[cluster] += 1.0;
            sums[cluster].iter_mut().zip(row(at)).for_each(|(sum, x)| *sum += x);
        }
        for ((centre, sum), count) in centres.iter_mut().zip(sums).zip(counts) {
            // An empty cluster keeps its centre.
            if count > 0.0 {
                *centre = sum.into_iter().map(|sum| sum / count).collect();
            }
        }
    }
    let mut sizes: Vec<(usize, usize)> = (0..k).map(|cluster| (0, cluster)).collect();
    for &cluster in &assigned {
        sizes[cluster].0 += 1;
    }
    sizes.sort_by_key(|&(size, cluster)| (std::cmp::Reverse(size), cluster));
    let mut order = vec![0; k];
    sizes.iter().enumerate().for_each(|(rank, &(_, cluster))| order[cluster] = rank);
    assigned.into_iter().map(|cluster| order[cluster]).collect()
}

/// Rows chosen with probability in proportion to their squared distance from those chosen before.
fn start(units: &[f32], dimensions: usize, k: usize, random: Random) -> Vec<Vec<f32>> {
    let rows: Vec<&[f32]> = units.chunks_exact(dimensions).collect();
    let mut centres: Vec<Vec<f32>> = vec![rows[random.below(rows.len(), 0)].to_vec()];
    let mut nearest = vec![f64::INFINITY; rows.len()];
    while centres.len() < k {
        let last = &centres[centres.len() - 1];
        for (nearest, row) in nearest.iter_mut().zip(&rows) {
            *nearest = nearest.min(f64::from(distance(row, last)));
        }
        let total: f64 = nearest.iter().sum();
        let mut left = random.uniform(centres.len() as u64) * total;
        let chosen = nearest.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        centres.push(rows[chosen.unwrap_or(rows.len() - 1)].to_vec());
    }
    centres
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_directions_are_separate_clusters() {
        let rows: Vec<f32> = (0..30)
            .flat_map(|at| {
                let small = at as f32 * 1e-3;
                if at < 20 { [2.0, small, 0.0] } else { [small, 0.0, 1.0] }
            })
            .collect();
        let found = clusters(&rows, 3, 2, 1);
        assert_eq!(found, [vec![0; 20], vec![1; 10]].concat());
    }
}
