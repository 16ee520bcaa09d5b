//! Images in, classes or captions out.
//!
//! 1. [`decode`] reads PNG and JPEG files into a [`Picture`]; sizes are checked before anything is decoded.
//! 2. [`Preprocessor`] does what `preprocessor_config.json` says: [`resample`](Picture::resized), crop, normalise.
//! 3. [`ImageClassifier`] and [`CaptionEngine`] run a model folder on pictures.
//! 4. [`sets`] reads labelled images: idx files, CIFAR's binary files, and folders with a folder for each class.

mod caption;
mod classify;
pub mod decode;
mod picture;
mod preprocessor;
mod resample;
pub mod sets;
mod summary;

pub use caption::{CaptionAttention, CaptionEngine, CaptionOptions, ImageCaption};
pub use classify::{ImageAttention, ImageClassifier, ImageOptions};
pub use decode::ImageLimits;
pub use picture::Picture;
pub use preprocessor::{PREPROCESSOR, Preprocessor};
pub use resample::Filter;
pub use summary::ImageSummary;
