//! Looking into attention models: traces of sentences, and pictures.
//!
//! 1. [`trace`] is what a model did with one sentence: tokens, weights, probabilities, the search.
//! 2. [`entropy`], [`rollout`], [`words`] and [`alignment`] make more of its weights.
//! 3. [`chart`] draws lines (losses, scores, learning rates of training runs) as SVG.
//! 4. [`font`] is the one font of all pictures, and measures text with it; [`svg`] has the few things that every SVG needs;
//!    [`png`] turns any of these SVGs into pixels.

pub mod alignment;
pub mod chart;
pub mod entropy;
pub mod error;
pub mod font;
pub mod matrix;
pub mod png;
pub mod rollout;
pub mod svg;
pub mod trace;
pub mod words;

pub use error::{Error, Result};
