//! The layers around attention: linear, embedding, normalisation, feed-forward, dropout, pooling, recurrent.

pub mod dropout;
pub mod embedding;
pub mod feed_forward;
pub mod linear;
pub mod norm;
pub mod pooling;
pub mod recurrent;

pub use dropout::Dropout;
pub use embedding::Embedding;
pub use feed_forward::FeedForward;
pub use linear::{Bias, Linear};
pub use norm::{LayerNorm, Norm, NormKind, RmsNorm};
pub use pooling::Pooling;
pub use recurrent::{Lstmn, Recurrent};
