//! Integration tests of `polyhead-text`: one module per part of the crate, all in one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
#![allow(clippy::float_cmp, reason = "whole numbers are exact")]

mod metrics;
