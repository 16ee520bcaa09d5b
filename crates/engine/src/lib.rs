//! A model folder as something to work with: text in, results out.
//!
//! 1. [`load`](load()) reads a folder for a device; [`tokenizers`] finds its tokenisers.
//! 2. [`classify`] gives the classes of texts. A further task is a module beside it; translation, which has languages, sentences
//!    and documents to take care of, is a crate of its own above this one.

pub mod classify;
pub mod error;
pub mod load;
pub mod tokenizers;

pub use classify::Classifier;
pub use error::{Error, Result};
pub use load::{LoadOptions, load};
