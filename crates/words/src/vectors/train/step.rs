//! Gradients of one batch against the tables as they are at the start of its round.
//!
//! Hidden rows are the context words' own vectors (skip-gram) or the mean of a context (CBOW). Negative samples are shared by the
//! rows of a batch, or by a few of them ([`Sharing`]), as Ji et al. 2016 (*Parallelizing word2vec in shared and distributed memory*)
//! share them within a window: each row meets all of them, weighted so that the expected gradient is that of independent samples.
//! What were thousands of dot products becomes three dense ones.

use std::ops::Range;

use super::super::options::Architecture;
use super::batch::{Batch, Source};
use super::kernel::{Negatives, Pairs, ROWS, add, negatives, pairs, scale};
use super::table::{Lane, Table, WIDTH};
use super::{Model, Outputs};

/// How negative samples are shared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing {
    /// Samples that are drawn together, a multiple of [`WIDTH`].
    pub(crate) samples: usize,
    /// Hidden rows that meet them, a multiple of [`ROWS`].
    pub(crate) rows: usize,
}

/// What one batch changes: rows of gradients, and which rows of the tables they are added to.
#[derive(Debug, Default)]
pub(crate) struct Gradients {
    pub(crate) input: Vec<Lane>,
    pub(crate) output: Vec<Lane>,
    /// (row of the input table, row of `input`).
    pub(crate) input_changes: Vec<(u32, u32)>,
    /// (row of the output table, row of `output`).
    pub(crate) output_changes: Vec<(u32, u32)>,
}

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    batch: Batch,
    words: Vec<Lane>,
    means: Vec<Lane>,
    d_means: Vec<Lane>,
    outputs: Vec<Lane>,
    weights: Vec<Lane>,
    transposed: Vec<Lane>,
    context: Vec<u32>,
    counts: Vec<f32>,
    samples: Vec<u32>,
}

/// Where a batch lies, and its learning rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) rate: f32,
}

/// Computes the gradients of the batch at `place`.
///
/// # Safety
/// No thread changes the model's tables meanwhile.
pub(crate) unsafe fn compute(
    model: &Model,
    source: &Source,
    place: Place,
    scratch: &mut Scratch,
    found: &mut Gradients,
) {
    let lanes = model.input.lanes();
    scratch.batch.build(source, place.epoch, place.start, place.end);
    found.input_changes.clear();
    found.output_changes.clear();
    if scratch.batch.centers.is_empty() {
        return;
    }
    let n_words = scratch.batch.words.len();
    // SAFETY: the caller's promise.
    unsafe { gather_words(model, scratch, n_words.next_multiple_of(ROWS)) };
    found.input.clear();
    found.input.resize(scratch.words.len(), Lane::ZERO);
    match model.architecture {
        Architecture::SkipGram => {
            let hidden = std::mem::take(&mut scratch.words);
            // SAFETY: the caller's promise.
            unsafe { predict(model, source, place, scratch, (&hidden, found)) };
            scratch.words = hidden;
        }
        Architecture::Cbow => {
            average_contexts(scratch, lanes);
            let hidden = std::mem::take(&mut scratch.means);
            let mut d_words = std::mem::take(&mut found.input);
            found.input = std::mem::take(&mut scratch.d_means);
            found.input.clear();
            found.input.resize(hidden.len(), Lane::ZERO);
            // SAFETY: the caller's promise.
            unsafe { predict(model, source, place, scratch, (&hidden, found)) };
            // As in word2vec, each word of the context gets the whole gradient of the mean.
            for (row, center) in scratch.batch.centers.iter().enumerate() {
                for position in center.context() {
                    add(&mut d_words[position * lanes..][..lanes], &found.input[row * lanes..][..lanes]);
                }
            }
            scratch.means = hidden;
            scratch.d_means = std::mem::replace(&mut found.input, d_words);
        }
    }
    for (position, &word) in scratch.batch.words.iter().enumerate() {
        model.for_each_input_row(word, |row| found.input_changes.push((row, position as u32)));
    }
}

