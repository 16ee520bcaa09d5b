//! One head of one row of the batch, forward and backward, block by block.

use super::block::Block;
use super::pattern::MAX_QUERIES;
use super::plan::{Address, AttentionPlan, Head, HeadGradient};
use super::rows::{RunningSoftmax, differentiate, dot, recompute_weights, scale, softmax};
use crate::gemm::{Matrix, MatrixMut, Output, gemm_serial};
use crate::lanes::add_assign;

thread_local! {
    /// Each thread's blocks of weights and their gradients, reused between calls.
    pub(super) static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}

/// Buffers of one block.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) weights: Vec<f32>,
    dropped: Vec<f32>,
    gradient: Vec<f32>,
    by_distance: Vec<f32>,
    row: Vec<f32>,
    /// Copies of keys and values, and the sums of their gradients.
    copies: [Vec<f32>; 2],
    sums: [Vec<f32>; 2],
}

/// The backward pass of one head of keys and values.
struct HeadBackward<'a> {
    forward: &'a Forward<'a>,
    out: &'a Gradient<'a>,
    /// Keys and values.
    heads: [Head<'a>; 2],
    /// Their gradients.
    sums: [HeadGradient; 2],
}

/// Inputs of the backward pass.
pub(super) struct Forward<'a> {
    pub(super) inputs: [&'a [f32]; 3],
    pub(super) logsumexp: &'a [f32],
    /// The result, for blocks in parts: the rows of P ∘ dP that each sees are not whole.
    pub(super) out: Option<&'a [f32]>,
    pub(super) gradient: &'a [f32],
}

/// Outputs of the backward pass.
pub(super) struct Gradient<'a> {
    /// Of query, key and value.
    pub(super) sides: [Address; 3],
    /// Of the tables of distances, a partial sum per task.
    pub(super) tables: &'a [Address],
}

impl AttentionPlan {
    /// Weights of a block of queries, queries × keys; `take` gets each query's logsumexp.
    pub(super) fn weights(
        &self,
        index: usize,
        query: &[f32],
        keys: Head<'_>,
        block: &Block<'_>,
        scratch: &mut Scratch,
        mut take: impl FnMut(usize, f32),
    ) {
        self.scores(index, query, keys, block, scratch);
        let row = index / self.n_heads;
        let Scratch { weights, row: spare, .. } = scratch;
        let rows = block.queries().zip(weights.chunks_exact_mut(block.n_keys));
        for (offset, (query, scores)) in rows.enumerate() {
            let seen = block.seen(offset, self.visible(row, query));
            take(query, softmax(scores, seen, spare));
        }
    }

    /// Scores of a block of queries, scaled and with the bias, queries × keys, into `weights` of the scratch.
    fn scores(&self, index: usize, query: &[f32], keys: Head<'_>, block: &Block<'_>, scratch: &mut Scratch) {
        let own = self.heads(index).0;
        let Scratch { weights: out, by_distance, .. } = scratch;
        out.resize(block.queries.count * block.n_keys, 0.0);
        let queries = self.sides[0].head(query, own, block.queries);
        for (column, run) in block.runs() {
            let keys = keys.rows(run).t();
            gemm_serial(&mut columns_of(out, block, column, run.count), queries, keys, Output::Overwrite);
        }
        if let Some(relative) = &self.options.relative {
            by_distance.resize(block.queries.count * relative.n_distances(), 0.0);
            let table = relative.keys.value().data();
            let table = Matrix::new(table, relative.n_distances(), self.sides[1].d_head);
            let mut target = MatrixMut::new(by_distance, block.queries.count, relative.n_distances());
            gemm_serial(&mut target, queries, table.t(), Output::Overwrite);
            relative.spread(block, self.offset(), by_distance, out);
        }
        scale(out, self.scale);
        self.add_bias(own[1], block, out);
    }

    /// Adds the bias of a head, which all rows of the batch share.
    fn add_bias(&self, head: usize, block: &Block<'_>, scores: &mut [f32]) {
        let Some(bias) = &self.options.bias else { return };
        for (query, scores) in block.queries().zip(scores.chunks_exact_mut(block.n_keys)) {
            let bias = &bias.data()[(head * self.q_len + query) * self.k_len..][..self.k_len];
            for (column, run) in block.runs() {
                let scores = &mut scores[column..column + run.count];
                if run.step == 1 {
                    add_assign(scores, &bias[run.first..run.first + run.count]);
                } else {
                    scores.iter_mut().zip(run.positions()).for_each(|(score, key)| *score += bias[key]);
                }
            }
        }
    }

