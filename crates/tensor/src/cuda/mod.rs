//! NVIDIA GPUs: arrays in their memory, kernels, products, and whole steps recorded as CUDA graphs.
//!
//! 1. [`library`] finds the required libraries, [`cards`] lists the GPUs; [`device`] opens one, with its streams, its
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
mod cards;
mod device;
mod flat;
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

pub(crate) use array::{Array, Dtype};
pub use cards::{CardFacts, cards};
pub use device::Cuda;
pub(crate) use flat::Flat;
pub(crate) use gradient::{Place, Slot};
pub use graph::Graph;
pub(crate) use kernel::{Argument, DropoutArgument, Launch, args};
pub(crate) use matmul::{Epilogue, Product, Side};
pub(crate) use optim::CardAdam;
pub use profile::Family;
pub(crate) use step_rows::{CardRows, Regroup};
pub(crate) use through_host::through_host;
pub(crate) use transfer::{download, one_like, step_key, upload};
