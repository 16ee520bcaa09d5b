//! GloVe (Pennington, Socher & Manning 2014, *GloVe: Global vectors for word representation*): vectors whose products are the
//! logarithms of co-occurrence counts.
//!
//! Objective: Σ f(Xᵢⱼ) (wᵢ·uⱼ + bᵢ + cⱼ − ln Xᵢⱼ)² with f(x) = min(1, (x/x_max)^¾), by AdaGrad. The vector of a word is
//! wᵢ + uᵢ.
//!
//! Counts are divided into parts by their row and by their column. Parts that share neither are trained at the same time
//! (Gemulla et al. 2011, *Large-scale matrix factorization with distributed stochastic gradient descent*), so threads never meet,
//! and any number of them gives the same bits.

mod counts;

use polyhead_lanes::{ln, vectorised};
use polyhead_random::Random;
use rayon::prelude::*;

use super::train::{Lane, Table, WIDTH, dot_lanes, lanes_of};
use super::{Vocabulary, WordVectors};
use crate::{Error, Result};
use counts::{Count, PARTS};

pub use counts::Cooccurrences;

/// Random numbers of the initial vectors and of the order of counts.
const INIT: u64 = 0x610e;
const ORDER: u64 = 0x610f;

/// Options of GloVe.
#[derive(Debug, Clone, PartialEq)]
pub struct GloveOptions {
    /// Numbers of a vector. Default: 100.
    pub dimensions: usize,
    /// Passes over the counts. Default: 15.
    pub epochs: usize,
    /// Learning rate of AdaGrad. Default: 0.05.
    pub rate: f32,
    /// x_max: counts from which the weight is 1. Default: 100.
    pub x_max: f32,
    /// Random seed. Default: 1.
    pub seed: u64,
}

impl Default for GloveOptions {
    fn default() -> Self {
        Self { dimensions: 100, epochs: 15, rate: 0.05, x_max: 100.0, seed: 1 }
    }
}

/// The tables: vectors of words and of contexts, and the sums of their squared gradients.
///
/// A row holds the vector, then a bias and a 1: word rows (…, bᵢ, 1), context rows (…, 1, cⱼ), so that their product is
/// wᵢ·uⱼ + bᵢ + cⱼ.
struct Tables {
    words: Table,
    word_squares: Table,
    contexts: Table,
    context_squares: Table,
    dimensions: usize,
}

/// Trains vectors of `vocabulary` on its counts, on the threads of the current pool. `progress` hears of each epoch and its mean
/// weighted squared error.
///
/// # Errors
/// If an option is invalid, no two words meet, or a temporary file cannot be read.
pub fn train_glove(
    vocabulary: &Vocabulary,
    counts: &Cooccurrences,
    options: &GloveOptions,
    progress: &mut dyn FnMut(usize, f64),
) -> Result<WordVectors> {
    if options.dimensions == 0 || !(options.rate > 0.0 && options.x_max > 0.0) {
        return Err(Error::request(
            format!(
                "{} dimensions, learning rate {}, x_max {}, expected positive numbers",
                options.dimensions, options.rate, options.x_max
            ),
            "use --dimensions 100 --learning-rate 0.05 --x-max 100",
        ));
    }
    if counts.is_empty() {
        return Err(Error::request(
            "no two words occur on one line, expected some that do",
            "put more words on a line, or use a wider --window",
        ));
    }
    let mut tables = Tables::new(counts.n_words(), options);
    for epoch in 0..options.epochs {
        let mut error = 0.0;
        for shift in 0..PARTS {
            let errors = (0..PARTS)
                .into_par_iter()
                .map(|row| tables.train_part(counts, options, (epoch, row, (row + shift) % PARTS)))
                .collect::<Result<Vec<f64>>>()?;
            error += errors.iter().sum::<f64>();
        }
        progress(epoch + 1, error / counts.len() as f64);
    }
    let rows = 0..vocabulary.len();
    let mut numbers = tables.words.numbers(rows.clone(), options.dimensions);
    let contexts = tables.contexts.numbers(rows, options.dimensions);
    for (number, context) in numbers.iter_mut().zip(contexts) {
        *number += context;
    }
    Ok(WordVectors::new(vocabulary.clone(), options.dimensions, numbers))
}

