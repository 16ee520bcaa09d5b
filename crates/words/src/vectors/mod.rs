//! Word vectors: a vector for each word, near those of words with similar contexts.
//!
//! 1. [`Corpus`] reads text into ids on disk; [`Tokenization`] and [`PhraseOptions`] say what a word is.
//! 2. [`train`] learns skip-gram and CBOW vectors, also of character n-grams.
//!    [`train_glove`] learns GloVe vectors from [`Cooccurrences`].
//! 3. [`WordVectors`] holds them, and reads and writes the [`Format`]s of word2vec, GloVe and fastText.
//! 4. [`map`] places words in two dimensions. [`Cosines`] finds nearest words and answers analogies; [`evaluate`] scores vectors on test sets.
//!
//! ```
//! use polyhead_words::vectors::{Corpus, CorpusOptions, TrainOptions, train};
//! let lines = ["the professor is scribbling on the board", "and the student is writing on the board"].repeat(20);
//! let corpus = Corpus::from_lines(lines, &CorpusOptions::default())?;
//! let vectors = train(&corpus, &TrainOptions { dimensions: 8, ..TrainOptions::default() }, &|_| true)?;
//! assert_eq!(vectors.row(0).len(), 8);
//! assert_eq!(vectors.vocabulary().word(0), "the");
//! # Ok::<(), polyhead_words::Error>(())
//! ```

mod corpus;
pub mod evaluate;
mod format;
mod glove;
mod huffman;
pub mod map;
mod nearest;
mod options;
mod phrases;
mod sampling;
mod subword;
mod tokens;
mod train;
mod vocabulary;
mod word_vectors;

pub use corpus::{Corpus, CorpusOptions};
pub use format::Format;
pub use glove::{Cooccurrences, GloveOptions, train_glove};
pub use nearest::{Cosines, Neighbour, cosine};
pub use options::{Architecture, Loss, SubwordOptions, TrainOptions};
pub use phrases::PhraseOptions;
pub use tokens::Tokenization;
pub use train::{Progress, train, window};
pub use vocabulary::Vocabulary;
pub use word_vectors::{Subwords, WordVectors};
