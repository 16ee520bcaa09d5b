//! The integration tests of `polyhead-tensor`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod adam;
mod attention;
mod copying;
mod cross_entropy;
#[cfg(feature = "cuda")]
mod cuda;
mod decoding;
#[cfg(feature = "cuda")]
mod device_errors;
mod dropout;
mod elementwise;
mod embedding;
mod examples;
mod finite_difference;
mod gated;
mod gemm;
mod gradient;
mod instructions;
mod layer_norm;
mod linear;
mod matmul;
mod output;
mod r_drop;
mod recurrent;
mod reduce;
mod rms_norm;
mod rotary;
mod scale_rows;
mod sgd;
mod shape;
mod softmax;
mod tape;
mod torch;
mod weighted_cross_entropy;
