//! The integration tests of `polyhead-serve`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod answers;
mod calls;
mod client;
mod encoder;
mod encoder_explorer;
mod front;
mod generation;
mod lessons;
mod media;
mod page;
mod palette;
mod safety;
mod scheduler;
mod text;
mod translation;

use std::path::{Path, PathBuf};

use polyhead_serve::Explorer;
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::ExplorerLimits;
use polyhead_translate::{Engine, LoadOptions};

/// A tiny model folder in the layout of OPUS-MT.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn engine() -> Engine {
    Engine::load(golden(), &LoadOptions::default()).unwrap()
}

/// Starts an explorer that runs until the tests end; returns its port.
fn explorer(limits: ExplorerLimits) -> u16 {
    let listening = Explorer::new(engine(), "opus").with_limits(limits).listen(Port::Exactly(0)).unwrap();
    let port = listening.address().port();
    std::thread::spawn(move || listening.run());
    port
}
