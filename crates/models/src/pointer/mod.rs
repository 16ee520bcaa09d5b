//! Pointer networks (Vinyals, Fortunato & Jaitly 2015): the answer is a sequence of positions of the input.
//!
//! An LSTM reads the points, another one writes the answer, and its attention over the encoder states e_j is the
//! output: u_j = vᵀ·tanh(W·d_i + U·e_j), p(answer_i = j) = softmax(u)_j. The vocabulary is the input itself, so one model
//! handles inputs of any length. Key 0 is a learned vector that ends the answer.
//!
//! 1. [`PointerConfig`] has the sizes, [`PointerNetwork`] the layers; [`Points`] and [`Orders`] are batches.
//! 2. [`search`](PointerNetwork::search) is beam search that keeps the [`AnswerRule`].

mod answer;
mod batch;
mod config;
mod network;
mod search;

pub use answer::AnswerRule;
pub use batch::{NO_POINT, Orders, Points};
pub use config::{Glimpse, PointSpec, PointerConfig};
pub use network::PointerNetwork;
pub use search::{Found, SearchOptions};
