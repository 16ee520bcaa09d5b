//! Optimisers and what goes with them.

mod adam;
mod clip;

pub use adam::{Adam, AdamOptions};
pub use clip::clip_global_norm;
