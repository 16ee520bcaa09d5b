//! Scaled dot-product attention with several heads: softmax(scale · Q·Kᵀ, masked)·V for each head.
//!
//! Vaswani et al. 2017. Q is batch × q_len × (n_heads·d_head), K and V are batch × k_len × (n_heads·d_head); a head reads
//! its columns in place. Blocks of 56 queries go through at a time, so the weights of a whole sequence are never
//! kept (after Dao et al. 2022): memory grows with the length, not with its square. Kept for the way back: the
//! logsumexp of each query's scores. With P the weights, P' the weights after dropout:
//!
//! dV = P'ᵀ·dO, dP = dropout(dO·Vᵀ), dS = P ∘ (dP − rowsum(P ∘ dP)), dQ = scale·dS·K, dK = scale·dSᵀ·Q.
//!
//! A query that may attend to nothing gives zeros.

use rayon::prelude::*;

use super::dropout::Mask;
use crate::Result;
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut, Output, gemm_serial};
use crate::lanes::{exp, ln, max, sum, sum2, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Queries that go through at a time.
const BLOCK: usize = 56;

/// Whether a query sees later keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// All keys.
    #[default]
    Both,
    /// Keys up to its own place; the last query stands at the last key.
    Causal,
}

/// How attention is computed.
#[derive(Debug, Clone, Default)]
pub struct AttentionOptions {
    /// Heads; they share the last axis evenly.
    pub n_heads: usize,
    /// Scores are multiplied with this; 1/√d_head for `None`.
    pub scale: Option<f32>,
    /// Whether a query sees later keys; it does.
    pub direction: Direction,
    /// Keys that exist in each row of the batch, the others are padding; all for `None`.
    pub key_lengths: Option<Vec<usize>>,
    /// Added to the scaled scores, n_heads × q_len × k_len, the same for all rows of the batch; it gets no gradient.
    pub bias: Option<Tensor>,
    /// Probability of dropping a weight in training; 0.
    pub dropout: f32,
}

/// The weights that [`attention`] mixes values with: batch × n_heads × q_len × k_len, without dropout and gradients.
///
/// # Errors
/// If the shapes do not fit together.
pub fn attention_weights(query: &Tensor, key: &Tensor, options: &AttentionOptions) -> Result<Tensor> {
    let [query, key] = [query, key].map(|tensor| Var::constant(tensor.clone()));
    let plan = Plan::new(&Tape::inference(), [&query, &key, &key], options)?;
    let mut out = Tensor::zeros(&[plan.batch, plan.n_heads, plan.q_len, plan.k_len]);
    let data = [&query, &key].map(|var| var.value().data());
    let sequence = (plan.q_len * plan.k_len).max(1);
    out.data_mut().par_chunks_mut(sequence).enumerate().for_each(|(index, out)| {
        SCRATCH.with_borrow_mut(|[weights, ..]| {
            for block @ [first, _, seen] in plan.blocks(index).filter(|[_, _, seen]| *seen > 0) {
                plan.weights(index, data, block, weights, |_, _| {});
                for (offset, weights) in weights.chunks_exact(seen).enumerate() {
                    let start = (first + offset) * plan.k_len;
                    out[start..start + seen].copy_from_slice(weights);
                }
            }
        });
    });
    Ok(out)
}

