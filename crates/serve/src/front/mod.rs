//! The HTTP front end: everything between a socket and a handler, independent of translation.
//!
//! 1. [`listen`] accepts connections, up to a limit, and drains them at the end; `connection.rs` serves one of them, `timed.rs`
//!    has the timeouts of its socket and bodies, [`open_files`] the limit of open files.
//! 2. [`mod@body`] reads a whole request body within the [`budget`]; [`form`] (`json.rs`) and [`multipart`] parse it into [`fields`].
//! 3. [`origin`] checks `Host` and `Origin`; [`keys`] and [`client`] identify the client, [`rate`] limits its requests.
//! 4. [`log`] logs each request, [`metrics`] has Prometheus metrics, [`process`] those of the process.
//! 5. [`error_response`] is an error as an HTTP response.

pub mod body;
pub mod budget;
pub mod client;
mod connection;
pub mod error_response;
pub mod fields;
pub mod form;
mod json;
pub mod keys;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod multipart;
mod observed_body;
pub mod open_files;
pub mod origin;
pub mod process;
pub mod rate;
mod timed;

pub use error_response::ErrorResponse;
