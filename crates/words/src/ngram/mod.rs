//! n-gram language models: modified Kneser–Ney estimation, files, scoring and generation.
//!
//! ```text
//! text → count (sorted n-grams, on disk where memory is short) → estimate → NgramModel ⇄ ARPA, binary (mapped into memory)
//!                                                                               └→ score, generate
//! ```
//!
//! A model is a trie over reversed n-grams: from a word to the word before it, and so on. The parent of an n-gram is the
//! n-gram without its first word, to which it backs off.

pub mod arpa;
mod binary;
mod count;
mod estimate;
pub mod generate;
pub mod model;
pub mod score;
mod table;
mod vocabulary;

pub use count::{Progress, TextUnit};
pub use estimate::{Discounts, Estimated, TrainOptions, train};
pub use generate::{GenerateOptions, Generated};
pub use model::{NgramModel, State};
pub use score::{LineScore, TextScore};

/// Id of the unknown word.
pub const UNKNOWN: u32 = 0;
/// Id of the beginning of a sentence.
pub const BEGIN: u32 = 1;
/// Id of the end of a sentence.
pub const END: u32 = 2;
/// The words of the special ids.
pub const SPECIAL: [&str; 3] = ["<unk>", "<s>", "</s>"];
/// Largest order.
pub const MAX_ORDER: usize = 10;
