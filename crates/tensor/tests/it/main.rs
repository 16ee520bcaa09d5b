//! The integration tests of `polyhead-tensor`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod attention;
mod finite_difference;
mod gemm;
mod layer_norm;
mod linear;
mod tape;
