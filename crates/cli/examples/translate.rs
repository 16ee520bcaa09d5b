//! Translates a text with the default model: `cargo run --release --example translate -- tr "Good morning. How are you?"`

use std::error::Error;

use polyhead_translate::{Engine, LoadOptions, TranslateOptions};

/// The model folder of this repository.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/default");

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let to = arguments.next().unwrap_or_else(|| "tr".into());
    let text = arguments.next().unwrap_or_else(|| "Good morning. How are you?".into());

    // Loading maps the weights from disk; one engine serves many threads.
    let engine = Engine::load(MODEL, &LoadOptions::default())?;
    let options = TranslateOptions { to: Some(to), ..TranslateOptions::default() };

    // One result per text. A note says what was done besides decoding, such as splitting a text into sentences.
    for translation in engine.translate(&[&text], &options)? {
        println!("{}", translation.text());
        for note in &translation.notes {
            eprintln!("note: {note}");
        }
    }
    Ok(())
}
