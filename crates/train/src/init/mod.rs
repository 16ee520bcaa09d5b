//! A first recipe for a corpus: settings chosen by the corpus statistics, each with its reason.
//!
//! ```text
//! corpus → statistics (sizes, vocabulary) → choices (settings with reasons) → text (a recipe for `polyhead train`)
//!      ├→ forecast (steps of the run, counted with its tokeniser and batches)
//!      └→ hold_out (validation pairs, if there are none)
//! ```

pub mod choices;
pub mod forecast;
pub mod hold_out;
pub mod languages;
pub mod statistics;
pub mod text;

pub use choices::{ChoiceOptions, FEW_PAIRS, ModelUse, Setting, choose};
pub use forecast::{StepForecast, forecast_steps};
pub use hold_out::{HoldOut, HoldOutCounts, default_hold_out, hold_out};
pub use languages::{detected_languages, languages_from_names};
pub use statistics::{CorpusStatistics, SideStatistics};
pub use text::{RecipeText, relative, render};
