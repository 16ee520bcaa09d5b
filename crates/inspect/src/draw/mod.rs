//! Pictures of positional encodings and attention masks.

mod mask;
mod positions;

pub use mask::mask;
pub use positions::positions;
