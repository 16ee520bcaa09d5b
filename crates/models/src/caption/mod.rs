//! Image captioning: the encoder of a Vision Transformer reads the patches of an image, and a Transformer decoder writes a text
//! about it, whose words attend to patches (Xu et al. 2015, "Show, Attend and Tell"; Vinyals et al. 2015, "Show and Tell").
//!
//! [`Captioner`] is [`crate::vision`]'s encoder and the decoder of [`crate::text_decoder`]; both are pre-norm stacks of one width.

mod captioner;
mod config;

pub use captioner::Captioner;
pub use config::CaptionConfig;
