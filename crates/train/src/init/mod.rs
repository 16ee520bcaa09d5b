//! A first recipe for a corpus: it is measured, and each setting chosen by its size, with a reason in words.
//!
//! ```text
//! corpus → facts (sizes, kinds of words) → choices (settings with reasons) → text (a recipe that `polyhead train` takes)
//!      └→ hold_out (pairs to validate on, where there are none)
//! ```

pub mod choices;
pub mod facts;
pub mod hold_out;
pub mod languages;
pub mod text;

pub use choices::{FEW_PAIRS, Setting, choose};
pub use facts::{Facts, SideFacts};
pub use hold_out::{HoldOut, Split, hold_out, usual_count};
pub use languages::guess;
pub use text::{RecipeText, relative, render};
