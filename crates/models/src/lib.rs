//! Attention models: ids in, ids out.
//!
//! 1. [`model`] is any model; [`sequence_to_sequence`], [`encoder`] and [`language_model`] are the views that other crates use.
//! 2. [`transformer`] holds the families of *Attention Is All You Need*, [`window`] and [`averaging`] baselines without attention,
//!    [`mod@pointer`] the pointer network, [`vision`] the Vision Transformer, [`speech`] speech recognition, [`caption`]
//!    captions of images, both on the decoder of [`text_decoder`], [`recurrent`] the models before;
//!    [`copying`] lets their decoders copy words of the source.
//! 3. [`decode`] generates token by token; it uses a model only through [`decode::NextToken`].
//! 4. [`checkpoint`] loads and saves models; [`parity`] compares a model with another implementation.

pub mod averaging;
pub mod caption;
pub mod checkpoint;
mod convolution;
pub mod copying;
pub mod decode;
pub mod encoder;
pub mod error;
mod family;
mod ids;
pub mod language_model;
pub mod model;
pub mod parity;
pub mod pointer;
mod recipe;
pub mod recurrent;
pub mod sequence_to_sequence;
pub mod shortlist;
pub mod speech;
pub mod text_decoder;
mod text_state;
pub mod transformer;
mod view;
pub mod vision;
pub mod window;

pub use caption::Captioner;
pub use copying::{CopyShare, Copying, TrainingLoss};
pub use encoder::Encoder;
pub use error::{Error, Result};
pub use ids::Ids;
pub use language_model::{LanguageModel, LanguageModelDecoding, LanguageModelState};
pub use model::{DataSpec, Model, ModelConfig, TextFormat};
pub use pointer::PointerNetwork;
pub use sequence_to_sequence::{Decoding, DecodingState, SequenceToSequence, SpecialIds};
pub use shortlist::{LexicalShortlist, LexicalTable, Shortlist, Shortlisted};
pub use speech::SpeechRecognizer;
pub use transformer::{Attribution, ResidualStream, StreamPart};
pub use view::View;
pub use vision::ImageEncoder;
