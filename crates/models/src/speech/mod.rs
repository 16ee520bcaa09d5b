//! Speech recognition: log-mel frames → convolutional stem → Transformer encoder; a Transformer decoder writes the text
//! (Radford et al. 2023, "Robust Speech Recognition via Large-Scale Weak Supervision": Whisper).
//!
//! [`SpeechRecognizer`] has the layers; [`Frames`] is a batch of sounds; [`SpeechDecoding`] is the model for the searches of
//! [`crate::decode`], over sounds that were encoded once ([`EncodedSpeech`]).

mod config;
mod decoding;
mod frames;
mod recognizer;
mod stem;

pub use config::SpeechConfig;
pub use decoding::SpeechDecoding;
pub use frames::Frames;
pub use recognizer::{EncodedSpeech, SpeechRecognizer};
