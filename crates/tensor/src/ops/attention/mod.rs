//! Scaled dot-product attention with several heads: softmax(scale · Q·Kᵀ, masked)·V for each head.
//!
//! Vaswani et al. 2017. Q is batch × q_len × (n_heads·d_key), K is batch × k_len × (n_key_heads·d_key), V is batch ×
//! k_len × (n_key_heads·d_value); a head reads its columns in place, and all three may be columns of one projection.
//! Queries are processed in blocks of 56, many keys in parts of 1,024, so the weights of a whole sequence are never
//! stored (after Dao et al. 2022): memory grows with the length, not with its square. Keys that no query of a block
//! attends to are skipped. Saved for the backward pass: the logsumexp of each query's scores. With P the weights, P' the
//! weights after dropout:
//!
//! dV = P'ᵀ·dO, dP = dropout(dO·Vᵀ), dS = P ∘ (dP − rowsum(P ∘ dP)), dQ = scale·dS·K, dK = scale·dSᵀ·Q.
//!
//! Where keys come in parts the result O is saved too, for rowsum(dO ∘ O), which is the same sum.
//!
//! A query that may attend to nothing gives zeros.

mod block;
mod cached;
mod kernel;
mod keys_values;
mod pattern;
mod plan;
mod relative;
mod rows;
mod step;
mod step_rows;

use std::sync::Arc;

use rayon::prelude::*;

pub use self::cached::{CachedOptions, cached_attention, cached_weights};
use self::kernel::{Forward, Gradient, SCRATCH};
pub use self::keys_values::{CacheShape, KeysValues};
pub use self::pattern::{Pattern, join};
use self::plan::Address;
pub(crate) use self::plan::{AttentionPlan, HeadLayout};
pub use self::relative::Relative;
pub use self::step::{AttentionOutput, StepOptions, cross_step, self_step};
pub use self::step_rows::{Joined, Regroup, StepAttentionPattern, StepRows};
use crate::Result;
use crate::indices::Indices;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Attention mask: bidirectional or causal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// A query attends to all keys.
    #[default]
    Both,
    /// A query attends to keys up to its own position; the last query is at the last key.
    Causal,
}

/// Kernels that attention may use on a GPU; see [`crate::Device::set_attention_kernels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttentionKernels {
    /// The fastest for the shape and the GPU.
    #[default]
    Fastest,
    /// Those that any supported GPU can run.
    Portable,
    /// Portable ones, without those for long sequences.
    Untiled,
}

/// Options of attention.
#[derive(Debug, Clone, Default)]
pub struct AttentionOptions {
    /// Number of heads; they divide the last axis of the query evenly.
    pub n_heads: usize,
    /// Number of key and value heads, each shared by n_heads / n_key_heads consecutive query heads. Default: n_heads.
    pub n_key_heads: Option<usize>,
    /// Factor of the scores. Default: 1/√d_key.
    pub scale: Option<f32>,
    /// Attention mask. Default: both directions.
    pub direction: Direction,
    /// Number of keys in each row of the batch, the others are padding. Default: all.
    pub key_lengths: Option<Indices>,
    /// Attention pattern, the same for all rows of the batch. Default: full attention.
    pub pattern: Option<Arc<Pattern>>,
    /// Added to the scaled scores, n_heads × q_len × k_len, the same for all rows of the batch; gets no gradient.
    /// Default: none.
    pub bias: Option<Tensor>,
    /// Vectors of relative distances, added to keys and values. Default: none.
    pub relative: Option<Relative>,
    /// Probability of dropping a weight in training. Default: 0.
    pub dropout: f32,
}

/// Consecutive columns of an input; `into` turns a whole input into one.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The input, batch × length × width.
    pub var: &'a Var,
    /// The first column.
    pub start: usize,
    /// Number of columns.
    pub width: usize,
}

impl<'a> From<&'a Var> for Columns<'a> {
    fn from(var: &'a Var) -> Self {
        Self { var, start: 0, width: var.shape().last().copied().unwrap_or(0) }
    }
}

/// The weights of [`attention`]: batch × n_heads × q_len × k_len, without dropout and gradients, in CPU memory.
///
/// # Errors
/// If the shapes do not fit together.
pub fn attention_weights<'a>(
    query: impl Into<Columns<'a>>,
    key: impl Into<Columns<'a>>,
    options: &AttentionOptions,
) -> Result<Tensor> {
    let (query, key) = (query.into(), key.into());
    on_gpu!(query.var.value() => crate::cuda::ops::attention::weights([query, key], options));
    // Values are not needed here; the keys are passed in their place.
    let relative = options.relative.clone().map(|relative| Relative { values: None, ..relative });
    let options = AttentionOptions { relative, ..options.clone() };
    let plan = AttentionPlan::new(&Tape::inference(), [query, key, key], &options)?;
    let mut out = Tensor::zeros(&[plan.batch, plan.n_heads, plan.q_len, plan.k_len]);
    let data = [query, key].map(|side| side.var.value().data());
    let sequence = (plan.q_len * plan.k_len).max(1);
    out.data_mut().par_chunks_mut(sequence).enumerate().for_each(|(index, out)| {
        let mut copy = Vec::new();
        let keys = plan.head(1, data[1], plan.heads(index).1, &mut copy);
        SCRATCH.with_borrow_mut(|scratch| {
            for block in plan.blocks(index / plan.n_heads).filter(|block| block.n_keys > 0) {
                plan.weights(index, data[0], keys, &block, scratch, |_, _| {});
                for (query, weights) in block.queries().zip(scratch.weights.chunks_exact(block.n_keys)) {
                    for (column, key) in block.keys_by_column() {
                        out[query * plan.k_len + key] = weights[column];
                    }
                }
            }
        });
    });
    Ok(out)
}

