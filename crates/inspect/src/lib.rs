//! Inspection of attention models: traces of sentences, and pictures.
//!
//! 1. [`trace`] records one sentence: tokens, attention weights, probabilities, the search.
//! 2. [`entropy`], [`rollout`], [`words`] and [`alignment`] are computed from the weights; [`embeddings`] reads the table of words.
//!    [`states`] are the vectors of tokens in context, compared and projected.
//! 3. [`selection`] chooses layers and heads, [`export`] writes a trace as JSON or as arrays, [`heat_map`] draws weights as SVG
//!    and in terminals; [`label`] makes hidden characters visible.
//! 4. [`draw`] draws positional encodings and masks; [`chart`] draws line charts (losses, scores, learning rates of runs);
//!    [`word_map`] draws maps of words, [`overlay`] attention on an image.
//! 5. [`palette`] has the colours of all pictures, [`font`] is the embedded font of all pictures, and measures text; [`svg`] has the common parts of every SVG; [`png`]
//!    renders any of these SVGs.

pub mod alignment;
pub mod chart;
pub mod draw;
pub mod embeddings;
pub mod entropy;
pub mod error;
pub mod export;
pub mod font;
pub mod heat_map;
pub mod label;
pub mod matrix;
pub mod overlay;
pub mod palette;
pub mod png;
pub mod rollout;
pub mod selection;
pub mod states;
pub mod svg;
pub mod trace;
pub mod word_map;
pub mod words;

pub use error::{Error, Result};
