//! The integration tests of `polyhead-tensor`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod elementwise;
mod gemm;
mod gradient;
mod instructions;
mod matmul;
mod reduce;
mod rms_norm;
mod rotary;
mod sgd;
mod shape;
mod softmax;
