//! Attention weights over keys of each row's own length on a GPU; see [`crate::ops::masked_softmax`].

use crate::cuda::{Argument, Array, KernelFamily, Launch, args};
use crate::indices::Indices;
use crate::ops::masked_softmax::Locality;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Rows per block, one for each warp.
const ROWS: usize = 8;

/// Weights of scores, batch × q_len × k_len.
pub(crate) fn masked_softmax(tape: &Tape, scores: &Var, lengths: &Indices, locality: Locality<'_>) -> Var {
    let &[batch, q_len, k_len] = scores.shape() else { unreachable!("checked before") };
    let rows = batch * q_len;
    let weights = scores.value().uninit_like();
    let dtype = weights.array().dtype();
    let [kind, distance, start] = locality.code();
    let shares = locality.centre().map(|centre| centre.value().array().to_dtype(dtype));
    let lengths = lengths.gpu().clone();
    let arguments = args![
        scores.value().array(),
        weights.array(),
        &lengths,
        shares.as_ref(),
        rows as u64,
        q_len,
        k_len,
        kind,
        distance,
        start
    ];
    launch("masked_softmax", rows, weights.array(), arguments);
    let centre = locality.centre().map(Var::node_only);
    let inputs: Vec<&Var> = [scores].into_iter().chain(locality.centre()).collect();
    let (node, saved) = (scores.node_only(), weights.clone());
    tape.record(weights, &inputs, move |gradient, gradients| {
        let of_scores = saved.uninit_like();
        let of_shares = shares.as_ref().map(|shares| Array::new(shares.cuda(), dtype, rows));
        let g = gradient.array().to_dtype(dtype);
        let arguments = args![
            &g,
            saved.array(),
            of_scores.array(),
            &lengths,
            shares.as_ref(),
            of_shares.as_ref(),
            rows as u64,
            q_len,
            k_len,
            distance
        ];
        launch("masked_softmax_back", rows, of_scores.array(), arguments);
        gradients.add(&node, &of_scores);
        if let Some((centre, of_shares)) = centre.zip(of_shares) {
            gradients.add(&centre, &Tensor::on_gpu(&[batch, q_len], of_shares));
        }
    })
}

fn launch(name: &str, rows: usize, of: &Array, arguments: &[Argument]) {
    let name = &format!("{name}_{}", of.suffix());
    let (grid, family) = ([rows.div_ceil(ROWS), 1, 1], KernelFamily::Attention);
    let launch = Launch { file: "masked_softmax", name, grid, block: 256, shared: 0, family };
    of.cuda().launch(launch, arguments);
}
