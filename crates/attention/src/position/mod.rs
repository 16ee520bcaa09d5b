//! Positional encodings: attention itself does not depend on the order of tokens.
//!
//! They act at one of three points: added to embeddings ([`sinusoidal`], [`learned`]), as a rotation of queries and keys
//! ([`rotary`]), or in the scores ([`relative`]).

pub mod learned;
pub mod relative;
pub mod rotary;
pub mod sinusoidal;

pub use learned::Learned;
pub use relative::RelativePositions;
pub use rotary::Rotary;
pub use sinusoidal::{SinusoidLayout, Sinusoidal};
