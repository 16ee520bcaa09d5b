//! Export of a trace: [`json()`] is complete, [`npz()`] and [`safetensors()`] hold its weights as arrays.

mod arrays;
pub mod base64;
mod encoder;
mod json;
mod npz;
mod safetensors;
mod text;

pub use encoder::{MAX_STATES, states, with_text};
pub use json::{SiteJson, VERSION, json};
pub use npz::npz;
pub use safetensors::safetensors;
pub use text::{contributions, lens};
