//! Generating and copying mixed (pointer-generator networks, See, Liu & Manning 2017, equation 9), and their coverage loss
//! (equation 12).
//!
//! P(w) = p·softmax(z)_w + (1 − p)·Σ_{i: source_i = w} a_i, with logits z over the vocabulary, attention weights a over the
//! source, and p = σ(gate). Source ids from the size of the vocabulary on are words that it lacks: these can only be copied.
//!
//! Everything is computed with logarithms: ln P = logaddexp(ln σ(g) + z_w − logsumexp(z), ln σ(−g) + ln c), c being the sum
//! of the weights. Backward, with r = the share of generating in P(w): d(−ln P)/dz = r·(softmax(z) − 1(w)), dg = p − r,
//! da_i = −(1 − r)/c where source_i = w. Label smoothing ε spreads its mass over the generated distribution only:
//! loss = −(1 − ε)·ln P(w) + ε·(logsumexp(z) − mean(z)).

use rayon::prelude::*;

use super::cross_entropy::{CrossEntropyOptions, row_loss};
use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, ln, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// The least sum of weights of a word that can only be copied: its logarithm stays finite.
pub(crate) const LEAST_COPY: f32 = 1e-20;

/// What is mixed, a row for each target position; the rows of a sentence are adjacent.
#[derive(Debug, Clone, Copy)]
pub struct CopyMixture<'a> {
    /// Logits over the vocabulary: … × vocab_size.
    pub logits: &'a Var,
    /// Attention weights over the source: … × source length.
    pub weights: &'a Var,
    /// ln(p/(1 − p)), p being the probability of generating: one for each row.
    pub gate: &'a Var,
    /// The source ids of each sentence: sentences × source length.
    pub sources: &'a Indices,
}

/// Rows, size of the vocabulary, source length, and rows of a sentence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopySizes {
    pub(crate) rows: usize,
    pub(crate) vocab_size: usize,
    pub(crate) source: usize,
    pub(crate) per_sentence: usize,
}

impl CopyMixture<'_> {
    pub(crate) fn sizes(&self, operation: &'static str) -> Result<CopySizes> {
        let [rows, vocab_size] = self.logits.value().rows();
        let [weight_rows, source] = self.weights.value().rows();
        if weight_rows != rows || source == 0 {
            let expected = format!("[{rows}, source length], one row for each of the logits");
            return shape(operation, "weights", self.weights.shape(), expected);
        }
        if self.gate.value().len() != rows {
            return shape(operation, "gate", self.gate.shape(), format!("[{rows}], one for each row"));
        }
        let sentences = self.sources.len() / source;
        if !self.sources.len().is_multiple_of(source) || sentences == 0 || !rows.is_multiple_of(sentences) {
            let expected = format!("sentences × {source}, with {rows} rows a multiple of the sentences");
            return shape(operation, "sources", &[self.sources.len()], expected);
        }
        Ok(CopySizes { rows, vocab_size, source, per_sentence: rows / sentences })
    }
}

/// Mean −ln P of one id per row, label smoothing included; 0 if all rows are ignored. Expected ids from the size of the
/// vocabulary on are words that only the source has.
///
/// # Errors
/// If the shapes do not fit together, or an id is neither in the vocabulary nor in the source of its row.
pub fn copy_cross_entropy(
    tape: &Tape,
    mixture: CopyMixture<'_>,
    expected: &Indices,
    options: CrossEntropyOptions,
) -> Result<Var> {
    const NAME: &str = "copy_cross_entropy";
    let sizes = mixture.sizes(NAME)?;
    if expected.len() != sizes.rows {
        return shape(NAME, "expected", &[expected.len()], format!("[{}], one a row of logits", sizes.rows));
    }
    options.check_smoothing(NAME)?;
    on_gpu!(mixture.logits.value() => {
        Ok(crate::cuda::ops::copying::copy_cross_entropy(tape, mixture, expected, options))
    });
    let saved = CopySaved {
        logits: mixture.logits.clone(),
        weights: mixture.weights.clone(),
        gate: mixture.gate.clone(),
        sources: mixture.sources.clone(),
        expected: expected.clone(),
        smoothing: options.label_smoothing,
        sizes,
        count: saved_count(&mixture, expected, options, sizes)?,
        rows: Vec::new(),
    };
    let each = |row: usize| if options.counts(saved.id(row)) { saved.row(row) } else { CopyRow::IGNORED };
    let rows: Vec<CopyRow> = (0..sizes.rows).into_par_iter().with_min_len(8).map(each).collect();
    let total: f64 = rows.iter().map(|row| f64::from(row.loss)).sum();
    let mean = if saved.count == 0 { 0.0 } else { (total / saved.count as f64) as f32 };
    let saved = CopySaved { rows, ..saved };
    let inputs = [mixture.logits, mixture.weights, mixture.gate];
    Ok(tape.record(Tensor::scalar(mean), &inputs, move |gradient, gradients| {
        saved.backward(gradient, gradients);
    }))
}

