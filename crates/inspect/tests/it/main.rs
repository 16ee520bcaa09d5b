//! The integration tests of the crate of pictures, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod charts;