/// Copies the input vectors of the batch's words, padded with zeros to `n_rows` rows.
///
/// # Safety
/// As [`compute`].
unsafe fn gather_words(model: &Model, scratch: &mut Scratch, n_rows: usize) {
    let lanes = model.input.lanes();
    scratch.words.clear();
    for at in 0..scratch.batch.words.len() {
        let word = scratch.batch.words[at];
        if let Some(&soon) = scratch.batch.words.get(at + 4) {
            model.input.prefetch(soon as usize);
        }
        // SAFETY: the caller's promise, for both branches.
        if model.subwords.is_none() {
            scratch.words.extend_from_slice(unsafe { model.input.row(word as usize) });
        } else {
            let from = scratch.words.len();
            scratch.words.resize(from + lanes, Lane::ZERO);
            let mut n_parts = 0;
            model.for_each_input_row(word, |row| {
                // SAFETY: the caller's promise.
                add(&mut scratch.words[from..], unsafe { model.input.row(row as usize) });
                n_parts += 1;
            });
            scale(&mut scratch.words[from..], 1.0 / n_parts as f32);
        }
    }
    scratch.words.resize(n_rows * lanes, Lane::ZERO);
}

/// Means of the contexts, one row for each center.
fn average_contexts(scratch: &mut Scratch, lanes: usize) {
    let n_rows = scratch.batch.centers.len().next_multiple_of(ROWS);
    scratch.means.clear();
    scratch.means.resize(n_rows * lanes, Lane::ZERO);
    for (row, center) in scratch.batch.centers.iter().enumerate() {
        let mean = &mut scratch.means[row * lanes..][..lanes];
        for position in center.context() {
            add(mean, &scratch.words[position * lanes..][..lanes]);
        }
        scale(mean, 1.0 / center.n_context() as f32);
    }
}

/// Gradients of `hidden` rows and of the outputs that they predict.
///
/// # Safety
/// As [`compute`].
unsafe fn predict(
    model: &Model,
    source: &Source,
    place: Place,
    scratch: &mut Scratch,
    (hidden, found): (&[Lane], &mut Gradients),
) {
    let lanes = model.output.lanes();
    let n_centers = scratch.batch.centers.len();
    match &model.outputs {
        Outputs::Words { sampler, sharing, n_negative } => {
            let rate = place.rate * *n_negative as f32 / sharing.samples as f32;
            let n_rows = hidden.len() / lanes;
            let n = sharing.samples * n_rows.div_ceil(sharing.rows);
            count(model.architecture, scratch, n_rows, rate);
            let draws = scratch.batch.negative_draws(source, place.epoch, place.start, n);
            scratch.samples.clear();
            scratch
                .samples
                .extend(draws.chunks_exact(2).take(n).map(|pair| sampler.choose(pair[0], pair[1])));
            found.output.resize((n_centers + n) * lanes, Lane::ZERO);
            for group in 0..n / WIDTH {
                let samples = group * WIDTH..(group + 1) * WIDTH;
                let first = n_centers + samples.start;
                let first_row = samples.start / sharing.samples * sharing.rows;
                let rows = first_row..first_row.saturating_add(sharing.rows).min(n_rows);
                let numbers = rows.start * lanes..rows.end * lanes;
                // SAFETY: the caller's promise.
                unsafe {
                    gather_outputs(&model.output, &scratch.samples[samples.clone()], &mut scratch.outputs);
                };
                weigh(model.architecture, scratch, samples.clone(), (rows, rate));
                scratch.transposed.resize(lanes * WIDTH, Lane::ZERO);
                negatives(&mut Negatives {
                    hidden: &hidden[numbers.clone()],
                    d_hidden: &mut found.input[numbers],
                    outputs: &scratch.outputs,
                    d_outputs: &mut found.output[first * lanes..][..WIDTH * lanes],
                    weights: &mut scratch.weights,
                    transposed: &mut scratch.transposed,
                });
                let rows = scratch.samples[samples].iter().zip(first as u32..);
                found.output_changes.extend(rows.map(|(&word, row)| (word, row)));
            }
            for row in 0..n_centers {
                let word = hidden_rows(model.architecture, scratch, row);
                // SAFETY: the caller's promise.
                unsafe { pair(model, (word, row), (1.0, place.rate), (hidden, found), &scratch.context) };
            }
        }
        Outputs::Nodes(tree) => {
            let mut next = 0;
            for row in 0..n_centers {
                let word = hidden_rows(model.architecture, scratch, row);
                for &(node, branch) in tree.path(word) {
                    found.output.resize(found.output.len().max((next + 1) * lanes), Lane::ZERO);
                    let label = if branch { 0.0 } else { 1.0 };
                    // SAFETY: the caller's promise.
                    unsafe {
                        pair(model, (node, next), (label, place.rate), (hidden, found), &scratch.context);
                    };
                    next += 1;
                }
            }
        }
    }
}

