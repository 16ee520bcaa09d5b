//! The integration tests of `polyhead-serve`, one binary.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod answers;
mod calls;
mod client;
mod desk;
mod front;
mod page;
mod safety;

use std::path::{Path, PathBuf};

use polyhead_serve::Explorer;
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::Limits;
use polyhead_translate::{Engine, LoadOptions};

/// A model with tokenisers, like those of OPUS-MT.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn engine() -> Engine {
    Engine::load(golden(), &LoadOptions::default()).unwrap()
}

/// A running explorer's port; it ends with the tests.
fn explorer(limits: Limits) -> u16 {
    let listening = Explorer::new(engine(), "opus").with_limits(limits).listen(Port::Exactly(0)).unwrap();
    let port = listening.address().port();
    std::thread::spawn(move || listening.run());
    port
}
