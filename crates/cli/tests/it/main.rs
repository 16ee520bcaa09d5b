//! The integration tests of the program, one binary: each drives `polyhead` as a user would.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[cfg(target_os = "linux")]
mod attack;
mod bad_input;
mod bench;
mod caption;
mod classify;
mod copying;
mod data;
mod default_model;
mod detect;
mod devices;
mod documents;
mod encoders;
mod explore;
mod generate;
mod guide;
mod images;
mod init;
mod inspect;
mod inspect_encoder;
mod inspect_text;
mod keys;
mod killed;
mod labels;
mod licences;
mod model;
mod models;
mod plot;
mod point;
mod program;
mod score;
mod serve;
mod shortlist;
mod sources;
#[cfg(unix)]
mod streaming;
mod tidy;
mod tokenizer;
mod train;
mod transcribe;
mod translate;
mod vectors;
mod words;
