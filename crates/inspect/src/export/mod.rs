//! A trace as a file: [`json()`] has all of it, [`npz()`] and [`safetensors()`] its weights as whole arrays.

mod arrays;
pub mod base64;
mod json;
mod npz;
mod safetensors;

pub use json::{VERSION, json};
pub use npz::npz;
pub use safetensors::safetensors;

use polyhead_attention::{Kind, Stack};

/// What a kind of attention is called in files and on the command line.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::EncoderSelf => "encoder",
        Kind::DecoderSelf => "decoder",
        Kind::Cross => "cross",
    }
}

/// What a stack is called there.
pub fn stack_name(stack: Stack) -> &'static str {
    match stack {
        Stack::Encoder => "encoder",
        Stack::Decoder => "decoder",
    }
}