/// Number of rows that count; checks their ids.
fn saved_count(
    mixture: &CopyMixture<'_>,
    expected: &Indices,
    options: CrossEntropyOptions,
    sizes: CopySizes,
) -> Result<usize> {
    let CopySizes { vocab_size, source, per_sentence, .. } = sizes;
    let sources = mixture.sources.host();
    let mut count = 0;
    for (position, &id) in expected.host().iter().enumerate().filter(|(_, id)| options.counts(**id)) {
        let start = position / per_sentence * source;
        if id as usize >= vocab_size && !sources[start..start + source].contains(&id) {
            return Err(Error::Id { operation: "copy_cross_entropy", id, position, vocab_size });
        }
        count += 1;
    }
    Ok(count)
}

struct CopySaved {
    logits: Var,
    weights: Var,
    gate: Var,
    sources: Indices,
    expected: Indices,
    smoothing: f32,
    sizes: CopySizes,
    count: usize,
    rows: Vec<CopyRow>,
}

/// What the backward pass needs of a row.
#[derive(Debug, Clone, Copy)]
struct CopyRow {
    loss: f32,
    logsumexp: f32,
    /// The share of generating in P(w).
    generated: f32,
    /// Sum of the weights of w.
    copied: f32,
}

impl CopyRow {
    const IGNORED: Self = Self { loss: 0.0, logsumexp: f32::INFINITY, generated: 0.0, copied: 0.0 };
}

impl CopySaved {
    fn id(&self, row: usize) -> u32 {
        self.expected.host()[row]
    }

    /// The source ids and the weights of a row.
    fn source(&self, row: usize) -> (&[u32], &[f32]) {
        let CopySizes { source, per_sentence, .. } = self.sizes;
        let start = row / per_sentence * source;
        (
            &self.sources.host()[start..start + source],
            &self.weights.value().data()[row * source..(row + 1) * source],
        )
    }

