//! Options common to all decoding methods: start and end of a sequence, its length, and the rules for tokens.
//!
//! ```
//! use polyhead_models::decode::{DecodeOptions, Lengths};
//! let lengths = Lengths { max: 100, max_ratio: Some(2.5), ..Lengths::default() };
//! assert_eq!(lengths.of(7).max, 18); // 7 · 2.5, rounded up
//! assert_eq!(lengths.of(70).max, 100);
//! let options = DecodeOptions { start_id: 96, end_id: 0, lengths, ..DecodeOptions::default() };
//! # assert!(options.rules.suppressed.is_empty());
//! ```

use super::rules::Rules;

/// Options common to all decoding methods.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecodeOptions {
    /// The start token; default: 0.
    pub start_id: u32,
    /// The end token; default: 0.
    pub end_id: u32,
    /// Bounds on the length; default: at most 512 tokens.
    pub lengths: Lengths,
    /// Forbidden and forced tokens; default: none.
    pub rules: Rules,
}

/// Bounds on the length of a sequence in tokens, including the end token. Ratios are relative to the number of source
/// tokens given to the model; results are rounded up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Minimum number of tokens before the end token; default: 0.
    pub min: usize,
    /// Minimum number of tokens before the end token per source token; default: 0. The larger minimum applies.
    pub min_ratio: f64,
    /// Maximum number of tokens; default: 512.
    pub max: usize,
    /// Maximum number of tokens per source token; default: none. The smaller maximum applies.
    pub max_ratio: Option<f64>,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { min: 0, min_ratio: 0.0, max: 512, max_ratio: None }
    }
}

impl Lengths {
    /// The limits for a source of `source_length` tokens.
    pub fn of(&self, source_length: usize) -> Limits {
        let times = |ratio: f64| (ratio * source_length as f64).ceil() as usize;
        let max = self.max_ratio.map_or(self.max, |ratio| self.max.min(times(ratio)));
        Limits { min: self.min.max(times(self.min_ratio)), max }
    }
}

/// The length limits of one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Minimum number of tokens before the end token.
    pub min: usize,
    /// Maximum number of tokens, including the end token.
    pub max: usize,
}
