//! The operations, each in a file of its own: what it computes, how it goes forward, how gradients go back.

pub mod attention;
pub mod cross_entropy;
pub mod dropout;
pub mod embedding;
pub mod linear;
pub mod norm;
