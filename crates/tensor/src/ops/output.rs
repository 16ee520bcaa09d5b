//! Output layer over a vocabulary fused with its loss, so that the logits of all rows are never in memory at once.
//!
//! Chunk by chunk: logits = x·Wᵀ + b, the loss of each row, and in training also the backward pass, which overwrites
//! the logits with their gradient g: dx = g·W, dW += gᵀ·x, db += Σ rows of g. A chunk stays in the cache between the
//! four, and ignored rows are left out. Saved for the tape: gradients of the sizes of x, W and b. After Hsu et al. 2024
//! (Liger Kernel). Sums continue from chunk to chunk, so that the bits are those of `linear` followed by the loss, for
//! any chunk size.

use rayon::prelude::*;

use super::cross_entropy::{self, CrossEntropyOptions, row_loss};
use super::linear::{self, finish_rows, sum_rows};
use super::r_drop::{self, RDrop, RDropOptions, RDropPosition, RDropWeights};
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut, Output, Packed, gemm, gemm_packed};
use crate::indices::Indices;
use crate::ops::linear::Activation;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Rows per chunk and thread: three blocks of six tiles.
const ROWS_A_THREAD: usize = 252;

/// The last layer: logits = x·Wᵀ + b.
#[derive(Debug, Clone, Copy)]
pub struct OutputLayer<'a> {
    /// Input, … × d_in.
    pub x: &'a Var,
    /// One row per id, vocab_size × d_in.
    pub weight: &'a Var,
    /// Added to the logits, one value per id. Default: none.
    pub bias: Option<&'a Var>,
}

/// `linear` followed by `cross_entropy`, with the same bits as long as the gradient of the loss is 1.
///
/// # Errors
/// If the shapes do not fit together, the number of ids is not the number of rows, or an id is outside the vocabulary.
pub fn output_cross_entropy(
    tape: &Tape,
    layer: OutputLayer<'_>,
    targets: &Indices,
    options: CrossEntropyOptions,
) -> Result<Var> {
    let [rows, _, vocab_size] = linear::check(layer.x, layer.weight, layer.bias)?;
    if rows != targets.len() {
        return shape("cross_entropy", "targets", &[targets.len()], format!("[{rows}], one a row of logits"));
    }
    on_gpu!(layer.x.value() => {
        options.check_smoothing("cross_entropy")?;
        Ok(crate::cuda::ops::output::output_cross_entropy(tape, layer, targets, options))
    });
    let targets = targets.host();
    let count = options.rows_that_count("cross_entropy", targets, vocab_size)?;
    let order: Vec<usize> = (0..rows).filter(|&row| options.counts(targets[row])).collect();
    let weights = [1.0 / count.max(1) as f32, options.label_smoothing];
    let needed = NeededGradients::new(tape, layer);
    let (losses, parts) = by_chunks(layer, &order, 1, &needed, |index, logits| {
        let target = targets[order[index]];
        let (loss, logsumexp) = row_loss(logits, target as usize, options.label_smoothing);
        if needed.any() {
            cross_entropy::backward(logits, target, logsumexp, weights);
        }
        loss
    });
    let total = losses.into_iter().fold(0.0, |sum, loss| sum + f64::from(loss));
    Ok(parts.record(tape, layer, (total / count.max(1) as f64) as f32))
}

/// `linear` followed by `r_drop`: the rows of x are those of the first pass, then those of the second.
///
/// # Errors
/// If the shapes do not fit together, there are not two rows per id, or an id is outside the vocabulary.
pub fn output_r_drop(
    tape: &Tape,
    layer: OutputLayer<'_>,
    targets: &Indices,
    options: RDropOptions,
) -> Result<RDrop> {
    let [rows, _, vocab_size] = linear::check(layer.x, layer.weight, layer.bias)?;
    on_gpu!(layer.x.value() => {
        options.check_shapes(rows, targets.len())?;
        Ok(crate::cuda::ops::output::output_r_drop(tape, layer, targets, options))
    });
    let targets = targets.host();
    let count = options.check([rows, vocab_size], targets)?;
    let RDropOptions { weight: alpha, cross_entropy: options } = options;
    let positions: Vec<usize> = (0..targets.len()).filter(|&at| options.counts(targets[at])).collect();
    // Both rows of a position are neighbours in a chunk.
    let order: Vec<usize> = positions.iter().flat_map(|&at| [at, at + targets.len()]).collect();
    let (share, smoothing) = (1.0 / (2 * count).max(1) as f32, options.label_smoothing);
    let weights = RDropWeights { cross_entropy: share, divergence: alpha * share, smoothing };
    let needed = NeededGradients::new(tape, layer);
    let (each, parts) = by_chunks(layer, &order, 2, &needed, |index, logits| {
        let (y, z) = logits.split_at_mut(vocab_size);
        let target = targets[positions[index]];
        let position = RDropPosition::new([y, z], Some(target as usize), smoothing);
        if needed.any() {
            position.backward([y, z], target, weights);
        }
        position
    });
    let [loss, cross_entropy, divergence] = r_drop::means(&each, alpha, count);
    let [cross_entropy, divergence] = [cross_entropy, divergence].map(Tensor::scalar);
    Ok(RDrop { loss: parts.record(tape, layer, loss), cross_entropy, divergence })
}

