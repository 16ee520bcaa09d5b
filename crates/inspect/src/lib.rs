//! Looking into attention models: traces of sentences, and pictures.
//!
//! 1. [`trace`] is what a model did with one sentence: tokens, weights, probabilities, the search.
//! 2. [`entropy`], [`rollout`], [`words`] and [`alignment`] make more of its weights.
//! 3. [`selection`] says which heads are meant, [`export`] writes a trace as JSON or as arrays, [`heat_map`] draws weights for
//!    paper and for terminals; [`label`] shows what is hidden in a text.
//! 4. [`draw`] has pictures of positions and masks; [`chart`] draws lines (losses, scores, learning rates of training runs).
//! 5. [`font`] is the one font of all pictures, and measures text with it; [`svg`] has the few things that every SVG needs;
//!    [`png`] turns any of these SVGs into pixels.

pub mod alignment;
pub mod chart;
pub mod draw;
pub mod entropy;
pub mod error;
pub mod export;
pub mod font;
pub mod heat_map;
pub mod label;
pub mod matrix;
pub mod png;
pub mod rollout;
pub mod selection;
pub mod svg;
pub mod trace;
pub mod words;

pub use error::{Error, Result};