    fn row(&self, row: usize) -> CopyRow {
        let CopySizes { vocab_size, .. } = self.sizes;
        let (id, logits) = (self.id(row), &self.logits.value().data()[row * vocab_size..][..vocab_size]);
        let known = (id as usize) < vocab_size;
        let at = if known { id as usize } else { 0 };
        let (loss, logsumexp) = row_loss(logits, at, 0.0);
        let (sources, weights) = self.source(row);
        let found = sources.iter().zip(weights).filter(|(source, _)| **source == id);
        let copied = found.fold(0.0, |sum, (_, weight)| sum + weight);
        let [to_generate, to_copy] = log_gates(self.gate.value().data()[row]);
        let generating = if known { to_generate - loss } else { f32::NEG_INFINITY };
        let copying = match (copied > 0.0, known) {
            (true, _) => to_copy + ln(copied),
            (false, true) => f32::NEG_INFINITY,
            (false, false) => to_copy + ln(LEAST_COPY),
        };
        let log_probability = log_add(generating, copying);
        let generated = if known { exp(generating - log_probability) } else { 0.0 };
        let smooth = match self.smoothing {
            0.0 => 0.0,
            // All of the mass on the mean over the vocabulary.
            smoothing => smoothing * row_loss(logits, at, 1.0).0,
        };
        CopyRow { loss: smooth - (1.0 - self.smoothing) * log_probability, logsumexp, generated, copied }
    }

    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let Self { logits, weights, gate, smoothing, .. } = self;
        let CopySizes { vocab_size, source, .. } = self.sizes;
        let weight = gradient.data()[0] / self.count.max(1) as f32;
        let own = weight * (1.0 - smoothing);
        if logits.needs_gradient() {
            let mut out = Tensor::uninit(logits.shape());
            let from = logits.value().data();
            parallel::rows(out.data_mut(), vocab_size, |first, block| {
                for (offset, out) in block.chunks_exact_mut(vocab_size).enumerate() {
                    let row = first + offset;
                    let CopyRow { logsumexp, generated, .. } = self.rows[row];
                    let factor = own * generated + weight * smoothing;
                    let floor = weight * smoothing / vocab_size as f32;
                    softmax_times(out, &from[row * vocab_size..][..vocab_size], [logsumexp, factor, floor]);
                    let id = self.id(row) as usize;
                    if logsumexp != f32::INFINITY && id < vocab_size {
                        out[id] -= own * generated;
                    }
                }
            });
            gradients.add(logits, &out);
        }
        if weights.needs_gradient() {
            let mut out = Tensor::zeros(weights.shape());
            for ((row, out), saved) in out.data_mut().chunks_exact_mut(source).enumerate().zip(&self.rows) {
                if saved.logsumexp == f32::INFINITY {
                    continue;
                }
                let slope = -own * (1.0 - saved.generated) / saved.copied.max(LEAST_COPY);
                let id = self.id(row);
                let matching = out.iter_mut().zip(self.source(row).0).filter(|(_, source)| **source == id);
                matching.for_each(|(out, _)| *out = slope);
            }
            gradients.add(weights, &out);
        }
        if gate.needs_gradient() {
            let of_row = |(row, saved): (&CopyRow, &f32)| {
                if row.logsumexp == f32::INFINITY { 0.0 } else { own * (sigmoid(*saved) - row.generated) }
            };
            let all = self.rows.iter().zip(gate.value().data()).map(of_row).collect();
            gradients.add(gate, &Tensor::new(gate.shape(), all));
        }
    }
}

