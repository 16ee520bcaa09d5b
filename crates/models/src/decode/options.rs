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
    /// Minimum number of tokens between a forced prefix and the end token; default: 0. The larger minimum applies.
    pub min_new: usize,
    /// Maximum number of tokens after a forced prefix; default: none. The smaller maximum applies.
    pub max_new: Option<usize>,
}

impl Default for Lengths {
    fn default() -> Self {
        Self { min: 0, min_ratio: 0.0, max: 512, max_ratio: None, min_new: 0, max_new: None }
    }
}

impl Lengths {
    /// The limits for a source of `source_length` tokens.
    pub fn of(&self, source_length: usize) -> Limits {
        self.with_prefix(source_length, 0)
    }

    /// The same for a translation that begins with a forced prefix of `prefix_length` tokens, which they include.
    pub fn with_prefix(&self, source_length: usize, prefix_length: usize) -> Limits {
        let times = |ratio: f64| (ratio * source_length as f64).ceil() as usize;
        let maxima = [self.max_ratio.map(times), self.max_new.map(|max| max.saturating_add(prefix_length))];
        let min_new = if self.min_new == 0 { 0 } else { self.min_new.saturating_add(prefix_length) };
        Limits {
            min: self.min.max(times(self.min_ratio)).max(min_new),
            max: maxima.into_iter().flatten().fold(self.max, usize::min),
        }
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
