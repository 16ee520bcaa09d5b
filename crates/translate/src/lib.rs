//! Text in, text out: a model folder as a translator.
//!
//! The path of a text, step by step ([`Engine::translate`], `pipeline.rs`):
//!
//! 1. **detect** the language, where none is given ([`languages`]);
//! 2. **route**: one hop, or two via a third language, as the model was trained (`route/`, [`Route`]);
//! 3. **split** into sentences, each translated by itself ([`segment`], [`TextPlan`], [`RoutedSentence`]);
//! 4. **preserve** addresses, emoji, code and what the model cannot spell, as placeholders (`preserve/`, `mask/`);
//! 5. **encode** to ids, long sentences in parts (`prepare.rs`);
//! 6. **search** for hypotheses in batches, loops again with rules against repetition (`search/`);
//! 7. **repair** what was lost: numbers, placeholders, translations without an end (`repair.rs`);
//! 8. **restore** the preserved spans and capitals (`restore.rs`);
//! 9. **join** the sentences, with white space as it was, to a [`Translation`] with its word [`alignment`].
//!
//! [`Engine`] is a loaded folder, [`TranslateOptions`] are the options of a request, a [`Note`] records whatever was done
//! besides decoding; [`formats`] has documents with markup. No text is lost without a note, and a text gives the same
//! translation in any batch and on any number of threads.
//!
//! ```no_run
//! use polyhead_translate::{Engine, LoadOptions, TranslateOptions};
//! let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let translations = engine.translate(&["Good morning. How are you?"], &TranslateOptions::default())?;
//! assert_eq!(translations[0].n_best.len(), 1);
//! # Ok::<(), polyhead_translate::Error>(())
//! ```

pub mod alignment;
mod copies;
mod document;
mod engine;
pub mod formats;
pub mod languages;
mod mask;
mod options;
mod pipeline;
mod prepare;
mod preserve;
mod quantities;
mod repair;
mod restore;
mod route;
mod search;
pub mod segment;
pub mod shortlist;
mod translation;
pub mod words;

pub use copies::CopiedWord;
pub use document::DocumentTranslation;
pub use engine::{Engine, LoadOptions};
pub use mask::PLACEHOLDERS;
pub use options::{Evidence, LanguageDetection, LengthFormula, Mode, Sampling, TranslateOptions};
pub use polyhead_engine::{Error, Result};
pub use route::Route;
pub use search::generation;
pub use segment::{RoutedSentence, TextPlan};
pub use shortlist::ShortlistChoice;
pub use translation::{Candidate, DecodedSegment, Note, Translation};
