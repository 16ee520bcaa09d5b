//! Additive scores on a GPU; see [`crate::ops::additive`].

use super::column_sum::column_sum;
use super::walk;
use crate::cuda::{Argument, Array, ElementType, KernelFamily, Launch, args};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Pairs per block, one for each warp.
const PAIRS: usize = 8;

/// Scores of all pairs, in the type of the queries.
pub(crate) fn additive_scores(tape: &Tape, inputs: [&Var; 3], sizes: [usize; 4]) -> Var {
    let [query, key, vector] = inputs;
    let [batch, q_len, k_len, d] = sizes;
    let exponentials = |x: &Var| {
        let x = x.value().array().operand();
        let out = Array::new(x.cuda(), ElementType::F32, x.len());
        walk(
            ("additive", "exponentials"),
            x.len(),
            KernelFamily::Attention,
            x,
            args![x, &out, x.len() as u64],
        );
        out
    };
    let saved = CudaAdditiveSaved {
        nodes: inputs.map(Var::node_only),
        query: exponentials(query),
        key: exponentials(key),
        vector: vector.value().array().to_dtype(ElementType::F32),
        dtypes: [query, key].map(|side| side.value().array().operand().dtype()),
        sizes,
    };
    let pairs = batch * q_len * k_len;
    let scores = Array::new(saved.query.cuda(), saved.dtypes[0], pairs);
    let CudaAdditiveSaved { query: q, key: k, vector: v, .. } = &saved;
    let arguments = args![q, k, v, &scores, q_len, k_len, d, pairs as u64];
    launch("scores", pairs.div_ceil(PAIRS), &scores, arguments);
    let scores = Tensor::on_gpu(&[batch, q_len, k_len], scores);
    tape.record(scores, &inputs, move |gradient, gradients| saved.backward(gradient, gradients))
}

fn launch(name: &str, blocks: usize, of: &Array, arguments: &[Argument]) {
    let name = &format!("{name}_{}", of.suffix());
    let family = KernelFamily::Attention;
    let launch = Launch { file: "additive", name, grid: [blocks, 1, 1], block: 256, shared: 0, family };
    of.cuda().launch(launch, arguments);
}

struct CudaAdditiveSaved {
    nodes: [Var; 3],
    query: Array,
    key: Array,
    vector: Array,
    dtypes: [ElementType; 2],
    sizes: [usize; 4],
}

impl CudaAdditiveSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let Self { nodes, query, key, vector, dtypes, sizes: [batch, q_len, k_len, d] } = self;
        let (batch, q_len, k_len, d) = (*batch, *q_len, *k_len, *d);
        let cuda = query.cuda();
        let of_vector = Array::new(cuda, ElementType::F32, batch * q_len * d);
        let of_query = Array::new(cuda, dtypes[0], query.len());
        let g = gradient.array().to_dtype(dtypes[0]);
        let arguments = args![query, key, vector, &g, &of_query, &of_vector, q_len, k_len, d];
        launch("query_back", batch * q_len, &of_query, arguments);
        let of_key = Array::new(cuda, dtypes[1], key.len());
        let g = g.to_dtype(dtypes[1]);
        launch("key_back", batch * k_len, &of_key, args![query, key, vector, &g, &of_key, q_len, k_len, d]);
        gradients.add(&nodes[0], &Tensor::on_gpu(&[batch, q_len, d], of_query));
        gradients.add(&nodes[1], &Tensor::on_gpu(&[batch, k_len, d], of_key));
        if let Some(target) = gradients.target(&nodes[2]) {
            column_sum(&target, &of_vector, batch * q_len, None);
        }
    }
}
