//! Language in, ids out.
//!
//! 1. [`lines`] reads text files, plain or gzip, one `\n`-ended line at a time, and [`output`] writes them so that a
//!    failure leaves nothing behind.
//! 2. [`corpus`] makes pairs of them: two line files, TSV or JSONL.
//! 3. [`doctor`] looks for what is wrong in a corpus and cleans it.
//! 4. [`tokenizer`] turns text into ids and back, and is trained here or read from foreign files.
//! 5. [`batch`] groups encoded pairs into padded batches in an order that is a pure function of (seed, epoch).
//! 6. [`metrics`] compares strings: BLEU, chrF, TER, ROUGE, accuracy, error rates.
//! 7. [`language`] tells which language a text is in.
//!
//! No tensors here. Offsets are bytes and always slice the original string.

pub mod batch;
pub mod corpus;
pub mod doctor;
pub mod error;
pub mod figures;
pub mod language;
pub mod lines;
pub mod metrics;
pub mod output;
pub mod spelling;
pub mod tokenizer;

pub use error::{Error, Result};