    /// Applies dropout to the weights of a block; the mask is indexed by batch × head × query × key.
    fn drop_weights(&self, index: usize, block: &Block<'_>, weights: &mut [f32]) {
        let Some(mask) = self.mask else { return };
        if let Some([query, key]) = block.corner() {
            let start = (index * self.q_len + query) * self.k_len + key;
            return mask.apply_rows(start, self.k_len, weights, block.n_keys);
        }
        for (query, weights) in block.queries().zip(weights.chunks_exact_mut(block.n_keys)) {
            let start = (index * self.q_len + query) * self.k_len;
            for (column, run) in block.runs() {
                let weights = &mut weights[column..column + run.count];
                if run.step == 1 {
                    mask.apply(start + run.first, weights);
                } else {
                    for (weight, key) in weights.iter_mut().zip(run.positions()) {
                        mask.apply(start + key, std::slice::from_mut(weight));
                    }
                }
            }
        }
    }

    /// One head of one row of the batch.
    ///
    /// # Safety
    /// Nobody else writes this head's columns of `out`.
    pub(super) unsafe fn forward(
        &self,
        index: usize,
        [query, key, value]: [&[f32]; 3],
        out: Address,
        logsumexp: &mut [f32],
    ) {
        let (own, group) = self.heads(index);
        SCRATCH.with_borrow_mut(|scratch| {
            let mut copies = std::mem::take(&mut scratch.copies);
            let [of_keys, of_values] = &mut copies;
            let keys = self.head(1, key, group, of_keys);
            let values = self.head(2, value, group, of_values);
            for block in self.blocks(own[0]) {
                // SAFETY: the caller guarantees that nobody else writes this head's columns.
                let mut context = unsafe { self.out.head_mut(out, own, block.queries) };
                if block.n_keys == 0 {
                    block.queries().for_each(|query| logsumexp[query] = f32::INFINITY);
                    context.fill(0.0);
                    continue;
                }
                if block.has_parts() {
                    let rows =
                        self.forward_in_parts(index, query, [keys, values], &block, scratch, &mut context);
                    block.queries().zip(rows).for_each(|(query, row)| logsumexp[query] = row.logsumexp());
                    continue;
                }
                self.weights(index, query, keys, &block, scratch, |query, sum| logsumexp[query] = sum);
                self.mix(index, values, &block, scratch, &mut context, Output::Overwrite);
            }
            scratch.copies = copies;
        });
    }