/// Attention of `query` to `key` and `value`: batch × q_len × (n_heads·d_value).
///
/// # Errors
/// If the shapes do not fit together.
pub fn attention<'a>(
    tape: &Tape,
    query: impl Into<Columns<'a>>,
    key: impl Into<Columns<'a>>,
    value: impl Into<Columns<'a>>,
    options: &AttentionOptions,
) -> Result<Var> {
    let sides = [query.into(), key.into(), value.into()];
    on_gpu!(sides[0].var.value() => crate::cuda::ops::attention::attention(tape, sides, options));
    let plan = AttentionPlan::new(tape, sides, options)?;
    let mut out = Tensor::uninit(&[plan.batch, plan.q_len, plan.n_heads * plan.sides[2].d_head]);
    let mut logsumexp = Tensor::uninit(&[plan.batch, plan.n_heads, plan.q_len]);
    let (out_shared, data) =
        (Address(out.data_mut().as_mut_ptr()), sides.map(|side| side.var.value().data()));
    let q_len = plan.q_len.max(1);
    logsumexp.data_mut().par_chunks_mut(q_len).enumerate().for_each(|(index, logsumexp)| {
        // SAFETY: each task writes the columns of its own head in its own row of the batch.
        unsafe { plan.forward(index, data, out_shared, logsumexp) };
    });
    let tables = options.relative.as_ref().map_or_else(Vec::new, Relative::tables);
    let inputs: Vec<&Var> = sides.iter().map(|side| side.var).chain(tables.iter()).collect();
    let saved = AttentionSaved {
        inputs: sides.map(|side| side.var.clone()),
        tables: tables.clone(),
        logsumexp,
        out: plan.has_parts().then(|| out.clone()),
        plan,
    };
    Ok(tape.record(out, &inputs, move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// State saved for the backward pass.
struct AttentionSaved {
    inputs: [Var; 3],
    tables: Vec<Var>,
    logsumexp: Tensor,
    /// The result, if some block is computed in parts.
    out: Option<Tensor>,
    plan: AttentionPlan,
}

impl AttentionSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let make = |input: &Var, is_covered| {
            if is_covered { Tensor::uninit(input.shape()) } else { Tensor::zeros(input.shape()) }
        };
        let (mut tensors, tensor_of) = gradient_tensors(&self.inputs, &self.plan.sides, make);
        let addresses: Vec<Address> =
            tensors.iter_mut().map(|(_, tensor)| Address(tensor.data_mut().as_mut_ptr())).collect();
        let forward = Forward {
            inputs: self.inputs.each_ref().map(|input| input.value().data()),
            logsumexp: self.logsumexp.data(),
            out: self.out.as_ref().map(Tensor::data),
            gradient: gradient.data(),
        };
        let plan = &self.plan;
        let n_tasks = plan.batch * plan.n_key_heads;
        let mut partial: Vec<Tensor> =
            self.tables.iter().map(|table| Tensor::zeros(&[n_tasks, table.value().len()])).collect();
        let partial_addresses: Vec<Address> =
            partial.iter_mut().map(|tensor| Address(tensor.data_mut().as_mut_ptr())).collect();
        let out = Gradient { sides: tensor_of.map(|index| addresses[index]), tables: &partial_addresses };
        (0..n_tasks).into_par_iter().for_each(|task| {
            // SAFETY: each task writes the columns of its own heads in its own row of the batch, and its own row of
            // the partial sums.
            unsafe { plan.backward(task, &forward, &out) };
        });
        for (input, gradient) in &tensors {
            gradients.add(input, gradient);
        }
        for (table, partial) in self.tables.iter().zip(&partial) {
            gradients.update(table, |out, output| super::linear::sum_rows(out, partial.data(), output));
        }
    }
}

/// Returns a tensor for each distinct input, and which of them belongs to query, key and value. Sides share one if they
/// are different columns of one input. The second argument of `make` is true if the sides cover all columns.
pub(crate) fn gradient_tensors<'a>(
    inputs: &'a [Var; 3],
    sides: &[HeadLayout; 3],
    make: impl Fn(&Var, bool) -> Tensor,
) -> (Vec<(&'a Var, Tensor)>, [usize; 3]) {
    let shared = |a: usize, b: usize| {
        let one = inputs[a].is_same(&inputs[b]) && inputs[a].shape() == inputs[b].shape();
        a == b || one && !sides[a].overlaps(sides[b])
    };
    let mut tensors: Vec<(&Var, Tensor)> = Vec::new();
    let mut tensor_of = [0, 1, 2];
    for side in 0..3 {
        if let Some(known) = (0..side).find(|&known| shared(known, side)) {
            tensor_of[side] = tensor_of[known];
            continue;
        }
        let input = &inputs[side];
        let covered: usize =
            (side..3).filter(|&other| shared(side, other)).map(|other| sides[other].width()).sum();
        tensor_of[side] = tensors.len();
        tensors.push((input, make(input, input.shape().last() == Some(&covered))));
    }
    (tensors, tensor_of)
}
