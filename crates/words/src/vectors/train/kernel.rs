//! The arithmetic of training, in sixteen lanes with the same bits for every instruction set.
//!
//! Rows are slices of [`Lane`]; matrices are rows one after the other. Every sum is one chain of fused multiply-adds per lane,
//! and lanes are added in a fixed tree.

use polyhead_lanes::{exp, vectorised};

use super::table::{Lane, Table, WIDTH};

/// Rows of hidden vectors that are multiplied together; buffers are padded to a multiple of it.
pub(crate) const ROWS: usize = 8;

/// σ(x) = 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// acc + a · x, lane by lane.
#[inline(always)]
fn add_scaled(acc: &mut Lane, a: f32, x: &Lane) {
    for (acc, x) in acc.0.iter_mut().zip(&x.0) {
        *acc = a.mul_add(*x, *acc);
    }
}

/// Σ aᵢ bᵢ.
#[inline(always)]
pub(crate) fn dot_lanes(a: &[Lane], b: &[Lane]) -> f32 {
    let mut sum = [0.0_f32; WIDTH];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..WIDTH {
            sum[lane] = a.0[lane].mul_add(b.0[lane], sum[lane]);
        }
    }
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            sum[lane] += sum[lane + width];
        }
    }
    sum[0]
}

vectorised! {
    /// sum += more.
    pub(crate) fn add(sum: &mut [Lane], more: &[Lane]) {
        for (sum, more) in sum.iter_mut().zip(more) {
            for lane in 0..WIDTH {
                sum.0[lane] += more.0[lane];
            }
        }
    }
}

vectorised! {
    /// row *= factor.
    pub(crate) fn scale(row: &mut [Lane], factor: f32) {
        for lane in row.iter_mut().flat_map(|lane| lane.0.iter_mut()) {
            *lane *= factor;
        }
    }
}

vectorised! {
    /// Adds gradient rows to the rows of `table` that part `part` of `parts` owns, in order. `changes` are pairs of (row of the
    /// table, row of `gradients`).
    ///
    /// The caller promises that no other thread works on this part, nor reads the table, meanwhile.
    pub(crate) fn apply(table: &Table, changes: &[(u32, u32)], gradients: &[Lane], part: (usize, usize)) {
        let lanes = table.lanes();
        let (part, parts) = (part.0 as u32, part.1 as u32);
        for (at, &(row, gradient)) in changes.iter().enumerate() {
            if let Some(&(soon, _)) = changes.get(at + 6) && soon % parts == part {
                table.prefetch(soon as usize);
            }
            if row % parts != part {
                continue;
            }
            // SAFETY: rows of this part belong to this thread.
            let sum = unsafe { table.row_mut(row as usize) };
            for (sum, more) in sum.iter_mut().zip(&gradients[gradient as usize * lanes..][..lanes]) {
                for lane in 0..WIDTH {
                    sum.0[lane] += more.0[lane];
                }
            }
        }
    }
}

/// One output row against several hidden rows: the operands of [`pairs`].
pub(crate) struct Pairs<'a> {
    /// Hidden rows, all of the batch.
    pub(crate) hidden: &'a [Lane],
    /// Gradients of the hidden rows, added to.
    pub(crate) d_hidden: &'a mut [Lane],
    /// The output row.
    pub(crate) output: &'a [Lane],
    /// Gradient of the output row, overwritten.
    pub(crate) d_output: &'a mut [Lane],
}

vectorised! {
    /// Logistic regression of `output` on each hidden row of `rows` towards `label`: g = rate · (label − σ(h·o)).
    pub(crate) fn pairs(operands: &mut Pairs, rows: &[u32], label: f32, rate: f32) {
        let Pairs { hidden, d_hidden, output, d_output } = operands;
        let lanes = output.len();
        d_output.fill(Lane::ZERO);
        for rows in rows.chunks(WIDTH) {
            let mut scores = [0.0_f32; WIDTH];
            for (score, &row) in scores.iter_mut().zip(rows) {
                *score = dot_lanes(&hidden[row as usize * lanes..][..lanes], output);
            }
            for score in &mut scores {
                *score = rate * (label - sigmoid(*score));
            }
            for (&g, &row) in scores.iter().zip(rows) {
                let from = row as usize * lanes;
                let hidden = &hidden[from..from + lanes];
                let d_hidden = &mut d_hidden[from..from + lanes];
                for at in 0..lanes {
                    add_scaled(&mut d_output[at], g, &hidden[at]);
                    add_scaled(&mut d_hidden[at], g, &output[at]);
                }
            }
        }
    }
}

/// Sixteen shared negative samples against all hidden rows: the operands of [`negatives`].
pub(crate) struct Negatives<'a> {
    /// Hidden rows, a multiple of [`ROWS`].
    pub(crate) hidden: &'a [Lane],
    /// Gradients of the hidden rows, added to.
    pub(crate) d_hidden: &'a mut [Lane],
    /// Sixteen output rows.
    pub(crate) outputs: &'a [Lane],
    /// Their gradients, overwritten.
    pub(crate) d_outputs: &'a mut [Lane],
    /// Weight of each (hidden row, output row): how often the pair counts, times the learning rate. Then the gradients.
    pub(crate) weights: &'a mut [Lane],
    /// Scratch: the output rows transposed, one lane for each dimension.
    pub(crate) transposed: &'a mut [Lane],
}

vectorised! {
    /// Logistic regression of sixteen outputs on all hidden rows towards 0: g = −weight · σ(h·o), as three dense products.
    pub(crate) fn negatives(operands: &mut Negatives) {
        let Negatives { hidden, d_hidden, outputs, d_outputs, weights, transposed } = operands;
        let lanes = outputs.len() / WIDTH;
        for (row, output) in outputs.chunks_exact(lanes).enumerate() {
            for (at, lane) in output.iter().enumerate() {
                for (k, x) in lane.0.iter().enumerate() {
                    transposed[at * WIDTH + k].0[row] = *x;
                }
            }
        }
        // Scores: lanes are outputs, a chain over dimensions.
        for (rows, weights) in hidden.chunks_exact(ROWS * lanes).zip(weights.chunks_exact_mut(ROWS)) {
            let mut scores = [Lane::ZERO; ROWS];
            for at in 0..lanes {
                for k in 0..WIDTH {
                    let output = &transposed[at * WIDTH + k];
                    for (row, score) in scores.iter_mut().enumerate() {
                        add_scaled(score, rows[row * lanes + at].0[k], output);
                    }
                }
            }
            for (weight, score) in weights.iter_mut().zip(&scores) {
                for lane in 0..WIDTH {
                    weight.0[lane] *= -sigmoid(score.0[lane]);
                }
            }
        }
        for at in 0..lanes {
            let mut columns = [Lane::ZERO; WIDTH];
            for (row, column) in columns.iter_mut().enumerate() {
                *column = outputs[row * lanes + at];
            }
            let mut sums = [Lane::ZERO; WIDTH];
            for (row, g) in weights.iter().enumerate() {
                let x = hidden[row * lanes + at];
                let mut d = d_hidden[row * lanes + at];
                for output in 0..WIDTH {
                    add_scaled(&mut sums[output], g.0[output], &x);
                    add_scaled(&mut d, g.0[output], &columns[output]);
                }
                d_hidden[row * lanes + at] = d;
            }
            for (row, sum) in sums.iter().enumerate() {
                d_outputs[row * lanes + at] = *sum;
            }
        }
    }
}
