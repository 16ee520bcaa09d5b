//! The Transformer (Vaswani et al. 2017): encoder, decoder, and the translator made of both.

pub mod config;
pub mod decoder;
pub mod encoder;
mod input;
mod residual;
pub mod shortlist;
pub mod translator;
mod validate;

pub use config::TransformerConfig;
pub use shortlist::{Shortlist, Shortlisted};
pub use translator::{Decoding, Translator};
