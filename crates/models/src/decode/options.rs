//! What every method of decoding needs to know: where a sequence starts, where it ends, and what is allowed.
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

/// Where sequences start and end, and which tokens are allowed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecodeOptions {
    /// The token that decoding starts from; 0.
    pub start_id: u32,
    /// The token that ends a sequence; 0.
    pub end_id: u32,
    /// How long a sequence may be; up to 512 tokens.
    pub lengths: Lengths,
    /// Which tokens are forbidden or forced; none.
    pub rules: Rules,
}

/// How many tokens a sequence may have, the end token included. The ratios are to the tokens of its source as given to
/// the model; results are rounded up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    /// Fewest tokens before the end token; 0.
    pub min: usize,
    /// Fewest tokens before the end token for each token of the source; 0. The larger minimum holds.
    pub min_ratio: f64,
    /// Most tokens; 512.
    pub max: usize,
    /// Most tokens for each token of the source; none. The smaller maximum holds.
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

/// The limits of one sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Fewest tokens before the end token.
    pub min: usize,
    /// Most tokens, the end token included.
    pub max: usize,
}
