//! From a parallel corpus to a model you would deploy.
//!
//! ```text
//! recipe.toml → config → corpus → vocabulary → dataset → batches
//!     → learner (loss, gradients, Adam) → validation → checkpoints → the finished model
//! ```
//!
//! Same config, same text, same machine → the same weights to the bit, whatever the number of threads, and whether or not
//! the run was killed and resumed on the way.

pub mod augment;
pub mod average;
pub mod checkpoint;
pub mod config;
pub mod dataset;
pub mod embeddings;
mod error;
pub mod event;
pub mod fingerprint;
mod finish;
pub mod init;
mod learner;
mod log;
pub mod memory;
pub mod metrics_file;
mod model_folder;
pub mod parallel;
mod preparation;
mod run;
mod run_folder;
pub mod schedule;
mod sentences;
pub mod state;
pub mod tensorboard;
pub mod validation;
pub mod verify;
pub mod vocabulary;

pub use error::{Error, Result};
pub use run::{Outcome, RunOptions, Start, train};
