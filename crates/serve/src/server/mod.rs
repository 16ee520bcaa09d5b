//! `polyhead serve`: a translation server.
//!
//! 1. [`desk`] takes texts in and gives translations out: sentences wait in a queue (`queue.rs`), which joins them into
//!    batches for the workers (`work.rs`); what was translated lately is remembered (`cache.rs`).
//! 2. [`shelf`] has the models, loaded when somebody asks for one.

mod cache;
pub mod desk;
pub mod limits;
pub mod memory;
mod queue;
pub mod shelf;
mod work;

pub use desk::{Answered, Ask, Client, Desk, DeskOptions, Finished, Gauges, Wanted};
pub use limits::RequestLimits;
pub use shelf::{LanguageAnswer, Loaded, ModelEntry, ModelFolder};
