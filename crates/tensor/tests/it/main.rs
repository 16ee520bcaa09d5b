//! The integration tests of `polyhead-tensor`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod adam;
mod attention;
mod cross_entropy;
mod dropout;
mod embedding;
mod examples;
mod finite_difference;
mod gemm;
mod layer_norm;
mod linear;
mod tape;
mod torch;
