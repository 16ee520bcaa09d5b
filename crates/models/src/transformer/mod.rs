//! The Transformer (Vaswani et al. 2017): encoder, decoder, and the translator made of both.

pub mod config;
mod validate;

pub use config::TransformerConfig;
