//! The operations, each in a file of its own: what it computes, how it goes forward, how gradients go back.

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
