//! The layers that stand around attention.

pub mod embedding;
pub mod feed_forward;
pub mod linear;
pub mod norm;

pub use embedding::Embedding;
pub use feed_forward::FeedForward;
pub use linear::Linear;
pub use norm::LayerNorm;
