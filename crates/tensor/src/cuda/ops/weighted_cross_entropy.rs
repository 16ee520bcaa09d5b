//! Cross-entropy with a weight for each class on a GPU: loss and gradient in one pass over the logits; see
//! [`crate::ops::weighted_cross_entropy`].

use super::cross_entropy::{ignored, is_wanted, one_block, record_scaled};
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::indices::Indices;
use crate::ops::cross_entropy::CrossEntropyOptions;
use crate::ops::weighted_cross_entropy::ClassWeights;
use crate::tape::{Tape, Var};

const FILE: &str = "weighted_cross_entropy";
/// Threads of a block: eight warps, each with a row.
const THREADS: usize = 256;
const WARP: usize = 32;

/// Weighted mean loss of given logits.
pub(crate) fn weighted_cross_entropy(
    tape: &Tape,
    logits: &Var,
    targets: &Indices,
    weights: &ClassWeights,
    options: CrossEntropyOptions,
) -> Var {
    let (array, weights) = (logits.value().array(), weights.bits().gpu());
    let (cuda, rows, width) = (array.cuda(), targets.len(), weights.len());
    let gradient = is_wanted(tape, logits).then(|| Array::new(cuda, array.dtype(), array.len()));
    let [total, losses, mean] = [1, rows, 1].map(|len| Array::new(cuda, ElementType::F32, len));
    let (has_ignored, ignored) = ignored(options);
    let targets = targets.gpu();
    let arguments = args![targets, rows, weights, width, has_ignored, ignored, &total];
    one_block(FILE, "weighted_cross_entropy_total", 1024, arguments, &total);
    let launch = Launch {
        file: FILE,
        name: &format!("weighted_cross_entropy_{}", array.suffix()),
        grid: [rows.div_ceil(THREADS / WARP), 1, 1],
        block: THREADS,
        shared: 0,
        family: KernelFamily::Loss,
    };
    let smoothing = options.label_smoothing;
    cuda.launch(
        launch,
        args![
            array,
            gradient.as_ref(),
            targets,
            weights,
            &total,
            &losses,
            rows,
            width,
            has_ignored,
            ignored,
            smoothing
        ],
    );
    one_block(FILE, "weighted_cross_entropy_mean", 1024, args![&losses, rows, &total, &mean], &mean);
    record_scaled(tape, logits, mean, gradient)
}
