//! Speech recognition: log-mel frames → convolutional stem → Transformer encoder; a Transformer decoder writes the text
//! (Radford et al. 2023, "Robust Speech Recognition via Large-Scale Weak Supervision": Whisper).
//!
//! [`SpeechRecognizer`] has the layers; [`Frames`] is a batch of sounds; [`crate::text_decoder`] writes the text.

mod config;
mod frames;
mod recognizer;
mod stem;

pub use config::SpeechConfig;
pub use frames::Frames;
pub use recognizer::SpeechRecognizer;
