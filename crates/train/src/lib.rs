//! Training: from a corpus to a model ready to deploy.
//!
//! ```text
//! recipe.toml → config → corpus → vocabulary → objective: dataset → batches
//!     → learner (loss, gradients, Adam) → validation → checkpoints → the finished model
//! ```
//!
//! The task decides the training objective: `translation` for sentence pairs, `classification` for labelled texts, `tagging` for
//! words with a tag each, `language_model` and `masked_language_model` for plain text, `contrastive` for pairs with one meaning,
//! `image_classification` for images, `transcription` for sounds and `captioning` for images with texts.
//!
//! Same config, same text, same machine → the same weights to the bit, with any number of threads, whether or not the run was
//! killed and resumed.

pub mod average;
mod captioning;
pub mod checkpoint;
mod classification;
pub mod config;
mod contrastive;
pub mod embeddings;
#[cfg(test)]
mod encoder_losses;
mod error;
pub mod event;
pub mod fingerprint;
mod finish;
mod image_classification;
pub mod init;
mod labels;
mod language_model;
mod learner;
mod log;
mod masked_language_model;
pub mod memory;
pub mod metrics_file;
mod model_folder;
pub mod objective;
mod pointing;
mod preparation;
mod run;
pub mod run_corpus;
mod run_folder;
pub mod schedule;
mod starting_model;
pub mod state;
mod tagging;
mod task;
pub mod tensorboard;
mod transcription;
pub mod translation;
pub mod verify;
pub mod vocabulary;

pub use error::{Error, Result};
pub use run::{RunOptions, RunOutcome, Start, train};
pub use task::Task;
