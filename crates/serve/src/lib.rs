//! HTTP: the explorer, a page in the browser that shows what a model attends to and lets one change it.
//!
//! 1. [`assets`] are the page's files, which are part of the program; [`mod@page`] packs them and a trace into one file.
//! 2. [`explorer`] serves them to this machine alone and answers what they ask: [`wire`] has the forms.
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
