//! A trace as a file: [`json()`] has all of it, [`npz()`] and [`safetensors()`] its weights as whole arrays.

mod arrays;
pub mod base64;
mod json;
mod npz;
mod safetensors;

pub use json::{SiteJson, VERSION, json};
pub use npz::npz;
pub use safetensors::safetensors;
