//! Spans of words with one type, such as names: the label schemes, and precision, recall and F1 of spans.
//!
//! Labels in the scheme B-, I-, O (Ramshaw & Marcus 1995), or its variants with E-, L-, S- and U- (Ratinov & Roth 2009), are merged
//! to spans: one begins with B-, S- or U-, or where the type changes, and ends with E-, L-, S- or U-. A label without such a prefix
//! is a type, and adjacent words of one type are one span. O is outside.
//!
//! A span is right if its words and its type are those of the reference. On labels in BIO and BIOES, well-formed or not, the scores
//! equal seqeval's (Nakayama 2018), which are those of the script of CoNLL's task of 2000.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::metrics::labels::LabelScore;

/// The position of a word in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first word: B.
    Begin,
    /// A word after the first: I or M.
    Inside,
    /// The last word: E or L.
    End,
    /// The only word: S or U.
    Single,
}

/// Words of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span<'a> {
    /// Indices of the words.
    pub words: Range<usize>,
    /// The type: the label without the prefix of its scheme.
    pub label: &'a str,
}

/// Type and place of a label; `None` for O.
pub fn parse(label: &str) -> Option<(&str, Option<Place>)> {
    if label == "O" {
        return None;
    }
    let place = |letter: &str| match letter {
        "B" => Some(Place::Begin),
        "I" | "M" => Some(Place::Inside),
        "E" | "L" => Some(Place::End),
        "S" | "U" => Some(Place::Single),
        _ => None,
    };
    match label.split_once(['-', '_']) {
        Some((letter, name)) if place(letter).is_some() => Some((name, place(letter))),
        _ => Some((label, None)),
    }
}

/// True for O and for labels with a prefix of a scheme.
pub fn is_tag(label: &str) -> bool {
    parse(label).is_none_or(|(_, place)| place.is_some())
}

/// The spans of words with these labels; `None` is a word without a label, outside of all spans.
///
/// ```
/// use polyhead_text::spans::{Span, spans};
/// let labels = ["B-PER", "I-PER", "O", "B-LOC"].map(Some);
/// let found = spans(labels);
/// assert_eq!(found, [Span { words: 0..2, label: "PER" }, Span { words: 3..4, label: "LOC" }]);
/// ```
pub fn spans<'a>(labels: impl IntoIterator<Item = Option<&'a str>>) -> Vec<Span<'a>> {
    let mut found: Vec<Span<'a>> = Vec::new();
    // True if the next word may continue the last span.
    let mut is_open = false;
    for (index, label) in labels.into_iter().enumerate() {
        let Some((name, place)) = label.and_then(parse) else {
            is_open = false;
            continue;
        };
        let begins = matches!(place, Some(Place::Begin | Place::Single));
        match found.last_mut() {
            Some(span) if is_open && !begins && span.label == name => span.words.end = index + 1,
            _ => found.push(Span { words: index..index + 1, label: name }),
        }
        is_open = !matches!(place, Some(Place::End | Place::Single));
    }
    found
}

/// Counts of spans over sentences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// Right spans, found spans, and spans of the reference, by type.
    by_type: BTreeMap<String, [u64; 3]>,
}

impl SpanCounts {
    /// Adds a sentence with the labels found and those of the reference.
    pub fn add<'a>(
        &mut self,
        found: impl IntoIterator<Item = Option<&'a str>>,
        reference: impl IntoIterator<Item = Option<&'a str>>,
    ) {
        let (found, reference) = (spans(found), spans(reference));
        for span in &found {
            self.of(span)[1] += 1;
        }
        for span in &reference {
            let same_start = found.binary_search_by_key(&span.words.start, |found| found.words.start);
            let is_right = same_start.is_ok_and(|index| found[index] == *span);
            let counts = self.of(span);
            counts[0] += u64::from(is_right);
            counts[2] += 1;
        }
    }

    fn of(&mut self, span: &Span<'_>) -> &mut [u64; 3] {
        if !self.by_type.contains_key(span.label) {
            self.by_type.insert(span.label.to_owned(), [0; 3]);
        }
        self.by_type.get_mut(span.label).expect("it was inserted above")
    }

    /// Precision, recall and F1 of all spans, whatever their type (micro average).
    pub fn total(&self) -> LabelScore {
        let add = |sum: [u64; 3], counts: &[u64; 3]| [0, 1, 2].map(|index| sum[index] + counts[index]);
        LabelScore::of(String::new(), self.by_type.values().fold([0; 3], add))
    }

    /// Precision, recall and F1 of each type, in the order of their names.
    pub fn types(&self) -> Vec<LabelScore> {
        self.by_type.iter().map(|(name, counts)| LabelScore::of(name.clone(), *counts)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(labels: &[&'static str]) -> Vec<(&'static str, Range<usize>)> {
        spans(labels.iter().copied().map(Some)).into_iter().map(|span| (span.label, span.words)).collect()
    }

    #[test]
    fn schemes_are_merged_to_spans() {
        let bio = found(&["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]);
        assert_eq!(bio, [("PER", 0..2), ("LOC", 3..4), ("LOC", 4..5)]);
        // A span that begins with I-, and a change of the type.
        assert_eq!(found(&["I-PER", "I-PER", "I-LOC", "O"]), [("PER", 0..2), ("LOC", 2..3)]);
        let bioes = found(&["B-X", "I-X", "E-X", "E-X", "S-X", "S-X"]);
        assert_eq!(bioes, [("X", 0..3), ("X", 3..4), ("X", 4..5), ("X", 5..6)]);
        assert_eq!(found(&["B-X", "L-X", "U-X"]), [("X", 0..2), ("X", 2..3)]);
        let plain = found(&["NOUN", "NOUN", "T-SHIRT", "O", "NOUN"]);
        assert_eq!(plain, [("NOUN", 0..2), ("T-SHIRT", 2..3), ("NOUN", 4..5)]);
    }

    #[test]
    fn counts_by_hand() {
        let mut counts = SpanCounts::default();
        counts.add(["B-A", "I-A", "B-B"].map(Some), ["B-A", "I-A", "B-A"].map(Some));
        counts.add([Some("B-B"), None], ["B-B", "I-B"].map(Some));

        // A: 1 right of 1 found and 2; B: none right of 2 found and 1.
        assert_eq!(counts.types()[0], LabelScore::of("A".into(), [1, 1, 2]));
        assert_eq!(counts.types()[1], LabelScore::of("B".into(), [0, 2, 1]));
        assert_eq!(counts.total(), LabelScore::of(String::new(), [1, 3, 3]));
    }
}
