//! `polyhead serve`: a translation server.
//!
//! 1. [`desk`] takes texts in and gives translations out: sentences wait in a queue (`queue.rs`), which joins them into
//!    batches for the workers (`work.rs`); what was translated lately is remembered (`cache.rs`).
//! 2. [`shelf`] has the models, loaded when somebody asks for one.
//! 3. [`mod@routes`] says who answers what: `libre.rs` LibreTranslate's calls, `v1.rs` and `stream.rs` our own, `about.rs` what
//!    the server says of itself. `documents.rs` makes texts of what was sent, `job.rs` takes them to the desk and back, and
//!    [`answers`] has the forms of what goes back; `spoken.rs` knows the languages, [`files`] keeps what can be fetched.
//! 4. `gate.rs` lets clients in, and `life.rs` runs it all: [`Server`].

mod about;
pub mod answers;
mod attention;
mod cache;
pub mod desk;
mod documents;
pub mod files;
mod gate;
mod gauges;
mod job;
mod libre;
mod life;
pub mod limits;
mod queue;
pub mod routes;
pub mod shelf;
mod signals;
mod spoken;
mod stream;
mod v1;
mod work;

pub use desk::{Answered, Ask, Client, Desk, DeskOptions, Finished, Gauges, Wanted};
pub use files::{Files, FilesOptions};
pub use gate::GateOptions;
pub use life::{ServeOptions, Server};
pub use limits::RequestLimits;
pub use routes::{KeyRule, Shared, routes};
pub use shelf::{LanguageAnswer, Loaded, ModelEntry, ModelFolder};
