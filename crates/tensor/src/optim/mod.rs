//! Optimisers, gradient clipping and moving averages.

mod adam;
mod clip;
mod gpu_adam;
mod moving_average;
mod sgd;

pub use adam::{Adam, AdamOptions};
pub use clip::clip_global_norm;
pub use gpu_adam::{GpuAdam, GpuAdamOptions};
pub use moving_average::moving_average;
pub use sgd::{Momentum, Sgd, SgdOptions};

/// Values per task of an update.
const TASK: usize = 1 << 15;
