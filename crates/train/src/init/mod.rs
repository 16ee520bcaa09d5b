//! A first recipe for a corpus: settings chosen by the corpus statistics, each with its reason.
//!
//! ```text
//! corpus → statistics (sizes, vocabulary) → choices (settings with reasons) → text (a recipe for `polyhead train`)
//!      └→ hold_out (validation pairs, if there are none)
//! ```

pub mod choices;
pub mod hold_out;
pub mod languages;
pub mod statistics;
pub mod text;

pub use choices::{FEW_PAIRS, Setting, choose};
pub use hold_out::{HoldOut, HoldOutCounts, default_hold_out, hold_out};
pub use languages::languages_from_names;
pub use statistics::{CorpusStatistics, SideStatistics};
pub use text::{RecipeText, relative, render};
