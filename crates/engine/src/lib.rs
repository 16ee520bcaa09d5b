//! Tasks on a loaded model folder: text in, results out.
//!
//! 1. [`load`](load()) loads a folder onto a device; [`tokenizers`] finds its tokenisers.
//! 2. [`encoder`] gives vectors of texts, classes of tokens, masked words and scores of pairs; [`classify`] is text classification, [`generate`] continues prompts, which [`chat`] makes of messages,
//!    [`perplexity`] measures a text, [`mod@image`] classifies and describes images, [`speech`] recognises speech, [`point`] runs pointer networks
//!    and [`puzzle`]
//!    makes data for them, as [`scene`] does for captions. A further task is a module beside these; translation, with its languages, sentences
//!    and documents, is a crate of its own above this one.

pub mod chat;
pub mod classify;
mod encoded_text;
pub mod encoder;
pub mod error;
pub mod generate;
pub mod image;
pub mod load;
pub mod perplexity;
pub mod point;
pub mod puzzle;
pub mod scene;
pub mod search;
pub mod settings;
pub mod speech;
pub mod tokenizers;

pub use chat::ChatTemplate;
pub use classify::Classifier;
pub use encoded_text::TextAttention;
pub use encoder::{LongTexts, TextEncoder};
pub use error::{Error, Result};
pub use generate::Generator;
pub use image::{CaptionEngine, ImageClassifier};
pub use load::{LoadOptions, load};
pub use point::PointEngine;
pub use speech::SpeechEngine;
