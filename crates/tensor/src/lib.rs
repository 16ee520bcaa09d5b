//! Arrays, kernels and differentiation for attention models.
//!
//! The law of this crate: the same inputs give the same bits, for any number of threads, any vector instructions, and
//! whatever other rows are in the batch. See [`gemm`] and the crate `polyhead-lanes` for how.
//!
//! 1. [`tensor`] holds values, [`pool`] lends their memory; [`indices`] are ids and lengths; [`dtype`] are number formats.
//! 2. [`ops`] are the operations, each with a forward and a backward pass; [`tape`] records them and runs back.
//! 3. [`parameters`] have names; [`optim`] updates them; [`prepared`] ones are packed or quantised for inference.

pub mod bf16;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod dtype;
pub mod elementary;
pub mod error;
pub mod gemm;
pub mod indices;
pub mod journal;
pub mod ops;
pub mod optim;
mod parallel;
pub mod parameters;
pub mod peak;
pub mod pool;
pub mod prepared;
pub mod repeated;
pub mod tape;
pub mod tensor;

use polyhead_lanes as lanes;
pub use polyhead_lanes::isa;

pub use device::{Device, Graph, Math, Policy};
pub use dtype::Dtype;
pub use error::{Error, Result};
pub use indices::Indices;
pub use parameters::{Init, ParameterId, Parameters};
pub use prepared::Prepared;
pub use tape::{Gradients, StepKey, Tape, Var};
pub use tensor::Tensor;
