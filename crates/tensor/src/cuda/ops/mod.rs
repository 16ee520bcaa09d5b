//! GPU bodies of the operations, with the file names of the CPU's.

pub(crate) mod activation;
pub(crate) mod additive;
pub(crate) mod attention;
mod attention_shape;
mod attention_tiled;
pub(crate) mod best_tokens;
mod column_sum;
pub(crate) mod copying;
pub(crate) mod cross_entropy;
pub(crate) mod dropout;
pub(crate) mod elementwise;
pub(crate) mod embedding;
pub(crate) mod gated;
pub(crate) mod linear;
pub(crate) mod masked_softmax;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod output;
pub(crate) mod r_drop;
pub(crate) mod recurrent;
pub(crate) mod rotary;
pub(crate) mod scale_rows;
pub(crate) mod shape;
pub(crate) mod shared_weight;
pub(crate) mod softmax;
pub(crate) mod step;
pub(crate) mod weighted_cross_entropy;

use super::{Argument, Array, KernelFamily, Launch};

/// Launches a kernel over `tasks` pieces of work, one per thread, with as many threads as suit the GPU.
fn walk(
    (file, name): (&'static str, &str),
    tasks: usize,
    family: KernelFamily,
    of: &Array,
    arguments: &[Argument],
) {
    let blocks = tasks.div_ceil(256).min(16 * of.cuda().multiprocessors() as usize);
    let name = &format!("{name}_{}", of.suffix());
    of.cuda().launch(Launch { file, name, grid: [blocks, 1, 1], block: 256, shared: 0, family }, arguments);
}
