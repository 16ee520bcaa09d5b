//! Cross-entropy on a GPU: loss and gradient in one pass over the logits; see [`crate::ops::cross_entropy`].

use super::elementwise::scale_into;
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::indices::Indices;
use crate::ops::cross_entropy::CrossEntropyOptions;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Bytes of shared memory up to which three blocks fit on a multiprocessor of Hopper, two on others: larger rows are
/// faster read again from the cache.
const MAX_SHARED_ROW: usize = 74 << 10;

/// 1 if `numbers` values of the type of `logits` fit into shared memory, otherwise 0; and their size in bytes.
pub(super) fn in_shared_memory(logits: &Array, numbers: usize) -> (u32, usize) {
    let bytes = (numbers * logits.dtype().bytes()).next_multiple_of(16);
    if bytes <= MAX_SHARED_ROW.min(logits.cuda().shared_limit()) { (1, bytes) } else { (0, 0) }
}

/// 1 if there is an ignored id, otherwise 0; and its value.
pub(super) fn ignored(options: CrossEntropyOptions) -> (u32, u32) {
    options.ignored_id.map_or((0, 0), |id| (1, id))
}

/// Number of `targets` that are not ignored, a scalar.
pub(super) fn count(targets: &Array, options: CrossEntropyOptions) -> Array {
    let count = Array::new(targets.cuda(), ElementType::U32, 1);
    let (has_ignored, ignored) = ignored(options);
    one_block(
        "cross_entropy",
        "cross_entropy_count",
        1024,
        args![targets, targets.len(), has_ignored, ignored, &count],
        &count,
    );
    count
}

/// Launches a kernel of one block.
pub(super) fn one_block(
    file: &'static str,
    name: &str,
    block: usize,
    arguments: &[crate::cuda::Argument],
    of: &Array,
) {
    let launch = Launch { file, name, grid: [1, 1, 1], block, shared: 0, family: KernelFamily::Loss };
    of.cuda().launch(launch, arguments);
}

/// Mean loss of `logits`, a row per target. Their gradient, for a gradient of the mean of 1, goes to `gradient`, which
/// may be the logits.
pub(super) fn mean_loss(
    logits: &Array,
    gradient: Option<&Array>,
    targets: &Array,
    options: CrossEntropyOptions,
) -> Array {
    let (cuda, rows) = (logits.cuda(), targets.len());
    let width = logits.len() / rows.max(1);
    let count = count(targets, options);
    let [losses, mean] = [rows, 1].map(|len| Array::new(cuda, ElementType::F32, len));
    let (keep, shared) = in_shared_memory(logits, width);
    let (has_ignored, ignored) = ignored(options);
    let is_aligned = (width * logits.dtype().bytes()).is_multiple_of(16);
    let launch = Launch {
        file: "cross_entropy",
        name: &format!("cross_entropy_{}{}", if is_aligned { "" } else { "any_" }, logits.suffix()),
        grid: [rows, 1, 1],
        block: 512,
        shared,
        family: KernelFamily::Loss,
    };
    let smoothing = options.label_smoothing;
    cuda.launch(
        launch,
        args![logits, gradient, targets, &count, &losses, width, has_ignored, ignored, smoothing, keep],
    );
    one_block("cross_entropy", "cross_entropy_mean", 1024, args![&losses, rows, &count, &mean], &mean);
    mean
}

/// Mean loss of given logits.
pub(crate) fn cross_entropy(
    tape: &Tape,
    logits: &Var,
    targets: &Indices,
    options: CrossEntropyOptions,
) -> Var {
    let array = logits.value().array();
    let gradient = is_wanted(tape, logits).then(|| Array::new(array.cuda(), array.dtype(), array.len()));
    let mean = mean_loss(array, gradient.as_ref(), targets.gpu(), options);
    record_scaled(tape, logits, mean, gradient)
}

/// True if the gradient of `var` is needed.
pub(super) fn is_wanted(tape: &Tape, var: &Var) -> bool {
    tape.is_training() && var.needs_gradient()
}

/// Records a loss whose gradient is known up to a factor.
pub(super) fn record_scaled(tape: &Tape, logits: &Var, loss: Array, known: Option<Array>) -> Var {
    let node = logits.node_only();
    tape.record(Tensor::on_gpu(&[], loss), &[logits], move |gradient, gradients| {
        let Some(known) = known else { return };
        gradients.update_array(&node, |out, output| scale_into(out, output, &known, gradient.array()));
    })
}