/// Attention of `query` to `key` and `value`; the result has the shape of `query`.
///
/// # Errors
/// If the shapes do not fit together.
pub fn attention(
    tape: &Tape,
    query: &Var,
    key: &Var,
    value: &Var,
    options: &AttentionOptions,
) -> Result<Var> {
    let plan = Plan::new(tape, [query, key, value], options)?;
    let mut out = Tensor::uninit(query.shape());
    let mut logsumexp = Tensor::uninit(&[plan.batch, plan.n_heads, plan.q_len]);
    let (out_shared, data) =
        (Address(out.data_mut().as_mut_ptr()), [query, key, value].map(|var| var.value().data()));
    let q_len = plan.q_len.max(1);
    logsumexp.data_mut().par_chunks_mut(q_len).enumerate().for_each(|(index, logsumexp)| {
        // SAFETY: each task writes the columns of its own head in its own row of the batch.
        unsafe { plan.forward(index, data, out_shared, logsumexp) };
    });
    let saved = Saved { inputs: [query, key, value].map(Clone::clone), logsumexp, plan };
    Ok(tape.record(out, &[query, key, value], move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// Sizes and settings, the same for every head.
struct Plan {
    batch: usize,
    q_len: usize,
    k_len: usize,
    n_heads: usize,
    d_head: usize,
    scale: f32,
    direction: Direction,
    key_lengths: Option<Vec<usize>>,
    bias: Option<Tensor>,
    mask: Option<Mask>,
}

/// An address that tasks share; each writes its own part.
#[derive(Clone, Copy)]
struct Address(*mut f32);

// SAFETY: tasks write disjoint parts, and the tensor outlives them.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Plan {
    fn new(tape: &Tape, [query, key, value]: [&Var; 3], options: &AttentionOptions) -> Result<Self> {
        let &[batch, q_len, d_model] = query.shape() else {
            return shape("attention", "query", query.shape(), "batch × length × d_model");
        };
        let n_heads = options.n_heads;
        if n_heads == 0 || !d_model.is_multiple_of(n_heads) {
            return shape(
                "attention",
                "query",
                query.shape(),
                format!("a last axis that {n_heads} heads can share"),
            );
        }
        let k_len = key.shape().get(1).copied().unwrap_or(0);
        for (name, var) in [("key", key), ("value", value)] {
            if var.shape() != [batch, k_len, d_model] {
                return shape("attention", name, var.shape(), format!("[{batch}, {k_len}, {d_model}]"));
            }
        }
        if let Some(lengths) = options.key_lengths.as_ref().filter(|lengths| lengths.len() != batch) {
            return shape("attention", "key_lengths", &[lengths.len()], format!("[{batch}]"));
        }
        if let Some(bias) = options.bias.as_ref().filter(|bias| bias.shape() != [n_heads, q_len, k_len]) {
            return shape("attention", "bias", bias.shape(), format!("[{n_heads}, {q_len}, {k_len}]"));
        }
        let d_head = d_model / n_heads;
        let scale = options.scale.unwrap_or(1.0 / (d_head as f32).sqrt());
        let mask = Mask::draw(tape, options.dropout)?;
        let AttentionOptions { direction, key_lengths, bias, .. } = options.clone();
        Ok(Self { batch, q_len, k_len, n_heads, d_head, scale, direction, key_lengths, bias, mask })
    }

    /// Keys that query `q` of row `row` may attend to: the first so many.
    fn visible(&self, row: usize, q: usize) -> usize {
        let exists = self.key_lengths.as_ref().map_or(self.k_len, |lengths| lengths[row].min(self.k_len));
        match self.direction {
            Direction::Both => exists,
            Direction::Causal => exists.min((q + 1 + self.k_len).saturating_sub(self.q_len)),
        }
    }

    fn d_model(&self) -> usize {
        self.n_heads * self.d_head
    }

    /// The first number of a head's columns at `position` of a sequence of `len`.
    fn at(&self, index: usize, len: usize, position: usize) -> usize {
        let (row, head) = (index / self.n_heads, index % self.n_heads);
        (row * len + position) * self.d_model() + head * self.d_head
    }

    /// A head's columns of `rows` positions from `position` on.
    fn head<'a>(
        &self,
        data: &'a [f32],
        index: usize,
        len: usize,
        [position, rows]: [usize; 2],
    ) -> Matrix<'a> {
        Matrix::strided(&data[self.at(index, len, position)..], [rows, self.d_head], [self.d_model(), 1])
    }

    /// The same, to write.
    ///
    /// # Safety
    /// The tensor at `address` has this plan's layout, and nobody else touches these columns meanwhile.
    unsafe fn head_mut<'a>(
        &self,
        address: Address,
        index: usize,
        len: usize,
        [position, rows]: [usize; 2],
    ) -> MatrixMut<'a> {
        // SAFETY: promised by the caller.
        unsafe {
            let start = address.0.add(self.at(index, len, position));
            MatrixMut::from_raw(start, [rows, self.d_head], self.d_model())
        }
    }

    /// Blocks of queries: first query, how many, and keys that any of them sees.
    fn blocks(&self, index: usize) -> impl Iterator<Item = [usize; 3]> {
        let row = index / self.n_heads;
        (0..self.q_len).step_by(BLOCK).map(move |first| {
            let count = BLOCK.min(self.q_len - first);
            let seen = (first..first + count).map(|q| self.visible(row, q)).max().unwrap_or(0);
            [first, count, seen]
        })
    }

    /// Weights of a block of queries, `count × seen`; `take` is told each query's logsumexp.
    fn weights(
        &self,
        index: usize,
        data: [&[f32]; 2],
        block: [usize; 3],
        out: &mut Vec<f32>,
        mut take: impl FnMut(usize, f32),
    ) {
        let [first, _, seen] = block;
        self.scores(index, data, block, out);
        for (offset, scores) in out.chunks_exact_mut(seen).enumerate() {
            take(first + offset, softmax(scores, self.visible(index / self.n_heads, first + offset)));
        }
    }

    /// Scores of a block of queries, scaled and with the bias, `count × seen`.
    fn scores(
        &self,
        index: usize,
        [query, key]: [&[f32]; 2],
        [first, count, seen]: [usize; 3],
        out: &mut Vec<f32>,
    ) {
        out.resize(count * seen, 0.0);
        let (q, k) = (
            self.head(query, index, self.q_len, [first, count]),
            self.head(key, index, self.k_len, [0, seen]),
        );
        gemm_serial(&mut MatrixMut::new(out, count, seen), q, k.t(), Output::Overwrite);
        let bias = self.bias.as_ref().map(|bias| {
            // One bias for all rows of the batch, by head, query and key.
            let start = (index % self.n_heads * self.q_len + first) * self.k_len;
            &bias.data()[start..start + count * self.k_len]
        });
        scale_scores(out, seen, self.scale, bias.map(|bias| (bias, self.k_len)));
    }

    /// Drops weights of a block as its place in batch × head × query × key says.
    fn drop_weights(&self, index: usize, [first, _, seen]: [usize; 3], weights: &mut [f32]) {
        if let (Some(mask), true) = (self.mask, seen > 0) {
            for (offset, row) in weights.chunks_exact_mut(seen).enumerate() {
                mask.apply((index * self.q_len + first + offset) * self.k_len, row);
            }
        }
    }

    /// One head of one row of the batch.
    ///
    /// # Safety
    /// Nobody else writes this head's columns of `out`.
    unsafe fn forward(
        &self,
        index: usize,
        [query, key, value]: [&[f32]; 3],
        out: Address,
        logsumexp: &mut [f32],
    ) {
        SCRATCH.with_borrow_mut(|[weights, ..]| {
            for block @ [first, count, seen] in self.blocks(index) {
                // SAFETY: promised by the caller.
                let mut context = unsafe { self.head_mut(out, index, self.q_len, [first, count]) };
                if seen == 0 {
                    logsumexp[first..first + count].fill(f32::INFINITY);
                    context.fill(0.0);
                    continue;
                }
                self.weights(index, [query, key], block, weights, |query, sum| logsumexp[query] = sum);
                self.drop_weights(index, block, weights);
                let value = self.head(value, index, self.k_len, [0, seen]);
                gemm_serial(&mut context, Matrix::new(weights, count, seen), value, Output::Overwrite);
            }
        });
    }

    /// Gradients of one head of one row of the batch.
    ///
    /// # Safety
    /// Nobody else writes this head's columns of the three gradients.
    unsafe fn backward(&self, index: usize, forward: &Forward<'_>, out: [Address; 3]) {
        let row = index / self.n_heads;
        let [query, key, value] = forward.inputs;
        // SAFETY: promised by the caller.
        let [mut d_key, mut d_value] =
            [1, 2].map(|side| unsafe { self.head_mut(out[side], index, self.k_len, [0, self.k_len]) });
        d_key.fill(0.0);
        d_value.fill(0.0);
        SCRATCH.with_borrow_mut(|[weights, dropped, gradient]| {
            for block @ [first, count, seen] in self.blocks(index) {
                // SAFETY: promised by the caller.
                let mut d_query = unsafe { self.head_mut(out[0], index, self.q_len, [first, count]) };
                if seen == 0 {
                    d_query.fill(0.0);
                    continue;
                }
                self.scores(index, [query, key], block, weights);
                for (offset, scores) in weights.chunks_exact_mut(seen).enumerate() {
                    let known = forward.logsumexp[index * self.q_len + first + offset];
                    weights_again(scores, self.visible(row, first + offset), known);
                }
                dropped.clone_from(weights);
                self.drop_weights(index, block, dropped);
                let d_out = self.head(forward.gradient, index, self.q_len, [first, count]);
                let shape = [count, seen];
                // SAFETY: the first `seen` keys of this head's columns.
                let [mut d_key, mut d_value] =
                    [1, 2].map(|side| unsafe { self.head_mut(out[side], index, self.k_len, [0, seen]) });
                gemm_serial(&mut d_value, Matrix::new(dropped, count, seen).t(), d_out, Output::Accumulate);
                gradient.resize(count * seen, 0.0);
                let values = self.head(value, index, self.k_len, [0, seen]);
                gemm_serial(
                    &mut MatrixMut::new(gradient, shape[0], shape[1]),
                    d_out,
                    values.t(),
                    Output::Overwrite,
                );
                self.drop_weights(index, block, gradient);
                for (gradient, weights) in gradient.chunks_exact_mut(seen).zip(weights.chunks_exact(seen)) {
                    differentiate(gradient, weights, self.scale);
                }
                let scores = Matrix::new(gradient, count, seen);
                let keys = self.head(key, index, self.k_len, [0, seen]);
                gemm_serial(&mut d_query, scores, keys, Output::Overwrite);
                let queries = self.head(query, index, self.q_len, [first, count]);
                gemm_serial(&mut d_key, scores.t(), queries, Output::Accumulate);
            }
        });
    }
}

