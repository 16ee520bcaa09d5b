//! The operations on a card, each beside its file for the processor.

pub(crate) mod activation;
pub(crate) mod attention;
mod attention_shape;
pub(crate) mod best_tokens;
pub(crate) mod column_sum;
pub(crate) mod linear;
pub(crate) mod step;
