//! Splitting texts into sentences, and joining their translations.
//!
//! [`split`] finds sentences; `cut` divides those that are too long for the model; `Sentence::parts` makes the parts of
//! either. `Joiner` puts translations together again with the separators of their sources. None changes a character of
//! the text: property tests join what they split.
//!
//! [`TextPlan`] is a text before translation (its route and sentences), `HopText` one during a hop (its segments with
//! their hypotheses).

mod abbreviations;
mod cut;
mod hop_text;
mod join;
mod split;
mod text_plan;

use std::ops::Range;

pub(crate) use self::cut::cut;
pub(crate) use self::hop_text::{HopText, LoopOutcome, Segment, Tags};
pub(crate) use self::join::{Joiner, Scores};
pub use self::split::split;
pub use self::text_plan::{RoutedSentence, TextPlan};

/// A text in sentences. `lead`, then each sentence with its separator, is the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'a> {
    /// White space before the first sentence.
    pub lead: &'a str,
    /// The sentences.
    pub sentences: Vec<Sentence<'a>>,
}

impl<'a> Split<'a> {
    /// A text as one sentence.
    pub(crate) fn whole(text: &'a str) -> Self {
        Self { lead: "", sentences: vec![Sentence { text, separator: "" }] }
    }

    /// A text without sentences, all of it copied.
    pub(crate) fn none(text: &'a str) -> Self {
        Self { lead: text, sentences: Vec::new() }
    }
}

/// A sentence; it neither begins nor ends with white space and is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentence<'a> {
    /// Its text.
    pub text: &'a str,
    /// The white space after it; empty at the end of the text and after marks that need none.
    pub separator: &'a str,
}

impl Sentence<'_> {
    /// The sentence in parts: `ranges` of its text in bytes, in order. The text between two ranges is the separator of
    /// the first; the last part has the sentence's separator.
    pub(crate) fn parts(self, ranges: &[Range<usize>]) -> Vec<Self> {
        let nexts = ranges.iter().skip(1).map(|next| Some(next.start)).chain([None]);
        let part = |(range, next): (&Range<usize>, Option<usize>)| Self {
            text: &self.text[range.clone()],
            separator: next.map_or(self.separator, |next| &self.text[range.end..next]),
        };
        ranges.iter().zip(nexts).map(part).collect()
    }
}
