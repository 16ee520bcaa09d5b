//! How a model that sees all tokens at once knows their order.
//!
//! Positions hook in at one of three places: added to embeddings ([`sinusoidal`], [`learned`]), turning queries and keys
//! ([`rotary`]), or in the scores ([`relative`]).

pub mod learned;
pub mod relative;
pub mod rotary;
pub mod sinusoidal;

pub use learned::Learned;
pub use relative::RelativePositions;
pub use rotary::Rotary;
pub use sinusoidal::{Layout, Sinusoidal};
