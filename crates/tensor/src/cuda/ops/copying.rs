//! Generating and copying mixed, and the coverage loss, on a GPU; see [`crate::ops::copying`].

use super::cross_entropy::{count, ignored, one_block};
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::indices::Indices;
use crate::ops::copying::{CopyMixture, CopySizes, LEAST_COPY};
use crate::ops::cross_entropy::CrossEntropyOptions;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Values of a row that the backward pass reads: logsumexp, share of generating, sum of weights.
const STATISTICS: usize = 3;

/// Mean −ln P of one id per row.
pub(crate) fn copy_cross_entropy(
    tape: &Tape,
    mixture: CopyMixture<'_>,
    expected: &Indices,
    options: CrossEntropyOptions,
) -> Var {
    let CopySizes { rows, vocab_size, source, per_sentence } =
        mixture.sizes("copy_cross_entropy").expect("checked before");
    let logits = mixture.logits.value().array().clone();
    let (cuda, dtype) = (logits.cuda().clone(), logits.dtype());
    let [weights, gates] = [mixture.weights, mixture.gate].map(|var| var.value().array().to_dtype(dtype));
    let (sources, expected) = (mixture.sources.gpu().clone(), expected.gpu().clone());
    let counted = count(&expected, options);
    let [losses, statistics, mean] =
        [rows, rows * STATISTICS, 1].map(|len| Array::new(&cuda, ElementType::F32, len));
    let ((has_ignored, ignored), smoothing) = (ignored(options), options.label_smoothing);
    let arguments = args![
        &logits,
        &weights,
        &gates,
        &sources,
        &expected,
        &losses,
        &statistics,
        vocab_size,
        source,
        per_sentence,
        has_ignored,
        ignored,
        smoothing,
        LEAST_COPY
    ];
    launch("copying", rows, &logits, arguments);
    one_block("cross_entropy", "cross_entropy_mean", 1024, args![&losses, rows, &counted, &mean], &mean);
    let inputs = [mixture.logits, mixture.weights, mixture.gate];
    let nodes = inputs.map(Var::node_only);
    let shapes = inputs.map(|var| (var.shape().to_vec(), var.value().array().dtype()));
    tape.record(Tensor::on_gpu(&[], mean), &inputs, move |gradient, gradients| {
        let upstream = gradient.array().to_dtype(ElementType::F32);
        let [of_logits, of_weights, of_gates] =
            [rows * vocab_size, rows * source, rows].map(|len| Array::new(&cuda, dtype, len));
        let arguments = args![
            &upstream,
            &logits,
            &gates,
            &sources,
            &expected,
            &statistics,
            &counted,
            &of_logits,
            &of_weights,
            &of_gates,
            vocab_size,
            source,
            per_sentence,
            smoothing,
            LEAST_COPY
        ];
        launch("copying_back", rows, &logits, arguments);
        for ((node, (shape, own)), found) in nodes.iter().zip(&shapes).zip([of_logits, of_weights, of_gates])
        {
            gradients.add(node, &Tensor::on_gpu(shape, found.to_dtype(*own)));
        }
    })
}

/// Mean Σ min(a, c) of weights, batch × target length × source length.
pub(crate) fn coverage_loss(tape: &Tape, weights: &Var, expected: &Indices, ignored_id: Option<u32>) -> Var {
    let &[batch, target, source] = weights.shape() else { unreachable!("checked before") };
    let options = CrossEntropyOptions { ignored_id, ..CrossEntropyOptions::default() };
    let (array, expected) = (weights.value().array().clone(), expected.gpu().clone());
    let (cuda, columns) = (array.cuda().clone(), batch * source);
    let counted = count(&expected, options);
    let [sums, covered, mean] = [columns, array.len(), 1].map(|len| Array::new(&cuda, ElementType::F32, len));
    let (has_ignored, ignored) = ignored(options);
    let blocks = columns.div_ceil(256);
    let arguments = args![&array, &expected, &sums, &covered, batch, target, source, has_ignored, ignored];
    launch("coverage", blocks, &array, arguments);
    one_block("cross_entropy", "cross_entropy_mean", 1024, args![&sums, columns, &counted, &mean], &mean);
    let node = weights.node_only();
    tape.record(Tensor::on_gpu(&[], mean), &[weights], move |gradient, gradients| {
        let upstream = gradient.array().to_dtype(ElementType::F32);
        let of_weights = Array::new(&cuda, array.dtype(), array.len());
        let arguments = args![
            &upstream,
            &array,
            &expected,
            &covered,
            &counted,
            &of_weights,
            batch,
            target,
            source,
            has_ignored,
            ignored
        ];
        launch("coverage_back", blocks, &array, arguments);
        gradients.add(&node, &Tensor::on_gpu(&[batch, target, source], of_weights));
    })
}

fn launch(name: &str, blocks: usize, of: &Array, arguments: &[crate::cuda::Argument]) {
    let (name, family) = (&format!("{name}_{}", of.suffix()), KernelFamily::Loss);
    let launch = Launch { file: "copying", name, grid: [blocks, 1, 1], block: 256, shared: 0, family };
    of.cuda().launch(launch, arguments);
}
