//! Arrays and kernels for attention models.
//!
//! The law of this crate: the same inputs give the same bits, for any number of threads, any vector instructions, and
//! whatever other rows stand in the batch. See [`gemm`] for how.

pub mod gemm;
pub mod isa;
pub mod peak;
