//! The problems that the doctor finds.

use serde::Serialize;

/// A problem of a text pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A TSV line lacks the column, or a JSONL line the field.
    Malformed,
    /// A side has bytes that are not UTF-8.
    InvalidUtf8,
    /// One file ends before the other.
    Unpaired,
    /// The source is empty or white space.
    EmptySource,
    /// The target is empty or white space.
    EmptyTarget,
    /// NUL, another control character, or a byte-order mark.
    Control,
    /// A character that other tools read as a line end: U+2028, U+2029, U+0085, a lone carriage return.
    LineBreak,
    /// UTF-8 that was read as Latin-1 or Windows-1252 (`CafÃ©`), or U+FFFD, the mark of a lost character.
    Mojibake,
    /// One side has markup that the other lacks: character references, tags, `{{…}}`, `[[…]]`, `\\n`.
    Markup,
    /// A side of a Latin-script language has more letters of other scripts. Needs the languages.
    Script,
    /// A side has more than the allowed number of characters.
    TooLong,
    /// One side is many times longer than the other.
    LengthRatio,
    /// Source and target are identical.
    Identical,
    /// The sides are equal but for case, punctuation and white space, in three words and more.
    Untranslated,
    /// A side is clearly in another language than it should be. Needs the languages.
    Language,
    /// The numbers of two and more digits differ.
    Numbers,
    /// The pair is a duplicate of an earlier one.
    Duplicate,
    /// A side is also in the test files.
    Overlap,
}

impl Problem {
    /// All problems, the most severe first.
    pub const ALL: [Self; 18] = [
        Self::Malformed,
        Self::InvalidUtf8,
        Self::Unpaired,
        Self::EmptySource,
        Self::EmptyTarget,
        Self::Control,
        Self::LineBreak,
        Self::Mojibake,
        Self::Markup,
        Self::Script,
        Self::TooLong,
        Self::LengthRatio,
        Self::Identical,
        Self::Untranslated,
        Self::Language,
        Self::Numbers,
        Self::Duplicate,
        Self::Overlap,
    ];

    /// The problems of the text itself; finding them takes most of the time of a check.
    pub const CONTENT: [Self; 6] =
        [Self::Mojibake, Self::Markup, Self::Script, Self::Untranslated, Self::Language, Self::Numbers];

    /// Name in options and reports: `empty_source`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Unpaired => "unpaired",
            Self::EmptySource => "empty_source",
            Self::EmptyTarget => "empty_target",
            Self::Control => "control",
            Self::LineBreak => "line_break",
            Self::Mojibake => "mojibake",
            Self::Markup => "markup",
            Self::Script => "script",
            Self::TooLong => "too_long",
            Self::LengthRatio => "length_ratio",
            Self::Identical => "identical",
            Self::Untranslated => "untranslated",
            Self::Language => "language",
            Self::Numbers => "numbers",
            Self::Duplicate => "duplicate",
            Self::Overlap => "overlap",
        }
    }

    /// Short description for display: `empty source`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Malformed => "missing column or field",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::Unpaired => "line without counterpart",
            Self::EmptySource => "empty source",
            Self::EmptyTarget => "empty target",
            Self::Control => "control character",
            Self::LineBreak => "line break inside a line",
            Self::Mojibake => "wrong encoding (mojibake)",
            Self::Markup => "markup on one side only",
            Self::Script => "letters of another script",
            Self::TooLong => "line too long",
            Self::LengthRatio => "very different lengths",
            Self::Identical => "source = target",
            Self::Untranslated => "source = target but for case",
            Self::Language => "another language",
            Self::Numbers => "numbers that differ",
            Self::Duplicate => "duplicate pair",
            Self::Overlap => "also in the test files",
        }
    }

    /// True if the corpus cannot be used for training until it is repaired.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::Malformed | Self::InvalidUtf8 | Self::Unpaired)
    }
}

/// Problems of one pair, as a bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProblemSet(u32);

impl ProblemSet {
    pub(super) fn add_if(&mut self, wrong: bool, problem: Problem) {
        self.0 |= u32::from(wrong) << problem as u32;
    }

    pub(super) fn remove(&mut self, problem: Problem) {
        self.0 &= !(1 << problem as u32);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Problem> {
        Problem::ALL.into_iter().filter(move |&problem| self.0 & (1 << problem as u32) != 0)
    }
}
