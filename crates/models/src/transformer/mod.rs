//! The Transformer (Vaswani et al. 2017): one `stack` of layers, and the families built from it.
//!
//! [`Translator`] is the encoder-decoder, [`TransformerEncoder`] an encoder with pooling and class scores,
//! [`TransformerLanguageModel`] a decoder alone, [`BertEncoder`] an encoder with the embeddings and heads of BERT and its successors.

pub mod bert;
pub mod classes;
pub mod config;
pub(crate) mod cross;
pub mod decoder;
pub(crate) mod describe;
pub(crate) mod encoder;
pub(crate) mod input;
pub mod language_model;
mod residual;
pub mod residual_stream;
pub(crate) mod sources;
pub(crate) mod stack;
pub mod translator;
pub(crate) mod validate;

pub use bert::{BertConfig, BertEncoder};
pub use classes::{Pooling, TransformerEncoder, TransformerEncoderConfig};
pub use config::TransformerConfig;
pub use language_model::{TransformerLanguageModel, TransformerLanguageModelConfig};
pub use residual_stream::{Attribution, ResidualStream, StreamPart};
pub use translator::Translator;