thread_local! {
    /// Each thread's blocks of weights and their gradients, kept between calls.
    static SCRATCH: std::cell::RefCell<[Vec<f32>; 3]> = const { std::cell::RefCell::new([Vec::new(), Vec::new(), Vec::new()]) };
}

/// What the way back needs to know.
struct Forward<'a> {
    inputs: [&'a [f32]; 3],
    logsumexp: &'a [f32],
    gradient: &'a [f32],
}

struct Saved {
    inputs: [Var; 3],
    logsumexp: Tensor,
    plan: Plan,
}

impl Saved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let mut out = [0, 1, 2].map(|side: usize| Tensor::uninit(self.inputs[side].shape()));
        let addresses = out.each_mut().map(|tensor| Address(tensor.data_mut().as_mut_ptr()));
        let forward = Forward {
            inputs: self.inputs.each_ref().map(|input| input.value().data()),
            logsumexp: self.logsumexp.data(),
            gradient: gradient.data(),
        };
        (0..self.plan.batch * self.plan.n_heads).into_par_iter().for_each(|index| {
            // SAFETY: each task writes the columns of its own head in its own row of the batch.
            unsafe { self.plan.backward(index, &forward, addresses) };
        });
        for (input, gradient) in self.inputs.iter().zip(out) {
            gradients.add(input, &gradient);
        }
    }
}

