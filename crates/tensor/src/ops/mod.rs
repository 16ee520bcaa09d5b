//! The operations, each in a file of its own: what it computes, how it goes forward, how gradients go back.
//!
//! The body of an operation is the CPU's. Where the GPU has one of its own (`cuda/ops`, a file for each operation), the first
//! line after the checks goes there: `on_gpu!(input => body)`.

/// Goes to the GPU's body of an operation where `input`, or a condition, says that the numbers are on one. In a build without
/// CUDA there is nothing to go to.
macro_rules! on_gpu {
    (if $condition:expr => $body:expr) => {
        #[cfg(feature = "cuda")]
        if $condition {
            return $body;
        }
    };
    ($input:expr => $body:expr) => {
        on_gpu!(if $input.card().is_some() => $body)
    };
}

pub(crate) mod activation;
pub mod attention;
pub mod best_tokens;
mod broadcast;
pub mod cross_entropy;
pub mod decoding;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod linear;
pub mod matmul;
pub mod norm;
pub mod output;
pub mod r_drop;
pub mod reduce;
pub mod rms_norm;
pub mod rotary;
pub mod shape;
pub mod softmax;