/// ln σ(x) and ln σ(−x).
fn log_gates(x: f32) -> [f32; 2] {
    let rest = ln(1.0 + exp(-x.abs()));
    if x >= 0.0 { [-rest, -x - rest] } else { [x - rest, -rest] }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// ln(eᵃ + eᵇ).
fn log_add(a: f32, b: f32) -> f32 {
    let (larger, smaller) = if a >= b { (a, b) } else { (b, a) };
    if smaller == f32::NEG_INFINITY { larger } else { larger + ln(1.0 + exp(smaller - larger)) }
}

vectorised! {
    /// factor·softmax(z) − floor, from `terms` = [logsumexp, factor, floor]; zeros for an ignored row.
    fn softmax_times(out: &mut [f32], logits: &[f32], terms: [f32; 3]) {
        let [logsumexp, factor, floor] = terms;
        if logsumexp == f32::INFINITY {
            out.fill(0.0);
            return;
        }
        for (out, &logit) in out.iter_mut().zip(logits) {
            *out = factor * exp(logit - logsumexp) - floor;
        }
    }
}

/// ln P of every id of the vocabulary and of every word that only the source has: rows × (vocab_size + source length).
/// Ids that no word of the row's sentence has are impossible (−∞). Without gradients, in CPU memory.
///
/// # Errors
/// If the shapes do not fit together, a source id is outside, or a device fails.
pub fn copy_distribution(mixture: CopyMixture<'_>) -> Result<Tensor> {
    const NAME: &str = "copy_distribution";
    let CopySizes { rows, vocab_size, source, per_sentence } = mixture.sizes(NAME)?;
    #[cfg(feature = "cuda")]
    let sources = &mixture.sources.to_host()?;
    #[cfg(not(feature = "cuda"))]
    let sources = mixture.sources;
    let sources = sources.host();
    let width = vocab_size + source;
    if let Some((position, &id)) = sources.iter().enumerate().find(|(_, id)| **id as usize >= width) {
        return Err(Error::Id { operation: NAME, id, position, vocab_size: width });
    }
    let [logits, weights, gate] =
        [mixture.logits, mixture.weights, mixture.gate].map(|var| var.value().to_host());
    let (logits, weights, gate) = (logits?, weights?, gate?);
    let mut out = Tensor::uninit(&[rows, width]);
    parallel::rows(out.data_mut(), width, |first, block| {
        for (offset, out) in block.chunks_exact_mut(width).enumerate() {
            let row = first + offset;
            let start = row / per_sentence * source;
            let [to_generate, to_copy] = log_gates(gate.data()[row]);
            let (known, more) = out.split_at_mut(vocab_size);
            let own = &logits.data()[row * vocab_size..][..vocab_size];
            shifted(known, own, to_generate - row_loss(own, 0, 0.0).1);
            more.fill(f32::NEG_INFINITY);
            add_copies(
                out,
                &sources[start..start + source],
                &weights.data()[row * source..][..source],
                to_copy,
            );
        }
    });
    Ok(out)
}

vectorised! {
    fn shifted(out: &mut [f32], from: &[f32], by: f32) {
        for (out, from) in out.iter_mut().zip(from) {
            *out = from + by;
        }
    }
}

/// Adds the probability of copying to that of each id, the weights of equal ids in their order.
fn add_copies(out: &mut [f32], sources: &[u32], weights: &[f32], to_copy: f32) {
    for (first, &id) in sources.iter().enumerate() {
        if sources[..first].contains(&id) {
            continue;
        }
        let equal = sources.iter().zip(weights).filter(|(source, _)| **source == id);
        let copied = equal.fold(0.0, |sum, (_, weight)| sum + weight);
        if copied > 0.0 {
            out[id as usize] = log_add(out[id as usize], to_copy + ln(copied));
        }
    }
}

/// Mean over the target positions of Σ_i min(a_i, c_i), c being the sum of the weights of the positions before it: attending
/// to the same source word again costs. `weights` are batch × target length × source length; positions whose expected id
/// is `ignored_id` do not count.
///
/// # Errors
/// If the shapes do not fit together.
pub fn coverage_loss(tape: &Tape, weights: &Var, expected: &Indices, ignored_id: Option<u32>) -> Result<Var> {
    let &[batch, target, source] = weights.shape() else {
        return shape("coverage_loss", "weights", weights.shape(), "batch × target length × source length");
    };
    if expected.len() != batch * target {
        return shape("coverage_loss", "expected", &[expected.len()], format!("[{}]", batch * target));
    }
    on_gpu!(weights.value() => {
        Ok(crate::cuda::ops::copying::coverage_loss(tape, weights, expected, ignored_id))
    });
    let counts: Vec<bool> = expected.host().iter().map(|&id| Some(id) != ignored_id).collect();
    let count = counts.iter().filter(|counts| **counts).count().max(1);
    let size = target * source;
    let of_sentence = |sentence: usize| {
        let all = &weights.value().data()[sentence * size..(sentence + 1) * size];
        let (mut covered, mut total) = (vec![0.0_f32; source], 0.0_f64);
        for (t, row) in all.chunks_exact(source.max(1)).enumerate() {
            if counts[sentence * target + t] {
                total += row.iter().zip(&covered).map(|(a, c)| f64::from(a.min(*c))).sum::<f64>();
            }
            covered.iter_mut().zip(row).for_each(|(covered, weight)| *covered += weight);
        }
        total
    };
    let totals: Vec<f64> = (0..batch).into_par_iter().map(of_sentence).collect();
    let mean = (totals.iter().sum::<f64>() / count as f64) as f32;
    let input = weights.clone();
    Ok(tape.record(Tensor::scalar(mean), &[weights], move |gradient, gradients| {
        let weight = gradient.data()[0] / count as f32;
        let mut out = Tensor::zeros(input.shape());
        out.data_mut().par_chunks_mut(size.max(1)).enumerate().for_each(|(sentence, out)| {
            let all = &input.value().data()[sentence * size..(sentence + 1) * size];
            spread_back(out, (all, &counts[sentence * target..]), source, weight);
        });
        gradients.add(&input, &out);
    }))
}

/// Gradient of the weights of one sentence: that of a_t where it is the smaller, and that of every later coverage.
fn spread_back(out: &mut [f32], (all, counts): (&[f32], &[bool]), source: usize, weight: f32) {
    let target = out.len() / source.max(1);
    for i in 0..source {
        let mut covered = Vec::with_capacity(target);
        let mut sum = 0.0;
        for t in 0..target {
            covered.push(sum);
            sum += all[t * source + i];
        }
        let mut later = 0.0;
        for t in (0..target).rev() {
            let own = counts[t] && all[t * source + i] < covered[t];
            out[t * source + i] = later + if own { weight } else { 0.0 };
            if counts[t] && !own {
                later += weight;
            }
        }
    }
}
