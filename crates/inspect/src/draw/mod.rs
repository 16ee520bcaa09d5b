//! Pictures of what stands around attention: positions and masks.

mod mask;
mod positions;

pub use mask::mask;
pub use positions::positions;
