//! Text in, text out: a model folder as a translator.
//!
//! ```text
//! text → outline: route (languages, one step or two), split (sentences) → for each sentence and step:
//!        cut (too long for the model) → form (kept things, capitals) → ids → batch → decode
//!        → repetition (loops) → mend (what was lost) → joined text
//! ```
//!
//! 1. [`Engine`] is a loaded folder: model, tokenisers, its own settings ([`generation`]) and languages.
//! 2. [`Route`] is the way of a text; its language is guessed where nobody says it. An [`Outline`] has it with the text's
//!    sentences, of which each is translated by itself as a [`Passage`].
//! 3. [`TranslateOptions`] say what is wanted; [`Translation`] is what came of one text, with [`Note`]s on everything
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
mod alphabet;
mod batch;
mod capitals;
mod code;
mod codes;
mod contractions;
mod cut;
mod distinct;
mod document;
mod emoji;
mod engine;
mod form;
pub mod formats;
pub mod generation;
mod guess;
mod join;
mod kept;
pub mod languages;
mod mend;
mod numbers;
mod opened;
mod options;
mod outline;
mod pipeline;
mod repetition;
mod request;
mod route;
mod search;
pub mod split;
mod translate_document;
mod translation;
pub mod words;

pub use engine::{Engine, LoadOptions};
pub use form::PLACEHOLDERS;
pub use options::{Evidence, Guessing, LengthFormula, Mode, Sampling, TranslateOptions};
pub use outline::{Outline, Passage};
pub use polyhead_engine::{Error, Result};
pub use route::Route;
pub use translate_document::DocumentTranslation;
pub use translation::{Candidate, Note, Translation};
