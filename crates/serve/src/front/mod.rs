//! Everything between a socket and a handler. It knows nothing of translation.
//!
//! 1. [`listen`] accepts connections with timeouts, a limit and a drain; `connection.rs` is one of them, `timed.rs` its
//!    socket and bodies, [`open_files`] how many there may be.
//! 2. [`mod@body`] reads a request's body whole; [`form`] and [`multipart`] make [`fields`] of it.
//! 3. [`origin`] refuses foreign names and pages; [`keys`] and [`client`] say who asks, [`rate`] how
//!    often that may be.
//! 4. [`log`] has a line for each request, [`metrics`] has numbers for Prometheus, [`process`] those of the process.
//! 5. [`refusal`] is an answer that says no.

pub mod body;
pub mod client;
mod connection;
pub mod fields;
pub mod form;
pub mod keys;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod multipart;
pub mod open_files;
pub mod origin;
pub mod process;
pub mod rate;
pub mod refusal;
mod seen;
mod timed;

pub use refusal::Refusal;
