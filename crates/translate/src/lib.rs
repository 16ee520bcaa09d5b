//! Text in, text out: a model folder as a translator.
//!
//! ```text
//! text → split (sentences) → cut (too long for the model) → ids → batch → decode → repetition (loops) → joined text
//! ```
//!
//! 1. [`Engine`] is a loaded folder: model, tokenisers, its own settings ([`generation`]) and languages.
//! 2. [`TranslateOptions`] say what is wanted; [`Translation`] is what came of one text, with [`Note`]s on everything
//!    that was done to it besides decoding.
//!
//! No text is lost without a note, and a text gives the same translation in any batch and on any number of threads.
//!
//! ```no_run
//! use polyhead_translate::{Engine, LoadOptions, TranslateOptions};
//! let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let found = engine.translate(&["Good morning. How are you?"], &TranslateOptions::default())?;
//! assert_eq!(found[0].n_best.len(), 1);
//! # Ok::<(), polyhead_translate::Error>(())
//! ```

mod abbreviations;
mod alignment;
mod batch;
mod cut;
mod engine;
mod error;
pub mod generation;
pub mod languages;
mod opened;
mod options;
mod pipeline;
mod repetition;
mod search;
pub mod split;
mod tokenizers;
mod translation;

pub use engine::{Engine, LoadOptions};
pub use error::{Error, Result};
pub use options::{Evidence, LengthFormula, Mode, Sampling, TranslateOptions};
pub use translation::{Candidate, Note, Translation};
