//! The k best tokens of each row, selected on the GPU: only these are copied, not the vocabulary; see
//! [`crate::ops::best_tokens`].

use rayon::prelude::*;

use crate::Result;
use crate::cuda::{Array, ElementType, KernelFamily, Launch, args};
use crate::ops::best_tokens::Candidate;
use crate::tensor::Tensor;

/// Largest k of the kernel.
pub(crate) const MAX_K: usize = 64;
/// Threads per block, as in the kernel.
const THREADS: usize = 512;

/// The `k` best of each row, k ≤ [`MAX_K`].
pub(crate) fn best_tokens(logits: &Tensor, k: usize) -> Result<Vec<Vec<Candidate>>> {
    let ([rows, width], array) = (logits.rows(), logits.array());
    if k == 0 || rows == 0 {
        return Ok(vec![Vec::new(); rows]);
    }
    let cuda = array.cuda();
    let size = 2 * k + 1;
    let out = Array::new(cuda, ElementType::U32, rows * size);
    let name = format!("best_tokens_{}", array.suffix());
    let launch = Launch {
        file: "best_tokens",
        name: &name,
        grid: [rows, 1, 1],
        block: THREADS,
        shared: 0,
        family: KernelFamily::Loss,
    };
    cuda.launch(launch, args![array, &out, width, k]);
    let found = out.read::<u32>()?;
    let row = |row: &[u32]| {
        let candidates = row[..k].iter().zip(&row[k..2 * k]);
        let candidates = candidates.map(|(&id, &bits)| Candidate { id, score: f32::from_bits(bits) });
        candidates.filter(|candidate| candidate.score > f32::NEG_INFINITY).collect()
    };
    Ok(found.par_chunks_exact(size).map(row).collect())
}
