//! HTTP: a translation server, and the explorer, a page in the browser that shows what a model attends to and lets one change it.
//!
//! 1. [`front`] is everything between a socket and a handler, and knows nothing of translation.
//! 2. [`server`] is `polyhead serve`: models, queue and workers, LibreTranslate's calls and our own.
//! 3. [`assets`] are the pages' files, which are part of the program; [`mod@page`] packs them and a trace into one file.
//! 4. [`explorer`] serves them and answers what they ask: [`wire`] has the forms.
//!
//! This crate alone is async, and it alone defines what goes over the wire.

pub mod assets;
mod blocking;
mod bundle;
pub mod error;
pub mod explorer;
pub mod front;
mod half;
mod packed;
pub mod page;
pub mod server;
pub mod wire;

pub use error::{Error, Result};
pub use explorer::Explorer;
pub use page::page;
