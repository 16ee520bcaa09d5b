//! Nearest words by cosine, and analogies.

use rayon::prelude::*;

use polyhead_lanes::{sum2, vectorised};

use super::WordVectors;
use crate::Result;

/// Rows that a thread compares at a time.
const CHUNK: usize = 1024;
/// Queries that are compared together, while a row is at hand.
const QUERIES: usize = 8;

/// A word and its cosine to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbour {
    /// Id of the word.
    pub id: u32,
    /// Cosine, −1 to 1.
    pub cosine: f32,
}

/// Vectors of unit length, for comparisons by cosine.
#[derive(Debug)]
pub struct Cosines<'a> {
    vectors: &'a WordVectors,
    unit: Vec<f32>,
    /// Words that take part, the first of the file.
    among: usize,
}

impl<'a> Cosines<'a> {
    /// Comparisons with the first `among` words of `vectors`; files list words by descending frequency.
    pub fn new(vectors: &'a WordVectors, among: usize) -> Self {
        let among = among.min(vectors.len());
        let mut unit = vectors.numbers()[..among * vectors.dimensions()].to_vec();
        unit.par_chunks_mut(vectors.dimensions().max(1)).for_each(normalize);
        Self { vectors, unit, among }
    }

    /// Number of words that take part.
    pub fn among(&self) -> usize {
        self.among
    }

    /// The `n` words nearest to `query`, without those of `except`; ties by frequency.
    pub fn nearest(&self, query: &[f32], n: usize, except: &[u32]) -> Vec<Neighbour> {
        let queries = [(query.to_vec(), except.to_vec())];
        self.nearest_of_all(&queries, n).pop().unwrap_or_default()
    }

    /// Like [`Cosines::nearest`], of many queries with their exceptions.
    pub fn nearest_of_all(&self, queries: &[(Vec<f32>, Vec<u32>)], n: usize) -> Vec<Vec<Neighbour>> {
        let group = |queries: &[(Vec<f32>, Vec<u32>)]| -> Vec<Vec<Neighbour>> {
            let mut units: Vec<Vec<f32>> = queries.iter().map(|(query, _)| query.clone()).collect();
            for unit in &mut units {
                normalize(unit);
            }
            let part = |(chunk, rows): (usize, &[f32])| {
                let mut best: Vec<Best> = queries.iter().map(|_| Best::new(n)).collect();
                let mut cosines = vec![0.0; QUERIES * CHUNK];
                compare(rows, &units, &mut cosines);
                for (row, cosines) in
                    cosines.chunks_exact(QUERIES).enumerate().take(rows.len() / units[0].len())
                {
                    let id = (chunk * CHUNK + row) as u32;
                    for (query, best) in best.iter_mut().enumerate() {
                        best.offer(Neighbour { id, cosine: cosines[query] }, &queries[query].1);
                    }
                }
                best
            };
            let parts: Vec<Vec<Best>> = self
                .unit
                .par_chunks(CHUNK * self.vectors.dimensions().max(1))
                .enumerate()
                .map(part)
                .collect();
            let mut whole: Vec<Best> = queries.iter().map(|_| Best::new(n)).collect();
            for part in parts {
                for (whole, part) in whole.iter_mut().zip(part) {
                    part.found.into_iter().for_each(|neighbour| whole.offer(neighbour, &[]));
                }
            }
            whole.into_iter().map(|best| best.found).collect()
        };
        queries.chunks(QUERIES).flat_map(group).collect()
    }

    /// The query of an analogy a : b = c : ?, which is b − a + c of unit vectors (3CosAdd), and the ids of known words, which
    /// are no answers.
    ///
    /// # Errors
    /// If a word is unknown.
    pub fn analogy(&self, words: [&str; 3]) -> Result<(Vec<f32>, Vec<u32>)> {
        let mut query = vec![0.0; self.vectors.dimensions()];
        let mut except = Vec::new();
        for (word, sign) in words.into_iter().zip([-1.0_f32, 1.0, 1.0]) {
            let mut unit = self.vectors.require(word)?.into_owned();
            normalize(&mut unit);
            query.iter_mut().zip(&unit).for_each(|(query, x)| *query += sign * x);
            except.extend(self.vectors.id(word));
        }
        Ok((query, except))
    }
}

/// The cosine of two vectors; 0 if one of them is zero.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let [mut a, mut b] = [a.to_vec(), b.to_vec()];
    normalize(&mut a);
    normalize(&mut b);
    dot(&a, &b)
}

/// The `n` best so far, in order.
struct Best {
    n: usize,
    found: Vec<Neighbour>,
}

impl Best {
    fn new(n: usize) -> Self {
        Self { n, found: Vec::with_capacity(n + 1) }
    }

    /// Later words never displace earlier ones of the same cosine.
    fn offer(&mut self, neighbour: Neighbour, except: &[u32]) {
        let is_full = self.found.len() >= self.n;
        if is_full && self.found.last().is_none_or(|last| last.cosine >= neighbour.cosine) {
            return;
        }
        if except.contains(&neighbour.id) {
            return;
        }
        let at = self.found.partition_point(|better| better.cosine >= neighbour.cosine);
        self.found.insert(at, neighbour);
        self.found.truncate(self.n);
    }
}

/// Scales a vector to unit length; zeros stay zeros.
pub(crate) fn normalize(vector: &mut [f32]) {
    let norm = dot(vector, vector).sqrt();
    if norm > 0.0 {
        for x in vector {
            *x /= norm;
        }
    }
}

vectorised! {
    /// Σ aᵢ bᵢ.
    pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
        sum2(a, b, |x, y| x * y)
    }
}

vectorised! {
    /// Dot products of each row with each query: `products[row · QUERIES + query]`.
    fn compare(rows: &[f32], queries: &[Vec<f32>], products: &mut [f32]) {
        let Some(first) = queries.first() else { return };
        for (row, products) in rows.chunks_exact(first.len().max(1)).zip(products.chunks_exact_mut(QUERIES)) {
            for (query, product) in queries.iter().zip(products) {
                *product = sum2(row, query, |x, y| x * y);
            }
        }
    }
}
