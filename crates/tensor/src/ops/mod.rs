//! The operations, one file each: equation, forward pass, backward pass.
//!
//! The body of an operation is the CPU's. If the GPU has its own (`cuda/ops`, a file for each operation), the first
//! line after the checks dispatches to it: `on_gpu!(input => body)`.

/// Returns the GPU's body of an operation if `input` is on a GPU, or a condition holds. Expands to nothing in a build
/// without CUDA.
macro_rules! on_gpu {
    (if $condition:expr => $body:expr) => {
        #[cfg(feature = "cuda")]
        if $condition {
            return $body;
        }
    };
    ($input:expr => $body:expr) => {
        on_gpu!(if $input.gpu().is_some() => $body)
    };
}

pub(crate) mod activation;
pub mod additive;
pub mod attention;
pub mod best_tokens;
mod broadcast;
pub mod copying;
pub mod cross_entropy;
pub mod decoding;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod gated;
pub mod linear;
pub mod masked_softmax;
pub mod matmul;
pub mod norm;
pub mod output;
pub mod r_drop;
pub mod recurrent;
pub mod reduce;
pub mod rms_norm;
pub mod rotary;
pub mod scale_rows;
pub mod shape;
pub mod shared_weight;
pub mod softmax;
pub mod weighted_cross_entropy;
