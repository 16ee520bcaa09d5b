//! Text processing: corpora, tokenisers, batches, metrics on strings, language identification.
//!
//! 1. [`lines`] reads text files line by line, plain or gzip; [`output`] writes files atomically.
//! 2. [`corpus`] reads pairs of lines: two line files, TSV, CSV ([`csv`]) or JSONL; and words with tags ([`spans`]).
//! 3. [`doctor`] finds the problems of a corpus and cleans it.
//! 4. [`tokenizer`] encodes text into ids and decodes ids; tokenisers are trained here or read from other programs' files.
//! 5. [`batch`] groups encoded pairs into batches, in an order that is a pure function of (seed, epoch).
//! 6. [`metrics`] compares strings: BLEU, chrF, TER, ROUGE, accuracy, error rates.
//! 7. [`language`] detects the language of a text.
//! 8. [`entities`] reads the character references of HTML.
//! 9. [`lexicon`] learns which tokens translate which.
//!
//! The crate has no tensors. Offsets are bytes and always slice the original string.

pub mod batch;
pub mod corpus;
pub mod csv;
pub mod diagnostic;
pub mod doctor;
pub mod entities;
pub mod error;
pub mod figures;
pub mod language;
pub mod lexicon;
pub mod lines;
pub mod metrics;
pub mod output;
pub mod spans;
pub mod spelling;
pub mod tokenizer;
pub mod whole;

pub use diagnostic::Diagnostic;
pub use error::{Error, Result};
