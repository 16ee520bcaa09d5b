//! Optimisers and what goes with them.

mod adam;
mod clip;
mod sgd;

pub use adam::{Adam, AdamOptions};
pub use clip::clip_global_norm;
pub use sgd::{Momentum, Sgd, SgdOptions};
