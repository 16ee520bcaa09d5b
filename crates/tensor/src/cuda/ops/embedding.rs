//! Embedding on a GPU; see [`crate::ops::embedding`].

use super::walk;
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::gemm::Output;
use crate::indices::Indices;
use crate::ops::embedding::EmbeddingOptions;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Rows of `table` for ids of n_rows × length. An id outside the table gives a row of NaN.
pub(crate) fn embedding(
    tape: &Tape,
    ids: &Indices,
    length: usize,
    table: &Var,
    options: &EmbeddingOptions,
) -> Var {
    let [vocab_size, width] = table.value().rows();
    let (ids, rows) = (ids.gpu().clone(), table.value().array().operand());
    let cuda = rows.cuda();
    let positions = options.positions.as_ref().map(|positions| match positions.gpu() {
        Some(gpu) => gpu.to_dtype(ElementType::F32),
        None => Array::constant(cuda, &positions.data()[..length * width]),
    });
    let y = Array::new(cuda, rows.dtype(), ids.len() * width);
    let arguments =
        args![&ids, rows, positions.as_ref(), &y, ids.len(), length, vocab_size, width, options.scale];
    let tasks = ids.len() * width.div_ceil(8);
    walk(("embedding", "embedding"), tasks, KernelFamily::Embedding, &y, arguments);
    let (node, scale) = (table.node_only(), options.scale);
    let value = Tensor::on_gpu(&[ids.len() / length, length, width], y);
    tape.record(value, &[table], move |gradient, gradients| {
        gradients.update_array(&node, |out, output| {
            let scatter = Scatter { gradient: gradient.array(), ids: &ids, vocab_size, width, scale };
            scatter.add_to(out, output);
        });
    })
}

/// Backward pass of the table: scale · gradient, each row added to that of its id.
struct Scatter<'a> {
    gradient: &'a Array,
    ids: &'a Array,
    vocab_size: usize,
    width: usize,
    scale: f32,
}

impl Scatter<'_> {
    fn add_to(&self, out: &Array, output: Output) {
        if output == Output::Overwrite {
            out.clear();
        }
        if out.dtype() == ElementType::F32 {
            return self.scatter(out);
        }
        let sums = Array::zeros(out.cuda(), ElementType::F32, out.len());
        self.scatter(&sums);
        out.add(&sums);
    }

    /// Sorts positions by id, sums runs of equal ids chunk by chunk, and joins the runs that cross chunks.
    fn scatter(&self, table: &Array) {
        let Self { gradient, ids, vocab_size, width, scale } = *self;
        let (cuda, tokens) = (gradient.cuda(), ids.len());
        let chunk = tokens.div_ceil(1024).next_multiple_of(8);
        let chunks = tokens.div_ceil(chunk.max(1));
        let [order, sorted, other] = [(); 3].map(|()| Array::new(cuda, ElementType::U32, tokens));
        let parts = Array::new(cuda, ElementType::F32, chunks * 2 * width);
        let launch = |name: &str, grid: [usize; 2], block: usize, arguments: &[crate::cuda::Argument]| {
            let (grid, family) = ([grid[0], grid[1], 1], KernelFamily::Embedding);
            cuda.launch(Launch { file: "embedding", name, grid, block, shared: 0, family }, arguments);
        };
        if tokens == 0 {
            return;
        }
        // Ids outside the table are sorted as vocab_size.
        let bits = usize::BITS - vocab_size.leading_zeros();
        let arguments = args![ids, &order, &sorted, &other, tokens, vocab_size, bits.div_ceil(8)];
        launch("embedding_sort", [1, 1], 1024, arguments);
        let spans = width.div_ceil(256);
        let name = format!("embedding_add_{}", gradient.suffix());
        let arguments =
            args![gradient, &order, &sorted, table, &parts, tokens, chunk, vocab_size, width, scale];
        launch(&name, [chunks.div_ceil(4), spans], 128, arguments);
        let arguments = args![&sorted, table, &parts, tokens, chunk, vocab_size, width, scale];
        launch("embedding_join", [chunks, spans], 1024, arguments);
    }
}
