//! The integration tests of `polyhead-serve`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod desk;