    /// A block of queries that attends to many keys, part of the keys by part: a softmax with a running maximum.
    fn forward_in_parts(
        &self,
        index: usize,
        query: &[f32],
        [keys, values]: [Head<'_>; 2],
        block: &Block<'_>,
        scratch: &mut Scratch,
        context: &mut MatrixMut<'_>,
    ) -> [RunningSoftmax; MAX_QUERIES] {
        let mut rows = [RunningSoftmax::EMPTY; MAX_QUERIES];
        let mut output = Output::Overwrite;
        for part in block.parts() {
            self.scores(index, query, keys, &part, scratch);
            let scores = scratch.weights.chunks_exact_mut(part.n_keys);
            for ((offset, query), (row, scores)) in
                part.queries().enumerate().zip(rows.iter_mut().zip(scores))
            {
                let factor = row.add(scores, part.seen_prefix(self.visible(index / self.n_heads, query)));
                if output == Output::Accumulate && factor != 1.0 {
                    scale(context.row_mut(offset), factor);
                }
            }
            self.mix(index, values, &part, scratch, context, output);
            output = Output::Accumulate;
        }
        for (offset, row) in rows.iter().enumerate().take(block.queries.count) {
            scale(context.row_mut(offset), row.inverse_total());
        }
        rows
    }

    /// The weights of a block, after dropout, times its values; `output` says whether `context` has other keys' already.
    fn mix(
        &self,
        index: usize,
        values: Head<'_>,
        block: &Block<'_>,
        scratch: &mut Scratch,
        context: &mut MatrixMut<'_>,
        output: Output,
    ) {
        self.drop_weights(index, block, &mut scratch.weights);
        for (column, run) in block.runs() {
            let weights = view_columns(&scratch.weights, block, column, run.count);
            gemm_serial(
                context,
                weights,
                values.rows(run),
                if column == 0 { output } else { Output::Accumulate },
            );
        }
        self.mix_relative(block, scratch, context);
    }

    /// context += weights summed by distance · a_V.
    fn mix_relative(&self, block: &Block<'_>, scratch: &mut Scratch, context: &mut MatrixMut<'_>) {
        let Some(relative) = &self.options.relative else { return };
        let Some(values) = &relative.values else { return };
        let Scratch { weights, by_distance, .. } = scratch;
        relative.collect(block, self.offset(), weights, by_distance);
        let n = relative.n_distances();
        let table = Matrix::new(values.value().data(), n, self.out.d_head);
        gemm_serial(context, Matrix::new(by_distance, block.queries.count, n), table, Output::Accumulate);
    }

    /// Gradients of the heads that share one head of keys and values, in one row of the batch.
    ///
    /// # Safety
    /// Nobody else writes these heads' columns of the three gradients, or row `task` of the tables.
    pub(super) unsafe fn backward(&self, task: usize, forward: &Forward<'_>, out: &Gradient<'_>) {
        let group = [task / self.n_key_heads, task % self.n_key_heads];
        let heads = self.n_heads / self.n_key_heads;
        SCRATCH.with_borrow_mut(|scratch| {
            let (mut copies, mut sums) =
                (std::mem::take(&mut scratch.copies), std::mem::take(&mut scratch.sums));
            let [of_keys, of_values] = &mut copies;
            let [sum_of_keys, sum_of_values] = &mut sums;
            let head_backward = HeadBackward {
                forward,
                out,
                heads: [
                    self.head(1, forward.inputs[1], group, of_keys),
                    self.head(2, forward.inputs[2], group, of_values),
                ],
                // SAFETY: the caller guarantees that nobody else writes this head's columns.
                sums: unsafe {
                    [
                        self.head_gradient(1, out.sides[1], group, sum_of_keys),
                        self.head_gradient(2, out.sides[2], group, sum_of_values),
                    ]
                },
            };
            for head in group[1] * heads..(group[1] + 1) * heads {
                let index = group[0] * self.n_heads + head;
                for block in self.blocks(group[0]) {
                    let mut output = Output::Overwrite;
                    for part in block.parts() {
                        // SAFETY: the same guarantee as for this function.
                        unsafe { self.block_backward(index, &part, output, &head_backward, scratch) };
                        output = Output::Accumulate;
                    }
                }
            }
            for (side, sum) in [1, 2].into_iter().zip(&sums) {
                // SAFETY: the caller guarantees that nobody else writes this head's columns.
                unsafe { self.store_gradient(side, out.sides[side], group, sum) };
            }
            (scratch.copies, scratch.sums) = (copies, sums);
        });
    }

    /// Gradients of one block; `output` says whether the gradient of the queries has other keys' already.
    ///
    /// # Safety
    /// As for `backward`.
    unsafe fn block_backward(
        &self,
        index: usize,
        block: &Block<'_>,
        output: Output,
        &HeadBackward { forward, out, heads: [keys, values], sums: [d_keys, d_values] }: &HeadBackward<'_>,
        scratch: &mut Scratch,
    ) {
        let own = self.heads(index).0;
        let query = forward.inputs[0];
        // SAFETY: the caller guarantees that nobody else writes these columns.
        let mut d_query = unsafe { self.sides[0].head_mut(out.sides[0], own, block.queries) };
        if block.n_keys == 0 {
            d_query.fill(0.0);
            return;
        }
        self.recompute(index, query, keys, block, forward.logsumexp, scratch);
        let d_out = self.out.head(forward.gradient, own, block.queries);
        scratch.gradient.resize(block.queries.count * block.n_keys, 0.0);
        for (column, run) in block.runs() {
            // SAFETY: these columns belong to this task's head of values.
            let mut d_values = unsafe { d_values.rows(run) };
            let dropped = view_columns(&scratch.dropped, block, column, run.count);
            gemm_serial(&mut d_values, dropped.t(), d_out, Output::Accumulate);
            let mut target = columns_of(&mut scratch.gradient, block, column, run.count);
            gemm_serial(&mut target, d_out, values.rows(run).t(), Output::Overwrite);
        }
        self.distances_of_output(block, d_out, scratch);
        self.drop_weights(index, block, &mut scratch.gradient);
        let rows =
            scratch.gradient.chunks_exact_mut(block.n_keys).zip(scratch.weights.chunks_exact(block.n_keys));
        for (query, (gradient, weights)) in block.queries().zip(rows) {
            let mean = match forward.out {
                Some(out) => dot(self.out.row(out, own, query), self.out.row(forward.gradient, own, query)),
                None => dot(weights, gradient),
            };
            differentiate(gradient, weights, mean, self.scale);
        }
        let queries = self.sides[0].head(query, own, block.queries);
        for (column, run) in block.runs() {
            let scores = view_columns(&scratch.gradient, block, column, run.count);
            let output = if column == 0 { output } else { Output::Accumulate };
            gemm_serial(&mut d_query, scores, keys.rows(run), output);
            // SAFETY: these columns belong to this task's head of keys.
            let mut d_keys = unsafe { d_keys.rows(run) };
            gemm_serial(&mut d_keys, scores.t(), queries, Output::Accumulate);
        }
        // SAFETY: the same guarantee; the scratch has the weights after dropout and the gradient of the scores.
        unsafe { self.tables_backward(index, block, forward, out, scratch) };
    }

    /// Recomputes the weights of the forward pass, before and after dropout.
    fn recompute(
        &self,
        index: usize,
        query: &[f32],
        keys: Head<'_>,
        block: &Block<'_>,
        logsumexp: &[f32],
        scratch: &mut Scratch,
    ) {
        self.scores(index, query, keys, block, scratch);
        let Scratch { weights, dropped, .. } = scratch;
        for (offset, (query, scores)) in
            block.queries().zip(weights.chunks_exact_mut(block.n_keys)).enumerate()
        {
            let seen = block.seen(offset, self.visible(index / self.n_heads, query));
            recompute_weights(scores, seen, logsumexp[index * self.q_len + query]);
        }
        dropped.clone_from(weights);
        self.drop_weights(index, block, dropped);
    }

    /// dP += dO·a_Vᵀ, by distance.
    fn distances_of_output(&self, block: &Block<'_>, d_out: Matrix<'_>, scratch: &mut Scratch) {
        let Some(relative) = &self.options.relative else { return };
        let Some(values) = &relative.values else { return };
        let n = relative.n_distances();
        let Scratch { gradient, by_distance, .. } = scratch;
        by_distance.resize(block.queries.count * n, 0.0);
        let table = Matrix::new(values.value().data(), n, self.out.d_head);
        gemm_serial(
            &mut MatrixMut::new(by_distance, block.queries.count, n),
            d_out,
            table.t(),
            Output::Overwrite,
        );
        relative.spread(block, self.offset(), by_distance, gradient);
    }

    /// Adds the tables' contribution to dQ, and computes the gradients of the tables of distances.
    ///
    /// # Safety
    /// As for `backward`; the scratch is as `block_backward` left it.
    unsafe fn tables_backward(
        &self,
        index: usize,
        block: &Block<'_>,
        forward: &Forward<'_>,
        out: &Gradient<'_>,
        scratch: &mut Scratch,
    ) {
        let Some(relative) = &self.options.relative else { return };
        let (own, group) = self.heads(index);
        let task = group[0] * self.n_key_heads + group[1];
        let (n, count) = (relative.n_distances(), block.queries.count);
        let Scratch { dropped, gradient, by_distance, .. } = scratch;
        // SAFETY: the caller guarantees it; each task has one row of each table's partial sums.
        let target = |table: usize, width: usize| unsafe {
            MatrixMut::from_raw(out.tables[table].0.add(task * n * width), [n, width], width)
        };
        let d_key = self.sides[1].d_head;
        relative.collect(block, self.offset(), gradient, by_distance);
        let scores = Matrix::new(by_distance, count, n);
        // SAFETY: the caller guarantees that nobody else writes these columns.
        let mut d_query = unsafe { self.sides[0].head_mut(out.sides[0], own, block.queries) };
        gemm_serial(
            &mut d_query,
            scores,
            Matrix::new(relative.keys.value().data(), n, d_key),
            Output::Accumulate,
        );
        let queries = self.sides[0].head(forward.inputs[0], own, block.queries);
        gemm_serial(&mut target(0, d_key), scores.t(), queries, Output::Accumulate);
        if relative.values.is_some() {
            relative.collect(block, self.offset(), dropped, by_distance);
            let d_out = self.out.head(forward.gradient, own, block.queries);
            let weights = Matrix::new(by_distance, count, n);
            gemm_serial(&mut target(1, self.out.d_head), weights.t(), d_out, Output::Accumulate);
        }
    }
}

/// Columns of a block's scores, read-only.
fn view_columns<'a>(scores: &'a [f32], block: &Block<'_>, column: usize, count: usize) -> Matrix<'a> {
    Matrix::strided(&scores[column..], [block.queries.count, count], [block.n_keys, 1])
}

/// Columns of a block's scores, writable.
fn columns_of<'a>(scores: &'a mut [f32], block: &Block<'_>, column: usize, count: usize) -> MatrixMut<'a> {
    assert!(scores.len() >= block.queries.count * block.n_keys && column + count <= block.n_keys);
    // SAFETY: the assertion keeps the columns inside the block, which is borrowed for the lifetime of the view.
    unsafe {
        MatrixMut::from_raw(scores.as_mut_ptr().add(column), [block.queries.count, count], block.n_keys)
    }
}
