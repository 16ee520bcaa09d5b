//! Fixed-window networks (Bengio et al. 2003), baselines without attention: a hidden layer over a fixed number of tokens.
//!
//! 1. `layer` is the hidden layer, over one-hot or embedded tokens.
//! 2. [`encoder`] classifies a sequence by its last tokens, [`language_model`] predicts the token after them.

pub mod encoder;
pub mod language_model;
pub(crate) mod layer;

pub use encoder::{WindowEncoder, WindowEncoderConfig};
pub use language_model::{WindowLanguageModel, WindowLanguageModelConfig};
pub use layer::WindowInput;