/// Flags of the gradients that are needed.
struct NeededGradients {
    x: bool,
    weight: bool,
    bias: bool,
}

impl NeededGradients {
    fn new(tape: &Tape, layer: OutputLayer<'_>) -> Self {
        let asks = |var: &Var| tape.is_training() && var.needs_gradient();
        Self { x: asks(layer.x), weight: asks(layer.weight), bias: layer.bias.is_some_and(asks) }
    }

    fn any(&self) -> bool {
        self.x || self.weight || self.bias
    }
}

/// Gradients of x, W and b for a loss of gradient 1.
struct OutputGradients {
    x: Option<Tensor>,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
}

/// Passes the rows of `order` through the layer chunk by chunk; `work` turns the logits of each `unit` rows into a
/// result and, if needed, overwrites them with gradients.
fn by_chunks<T: Send>(
    layer: OutputLayer<'_>,
    order: &[usize],
    unit: usize,
    needed: &NeededGradients,
    work: impl Fn(usize, &mut [f32]) -> T + Sync,
) -> (Vec<T>, OutputGradients) {
    let OutputLayer { x, weight, bias } = layer;
    let [_, d_in] = x.value().rows();
    let [vocab_size, _] = weight.value().rows();
    let zeros = |needed: bool, var: &Var| needed.then(|| Tensor::zeros(var.shape()));
    let mut parts = OutputGradients {
        x: zeros(needed.x, x),
        weight: zeros(needed.weight, weight),
        bias: bias.and_then(|bias| zeros(needed.bias, bias)),
    };
    let mut results = Vec::with_capacity(order.len() / unit);
    let matrix = Matrix::new(weight.value().data(), vocab_size, d_in);
    let forth = Packed::pooled(matrix.t());
    let back = needed.x.then(|| Packed::pooled(matrix));
    let chunk = ROWS_A_THREAD * rayon::current_num_threads();
    for rows in order.chunks(chunk) {
        let inputs = gather(x.value(), rows);
        let mut logits = Tensor::uninit(&[rows.len(), vocab_size]);
        let input = Matrix::new(inputs.data(), rows.len(), d_in);
        let mut out = MatrixMut::new(logits.data_mut(), rows.len(), vocab_size);
        gemm_packed(&mut out, input, &forth, Output::Overwrite);
        finish_rows(&mut logits, bias.map(|bias| bias.value().data()), Activation::None);
        let first = results.len();
        let units = logits.data_mut().par_chunks_exact_mut(unit * vocab_size).enumerate();
        results.par_extend(units.map(|(index, logits)| work(first + index, logits)));
        let g = Matrix::new(logits.data(), rows.len(), vocab_size);
        if let (Some(out), Some(back)) = (&mut parts.x, &back) {
            let mut d_inputs = Tensor::uninit(&[rows.len(), d_in]);
            let mut target = MatrixMut::new(d_inputs.data_mut(), rows.len(), d_in);
            gemm_packed(&mut target, g, back, Output::Overwrite);
            scatter(out, rows, &d_inputs);
        }
        if let Some(out) = &mut parts.weight {
            let mut target = MatrixMut::new(out.data_mut(), vocab_size, d_in);
            gemm(&mut target, g.t(), input, Output::Accumulate);
        }
        if let Some(out) = &mut parts.bias {
            sum_rows(out.data_mut(), logits.data(), Output::Accumulate);
        }
    }
    forth.recycle();
    back.into_iter().for_each(Packed::recycle);
    (results, parts)
}

impl OutputGradients {
    /// Records the loss; its backward pass scales the gradients computed already.
    fn record(self, tape: &Tape, layer: OutputLayer<'_>, loss: f32) -> Var {
        let OutputLayer { x, weight, bias } = layer;
        let inputs: Vec<&Var> = [x, weight].into_iter().chain(bias).collect();
        let nodes: Vec<Var> = inputs.iter().map(|var| var.node_only()).collect();
        tape.record(Tensor::scalar(loss), &inputs, move |gradient, gradients| {
            let parts = [self.x, self.weight, self.bias];
            for (node, part) in nodes.iter().zip(parts) {
                if let Some(part) = part {
                    add_scaled(gradients, node, part, gradient.data()[0]);
                }
            }
        })
    }
}

/// Adds factor · part to the gradient of the input at `node`.
fn add_scaled(gradients: &mut Gradients, node: &Var, mut part: Tensor, factor: f32) {
    if factor != 1.0 {
        parallel::elements(part.data_mut(), |_, numbers| {
            for number in numbers {
                *number *= factor;
            }
        });
    }
    gradients.add(node, &part);
}

/// Copies the chosen rows.
fn gather(from: &Tensor, rows: &[usize]) -> Tensor {
    let [_, width] = from.rows();
    let mut out = Tensor::uninit(&[rows.len(), width]);
    for (out, &row) in out.data_mut().chunks_exact_mut(width.max(1)).zip(rows) {
        out.copy_from_slice(&from.data()[row * width..(row + 1) * width]);
    }
    out
}

/// Inverse of `gather`: copies each row to its place.
fn scatter(to: &mut Tensor, rows: &[usize], from: &Tensor) {
    let [_, width] = from.rows();
    let data = to.data_mut();
    for (from, &row) in from.data().chunks_exact(width.max(1)).zip(rows) {
        data[row * width..(row + 1) * width].copy_from_slice(from);
    }
}
