//! From a parallel corpus to a model you would deploy.

pub mod tensorboard;
