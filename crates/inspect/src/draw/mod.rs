//! Pictures of positional encodings, attention masks, and answers of pointer networks.

mod mask;
mod points;
mod positions;

pub use mask::mask;
pub use points::{Outline, PointPicture, points};
pub use positions::positions;