/// Lists in `scratch.context` the hidden rows that predict center `row`; returns its word.
fn hidden_rows(architecture: Architecture, scratch: &mut Scratch, row: usize) -> u32 {
    let center = scratch.batch.centers[row];
    scratch.context.clear();
    match architecture {
        Architecture::SkipGram => scratch.context.extend(center.context().map(|position| position as u32)),
        Architecture::Cbow => scratch.context.push(row as u32),
    }
    scratch.batch.words[center.position]
}

/// Logistic regression of row `output` of the output table on the hidden rows of `context`; its gradient is row `row`.
///
/// # Safety
/// As [`compute`].
unsafe fn pair(
    model: &Model,
    (output, row): (u32, usize),
    (label, rate): (f32, f32),
    (hidden, found): (&[Lane], &mut Gradients),
    context: &[u32],
) {
    let lanes = model.output.lanes();
    // SAFETY: the caller's promise.
    let vector = unsafe { model.output.row(output as usize) };
    let d_output = &mut found.output[row * lanes..][..lanes];
    let mut operands = Pairs { hidden, d_hidden: &mut found.input, output: vector, d_output };
    pairs(&mut operands, context, label, rate);
    found.output_changes.push((output, row as u32));
}

/// # Safety
/// As [`compute`].
unsafe fn gather_outputs(table: &Table, rows: &[u32], outputs: &mut Vec<Lane>) {
    outputs.clear();
    for (at, &row) in rows.iter().enumerate() {
        if let Some(&soon) = rows.get(at + 4) {
            table.prefetch(soon as usize);
        }
        // SAFETY: the caller's promise.
        outputs.extend_from_slice(unsafe { table.row(row as usize) });
    }
}

/// Counts in `scratch.counts` how many predictions each of `n_rows` hidden rows takes part in, times `rate`.
fn count(architecture: Architecture, scratch: &mut Scratch, n_rows: usize, rate: f32) {
    let Scratch { batch, counts, .. } = scratch;
    counts.clear();
    counts.resize(n_rows, 0.0);
    match architecture {
        Architecture::SkipGram => {
            for center in &batch.centers {
                center.context().for_each(|position| counts[position] += rate);
            }
        }
        Architecture::Cbow => counts[..batch.centers.len()].fill(rate),
    }
}

/// Weights of the sixteen `samples` for each of the hidden `rows`: how many predictions the row takes part in, without those of
/// the sample itself, times `rate`.
fn weigh(
    architecture: Architecture,
    scratch: &mut Scratch,
    samples: Range<usize>,
    (rows, rate): (Range<usize>, f32),
) {
    let Scratch { batch, weights, counts, samples: drawn, .. } = scratch;
    let drawn = &drawn[samples];
    weights.clear();
    weights.extend(counts[rows.clone()].iter().map(|&count| Lane([count; WIDTH])));
    for (row, center) in batch.centers.iter().enumerate() {
        let word = batch.words[center.position];
        if !drawn.contains(&word) {
            continue;
        }
        for lane in (0..WIDTH).filter(|&lane| drawn[lane] == word) {
            match architecture {
                Architecture::SkipGram => {
                    let own = center.context().filter(|position| rows.contains(position));
                    own.for_each(|position| weights[position - rows.start].0[lane] -= rate);
                }
                Architecture::Cbow if rows.contains(&row) => weights[row - rows.start].0[lane] -= rate,
                Architecture::Cbow => {}
            }
        }
    }
}