impl Tables {
    fn new(n_words: usize, options: &GloveOptions) -> Self {
        let dimensions = options.dimensions;
        let lanes = lanes_of(dimensions + 2);
        let table = |side: u64| {
            let mut table = Table::zeros(n_words, lanes);
            for row in 0..n_words {
                let random = Random::new(options.seed).stream_pair(INIT + side, row as u64);
                let numbers = table.own_row_mut(row).iter_mut().flat_map(|lane| &mut lane.0);
                for (index, number) in numbers.take(dimensions + 2).enumerate() {
                    *number = (random.uniform(index as u64) as f32 - 0.5) / dimensions as f32;
                }
            }
            table
        };
        let ones = || {
            let mut table = Table::zeros(n_words, lanes);
            (0..n_words).for_each(|row| table.own_row_mut(row).fill(Lane([1.0; WIDTH])));
            table
        };
        let mut tables = Self {
            words: table(0),
            word_squares: ones(),
            contexts: table(1 << 32),
            context_squares: ones(),
            dimensions,
        };
        for row in 0..n_words {
            set(tables.words.own_row_mut(row), dimensions + 1);
            set(tables.contexts.own_row_mut(row), dimensions);
        }
        tables
    }

    /// Trains on one part in random order; returns its weighted squared error.
    fn train_part(
        &self,
        counts: &Cooccurrences,
        options: &GloveOptions,
        (epoch, row, column): (usize, usize, usize),
    ) -> Result<f64> {
        let mut part: Vec<Count> = counts.part(row, column)?;
        let random =
            Random::new(options.seed).stream_pair(ORDER + epoch as u64, (row * PARTS + column) as u64);
        random.shuffle(&mut part);
        let mut error = 0.0;
        for (at, &(i, j, x)) in part.iter().enumerate() {
            if let Some(&(soon_i, soon_j, _)) = part.get(at + 3) {
                for (table, row) in [
                    (&self.words, soon_i),
                    (&self.word_squares, soon_i),
                    (&self.contexts, soon_j),
                    (&self.context_squares, soon_j),
                ] {
                    table.prefetch(row as usize);
                }
            }
            // SAFETY: of the parts that are trained now, only this one has rows of its remainder, and columns of its own.
            let rows = unsafe {
                [
                    self.words.row_mut(i as usize),
                    self.word_squares.row_mut(i as usize),
                    self.contexts.row_mut(j as usize),
                    self.context_squares.row_mut(j as usize),
                ]
            };
            let ratio = (x / options.x_max).min(1.0);
            let weight = ratio.sqrt() * ratio.sqrt().sqrt();
            let [word, word_squares, context, context_squares] = rows;
            let difference = step((word, word_squares), (context, context_squares), x, weight * options.rate);
            set(word, self.dimensions + 1);
            set(context, self.dimensions);
            error += f64::from(weight) * f64::from(difference) * f64::from(difference);
        }
        Ok(error)
    }
}

/// Sets a number of a row to 1.
fn set(row: &mut [Lane], at: usize) {
    row[at / WIDTH].0[at % WIDTH] = 1.0;
}

vectorised! {
    /// One step of AdaGrad on the pair of rows with count `x`; `rate` includes the weight. Returns the difference.
    fn step(word: (&mut [Lane], &mut [Lane]), context: (&mut [Lane], &mut [Lane]), x: f32, rate: f32) -> f32 {
        let difference = dot_lanes(word.0, context.0) - ln(x);
        let g = (rate * difference).clamp(-5.0, 5.0);
        let rows = word.0.iter_mut().zip(word.1).zip(context.0.iter_mut().zip(context.1));
        for ((w, w_square), (u, u_square)) in rows {
            for lane in 0..WIDTH {
                let (d_word, d_context) = (g * u.0[lane], g * w.0[lane]);
                w.0[lane] -= d_word / w_square.0[lane].sqrt();
                u.0[lane] -= d_context / u_square.0[lane].sqrt();
                w_square.0[lane] += d_word * d_word;
                u_square.0[lane] += d_context * d_context;
            }
        }
        difference
    }
}
