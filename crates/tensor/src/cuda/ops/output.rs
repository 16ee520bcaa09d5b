//! Output layer with its loss on a GPU: logits by one product, which the loss overwrites with their gradient; see
//! [`crate::ops::output`].

use super::cross_entropy::{is_wanted, mean_loss};
use super::linear::{LinearGradient, product};
use super::r_drop::means;
use crate::cuda::{Array, Epilogue};
use crate::indices::Indices;
use crate::ops::cross_entropy::CrossEntropyOptions;
use crate::ops::output::OutputLayer;
use crate::ops::r_drop::{RDrop, RDropOptions};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Mean cross-entropy of a layer's logits.
pub(crate) fn output_cross_entropy(
    tape: &Tape,
    layer: OutputLayer<'_>,
    targets: &Indices,
    options: CrossEntropyOptions,
) -> Var {
    let logits = logits(layer);
    let gradient = wants_gradient(tape, layer).then_some(&logits);
    let loss = mean_loss(&logits, gradient, targets.gpu(), options);
    record(tape, layer, loss, logits)
}

/// R-Drop loss of two passes through a layer, and its terms.
pub(crate) fn output_r_drop(
    tape: &Tape,
    layer: OutputLayer<'_>,
    targets: &Indices,
    options: RDropOptions,
) -> RDrop {
    let logits = logits(layer);
    let gradient = wants_gradient(tape, layer).then_some(&logits);
    let [loss, cross_entropy, divergence] = means(&logits, gradient, targets.gpu(), options);
    let [cross_entropy, divergence] = [cross_entropy, divergence].map(|part| Tensor::on_gpu(&[], part));
    RDrop { loss: record(tape, layer, loss, logits), cross_entropy, divergence }
}

fn wants_gradient(tape: &Tape, layer: OutputLayer<'_>) -> bool {
    [Some(layer.x), Some(layer.weight), layer.bias].into_iter().flatten().any(|var| is_wanted(tape, var))
}

fn logits(OutputLayer { x, weight, bias }: OutputLayer<'_>) -> Array {
    product(x.value(), weight.value(), bias.map(Var::value), Epilogue::None)
}

/// Records a loss; `g` is the gradient of the logits for a gradient of the loss of 1.
fn record(tape: &Tape, layer: OutputLayer<'_>, loss: Array, g: Array) -> Var {
    let OutputLayer { x, weight, bias } = layer;
    let inputs: Vec<&Var> = [x, weight].into_iter().chain(bias).collect();
    let (x, weight, bias) = (x.clone(), weight.clone(), bias.cloned());
    tape.record(Tensor::on_gpu(&[], loss), &inputs, move |gradient, gradients| {
        let ([rows, _], [vocab_size, _]) = (x.value().rows(), weight.value().rows());
        let factor = Some(gradient.array());
        let layer = LinearGradient { x: &x, weight: &weight, bias: bias.as_ref(), factor };
        layer.add(&g, None, [rows, vocab_size], gradients);
    })
}
