//! From a corpus to a model you would deploy.
//!
//! ```text
//! recipe.toml → config → corpus → vocabulary → objective: dataset → batches
//!     → learner (loss, gradients, Adam) → validation → checkpoints → the finished model
//! ```
//!
//! What a model can do decides its `objective`: `translation` for pairs of sentences, `classification` for texts with a label.
//!
//! Same config, same text, same machine → the same weights to the bit, whatever the number of threads, and whether or not
//! the run was killed and resumed on the way.

pub mod average;
pub mod checkpoint;
mod classification;
pub mod config;
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
pub mod objective;
pub mod parallel;
mod preparation;
mod run;
mod run_folder;
pub mod schedule;
pub mod state;
mod task;
pub mod tensorboard;
pub mod translation;
pub mod verify;
pub mod vocabulary;

pub use error::{Error, Result};
pub use run::{Outcome, RunOptions, Start, train};
pub use task::Task;
