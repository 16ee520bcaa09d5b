//! Pictures of attention models.
//!
//! 1. [`chart`] draws lines (losses, scores, learning rates of training runs) as SVG.
//! 2. [`font`] is the one font of all pictures, and measures text with it.
//! 3. [`png`] turns any of these SVGs into pixels.
//! 4. [`svg`] has the few things that every SVG needs.

pub mod chart;
pub mod error;
pub mod font;
pub mod png;
pub mod svg;

pub use error::{Error, Result};
