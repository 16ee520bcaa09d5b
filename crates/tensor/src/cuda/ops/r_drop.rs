//! R-Drop on a GPU: three losses and the gradient in one pass over the logits; see [`crate::ops::r_drop`].

use super::cross_entropy::{count, ignored, in_shared_memory, is_wanted, one_block, record_scaled};
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::indices::Indices;
use crate::ops::r_drop::{RDrop, RDropOptions};
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Loss, cross-entropy and divergence of `logits`, two rows per target; see `mean_loss` of the cross-entropy.
pub(super) fn means(
    logits: &Array,
    gradient: Option<&Array>,
    targets: &Array,
    options: RDropOptions,
) -> [Array; 3] {
    let RDropOptions { weight: alpha, cross_entropy: options } = options;
    let (cuda, positions) = (logits.cuda(), targets.len());
    let width = logits.len() / (2 * positions).max(1);
    let count = count(targets, options);
    let [losses, halves, means] =
        [2 * positions, positions, 3].map(|len| Array::new(cuda, ElementType::F32, len));
    let (keep, shared) = in_shared_memory(logits, 2 * width.next_multiple_of(8));
    let (has_ignored, ignored) = ignored(options);
    let launch = Launch {
        file: "r_drop",
        name: &format!("r_drop_{}{}", if width.is_multiple_of(8) { "" } else { "any_" }, logits.suffix()),
        grid: [positions, 1, 1],
        block: 512,
        shared,
        family: KernelFamily::Loss,
    };
    let smoothing = options.label_smoothing;
    cuda.launch(
        launch,
        args![
            logits,
            gradient,
            targets,
            &count,
            &losses,
            &halves,
            width,
            has_ignored,
            ignored,
            smoothing,
            alpha,
            keep
        ],
    );
    let arguments = args![&losses, &halves, positions, &count, alpha, &means];
    one_block("r_drop", "r_drop_means", 512, arguments, &means);
    [0, 1, 2].map(|index| means.part(index..index + 1))
}

/// The loss of given logits, and its terms.
pub(crate) fn r_drop(tape: &Tape, logits: &Var, targets: &Indices, options: RDropOptions) -> RDrop {
    let array = logits.value().array();
    let gradient = is_wanted(tape, logits).then(|| Array::new(array.cuda(), array.dtype(), array.len()));
    let [loss, cross_entropy, divergence] = means(array, gradient.as_ref(), targets.gpu(), options);
    let loss = record_scaled(tape, logits, loss, gradient);
    let [cross_entropy, divergence] = [cross_entropy, divergence].map(|part| Tensor::on_gpu(&[], part));
    RDrop { loss, cross_entropy, divergence }
}
