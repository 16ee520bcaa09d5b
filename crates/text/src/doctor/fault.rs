//! The faults that the doctor knows.

use serde::Serialize;

/// What can be wrong with a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A TSV line without the column, a JSONL line without the field.
    Malformed,
    /// A side has bytes that are not UTF-8.
    InvalidUtf8,
    /// One file has ended before the other.
    Unpaired,
    /// The source has no text.
    EmptySource,
    /// The target has no text.
    EmptyTarget,
    /// NUL, another control character, or a byte-order mark.
    Control,
    /// A character that other tools take for a line end: U+2028, U+2029, U+0085, a lone carriage return.
    LineBreak,
    /// A side has more characters than allowed.
    TooLong,
    /// One side is many times longer than the other.
    LengthRatio,
    /// Source and target are the same.
    Identical,
    /// The pair stood in the corpus before.
    Duplicate,
    /// A side stands in the test files.
    Overlap,
}

impl Fault {
    /// All of them, the gravest first.
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::InvalidUtf8,
        Self::Unpaired,
        Self::EmptySource,
        Self::EmptyTarget,
        Self::Control,
        Self::LineBreak,
        Self::TooLong,
        Self::LengthRatio,
        Self::Identical,
        Self::Duplicate,
        Self::Overlap,
    ];

    /// The name used in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Unpaired => "unpaired",
            Self::EmptySource => "empty_source",
            Self::EmptyTarget => "empty_target",
            Self::Control => "control",
            Self::LineBreak => "line_break",
            Self::TooLong => "too_long",
            Self::LengthRatio => "length_ratio",
            Self::Identical => "identical",
            Self::Duplicate => "duplicate",
            Self::Overlap => "overlap",
        }
    }

    /// What it means, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Malformed => "line without the column or field",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::Unpaired => "line without a partner",
            Self::EmptySource => "source empty",
            Self::EmptyTarget => "target empty",
            Self::Control => "control character",
            Self::LineBreak => "odd line break inside a line",
            Self::TooLong => "line too long",
            Self::LengthRatio => "lengths far apart",
            Self::Identical => "source = target",
            Self::Duplicate => "pair seen before",
            Self::Overlap => "also in the test files",
        }
    }

    /// True where a corpus cannot be read for training as it is.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::Malformed | Self::InvalidUtf8 | Self::Unpaired)
    }
}

/// Faults of one pair as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Faults(u16);

impl Faults {
    pub(super) fn add_if(&mut self, wrong: bool, fault: Fault) {
        self.0 |= u16::from(wrong) << fault as u16;
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |&fault| self.0 & (1 << fault as u16) != 0)
    }
}
