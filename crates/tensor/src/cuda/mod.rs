//! NVIDIA GPUs: arrays in their memory, kernels, products, and whole steps recorded as CUDA graphs.
//!
//! 1. [`library`] finds the required libraries, [`gpus`] lists the GPUs; [`device`] opens one, with its streams, its
//!    memory ([`memory`]) and its first error.
//! 2. [`array`] are values on it; [`kernel`] compiles and launches our kernels; [`matmul`] multiplies matrices.
//! 3. [`ops`] are the bodies of the crate's operations; `kernels/` their CUDA C++, one file per operation.
//! 4. [`gradient`] manages the memory of gradients; [`flat`] lays out parameters; [`optim`] updates them.
//! 5. [`graph`] records a step once and replays it, with a [`branch`] for work that can wait; [`profile`] measures
//!    time.
//!
//! All work goes through one stream, except for a recording's branch, and every sum has a fixed order: the same input
//! gives the same bits.

mod array;
mod arrays;
mod branch;
mod device;
mod flat;
mod gpus;
mod gradient;
mod graph;
mod kernel;
mod library;
mod matmul;
mod memory;
pub(crate) mod ops;
mod optim;
mod profile;
mod step_rows;
mod through_host;
mod transfer;

pub(crate) use array::{Array, ElementType};
pub use device::Cuda;
pub(crate) use flat::FlatParameters;
pub use gpus::{CudaDeviceInfo, gpus};
pub(crate) use gradient::{CudaGradientSlot, GradientTarget};
pub use graph::CudaGraph;
pub(crate) use kernel::{Argument, DropoutArgument, Launch, args};
pub(crate) use matmul::{Epilogue, Operand, Product};
pub(crate) use optim::CudaAdam;
pub use profile::KernelFamily;
pub(crate) use step_rows::{CudaRegroup, GpuRows};
pub(crate) use through_host::through_host;
pub(crate) use transfer::{download, one_like, step_key, upload};