vectorised! {
    /// scale · score + bias for rows of `seen` scores; a bias row is longer by the keys that nobody in the block sees.
    fn scale_scores(scores: &mut [f32], seen: usize, scale: f32, bias: Option<(&[f32], usize)>) {
        match bias {
            None => {
                for score in scores {
                    *score *= scale;
                }
            }
            Some((bias, width)) => {
                for (scores, bias) in scores.chunks_exact_mut(seen).zip(bias.chunks_exact(width)) {
                    for (score, bias) in scores.iter_mut().zip(bias) {
                        *score = *score * scale + bias;
                    }
                }
            }
        }
    }
}

vectorised! {
    /// Turns the first `visible` scores into weights and the rest into 0; returns the logsumexp, ∞ for no score.
    fn softmax(scores: &mut [f32], visible: usize) -> f32 {
        let (seen, hidden) = scores.split_at_mut(visible);
        hidden.fill(0.0);
        if seen.is_empty() {
            return f32::INFINITY;
        }
        let largest = max(seen);
        for score in seen.iter_mut() {
            *score = exp(*score - largest);
        }
        let total = sum(seen, |weight| weight);
        let inverse = 1.0 / total;
        for weight in seen.iter_mut() {
            *weight *= inverse;
        }
        largest + ln(total)
    }
}

vectorised! {
    /// The weights once more, from the scores and their logsumexp.
    fn weights_again(scores: &mut [f32], visible: usize, logsumexp: f32) {
        let (seen, hidden) = scores.split_at_mut(visible);
        hidden.fill(0.0);
        for score in seen {
            *score = exp(*score - logsumexp);
        }
    }
}

vectorised! {
    /// scale · P ∘ (dP − Σ P ∘ dP) in place of dP.
    fn differentiate(gradient: &mut [f32], weights: &[f32], scale: f32) {
        let mean = sum2(weights, gradient, |weight, gradient| weight * gradient);
        for (gradient, weight) in gradient.iter_mut().zip(weights) {
            *gradient = scale * weight * (*gradient - mean);
        }
    }
}
