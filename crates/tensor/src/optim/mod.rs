//! Optimisers, gradient clipping and moving averages.

mod adam;
mod card;
mod clip;
mod moving_average;
mod sgd;

pub use adam::{Adam, AdamOptions};
pub use card::{CardAdam, CardAdamOptions};
pub use clip::clip_global_norm;
pub use moving_average::moving_average;
pub use sgd::{Momentum, Sgd, SgdOptions};
