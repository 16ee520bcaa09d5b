//! HTTP: a translation server, and the explorer, a web page that shows a model's attention and lets users change it.
//!
//! 1. [`front`] is everything between a socket and a handler, independent of translation.
//! 2. [`server`] is `polyhead serve`: scheduler, model registry and workers, LibreTranslate's calls and our own.
//! 3. [`assets`] are the pages' files, embedded in the program; [`mod@page`] packs them and a trace into one HTML file.
//! 4. [`explorer`] serves the page and its API, whose JSON [`wire`] defines.
//!
//! This crate alone is async, and it alone defines HTTP messages.

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
pub use explorer::{EncoderExplorer, Explorer, ImageExplorer, SoundExplorer, TextExplorer};
pub use page::{comparison_page, page};
