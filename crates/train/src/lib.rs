//! From a parallel corpus to a model you would deploy.

pub mod metrics_file;
pub mod tensorboard;
