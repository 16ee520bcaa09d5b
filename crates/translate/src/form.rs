//! What the model reads in place of a sentence, and how what it writes is put back.
//!
//! ```text
//! 😀 SEE HTTPS://X.ORG NOW  →  😀 | See ⟨0⟩ now  →  Bak ⟨0⟩ şimdi  →  😀 BAK HTTPS://X.ORG ŞİMDİ
//! ```
//!
//! Kept things become placeholders, private-use characters that the model has learned to carry over. Signs at either
//! end are set aside. Capitals become small letters, and English gets the apostrophes that were left out. Where each
//! character comes from is remembered, so that alignments speak of the words that people see.

use std::ops::Range;

use crate::capitals::{capitalised, is_in_capitals, upper, usual};
use crate::contractions::contraction;
use crate::kept::{Kept, Kind};

/// Placeholders of the first, second, … kept thing of a sentence, as models are trained with them.
pub const PLACEHOLDERS: [char; 4] = ['\u{e000}', '\u{e001}', '\u{e002}', '\u{e003}'];

/// The languages of a sentence and of its translation, as two-letter codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Languages<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

/// How the letters of a sentence are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// As they look.
    Seen,
    /// All in capitals, as the sentence that it is a part of.
    Capitals,
    /// Not all, for the same reason.
    Mixed,
}

impl Case {
    /// That of the parts of a sentence which is read in this form.
    pub(crate) fn of(form: Option<&Form>) -> Self {
        if form.is_some_and(Form::is_in_capitals) { Self::Capitals } else { Self::Mixed }
    }

    /// Whether a text is in capitals.
    pub(crate) fn is_capitals(self, text: &str) -> bool {
        match self {
            Self::Seen => is_in_capitals(text),
            Self::Capitals => text.contains(char::is_uppercase),
            Self::Mixed => false,
        }
    }
}

/// What the model reads in place of a sentence.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// What the model reads.
    pub(crate) text: String,
    /// Where `text` comes from in the sentence.
    pub(crate) origin: Mapping,
    /// Ranges of the sentence, in the order of their placeholders.
    kept: Vec<Range<usize>>,
    /// The middle of the sentence, what is set aside left off.
    middle: Range<usize>,
    /// The language to write in capitals.
    capitals: Option<String>,
}

/// What became of what the model wrote.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restored {
    pub(crate) text: String,
    /// From what the model wrote to `text`.
    pub(crate) place: Mapping,
    /// Ranges of the sentence that stand unchanged in `text`, and where.
    pub(crate) copies: Vec<(Range<usize>, Range<usize>)>,
}

impl Form {
    /// The form of a sentence with these kept things, which must not be more than placeholders besides those at its ends.
    ///
    /// `casing` names the languages where capitals are to be read as small letters; `n_pieces` counts pieces of a word.
    pub(crate) fn new(
        sentence: &str,
        kept: &[Kept],
        (casing, case): (Option<&Languages<'_>>, Case),
        n_pieces: &dyn Fn(&str) -> usize,
    ) -> Self {
        let middle = middle(sentence, kept);
        let inside = |kept: &&Kept| kept.range.start >= middle.start && kept.range.end <= middle.end;
        let kept: Vec<Range<usize>> = kept.iter().filter(inside).map(|kept| kept.range.clone()).collect();
        let plain: String = gaps(&middle, &kept).map(|gap| format!("{} ", &sentence[gap])).collect();
        let is_english = casing.is_some_and(|languages| languages.from == "en");
        let casing = casing.filter(|_| case.is_capitals(&plain));
        let mut form = Self {
            text: String::new(),
            origin: Mapping::default(),
            kept: Vec::new(),
            middle: middle.clone(),
            capitals: casing.map(|languages| languages.to.to_owned()),
        };
        for (index, gap) in gaps(&middle, &kept).enumerate() {
            match casing {
                None if is_english => form.push_english(sentence, gap),
                None => form.push(&sentence[gap.clone()], gap),
                Some(languages) => form.push_in_sentence_case(sentence, gap, languages.from, n_pieces),
            }
            if let (Some(range), Some(placeholder)) = (kept.get(index), PLACEHOLDERS.get(index)) {
                form.push(&placeholder.to_string(), range.clone());
            }
        }
        form.kept = kept;
        form
    }

    fn push(&mut self, text: &str, origin: Range<usize>) {
        self.origin.push(self.text.len()..self.text.len() + text.len(), origin);
        self.text.push_str(text);
    }

    /// A word that begins at `start` in another spelling, letter by letter: a letter may have other bytes (*İ* and *i*), and no
    /// place may fall inside one.
    fn push_spelled(&mut self, spelled: &str, word: &str, start: usize) {
        let mut ends = word.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let (n_letters, mut from) = (spelled.chars().count(), 0);
        for (index, letter) in spelled.chars().enumerate() {
            let is_last = index + 1 == n_letters;
            let end = if is_last { word.len() } else { ends.next().unwrap_or(word.len()) };
            self.push(letter.encode_utf8(&mut [0; 4]), start + from..start + end);
            from = end;
        }
    }

    /// English with the apostrophes that people leave out.
    fn push_english(&mut self, sentence: &str, gap: Range<usize>) {
        let (mut plain, mut at) = (gap.start, gap.start);
        while at < gap.end {
            let rest = &sentence[at..gap.end];
            let is_word = rest.starts_with(char::is_alphanumeric);
            let length = rest.find(|letter: char| letter.is_alphanumeric() != is_word).unwrap_or(rest.len());
            let stands_alone = !sentence[..at].ends_with(['\'', '’', '-', '.']);
            let next = rest[length..].chars().next();
            if let Some(spelled) = contraction(&rest[..length], next).filter(|_| is_word && stands_alone) {
                self.push(&sentence[plain..at], plain..at);
                self.push_spelled(&spelled, &rest[..length], at);
                plain = at + length;
            }
            at += length;
        }
        self.push(&sentence[plain..gap.end], plain..gap.end);
    }

    fn push_in_sentence_case(
        &mut self,
        sentence: &str,
        gap: Range<usize>,
        language: &str,
        n_pieces: &dyn Fn(&str) -> usize,
    ) {
        let mut at = gap.start;
        while at < gap.end {
            let rest = &sentence[at..gap.end];
            let is_word = rest.starts_with(char::is_alphabetic);
            let length = rest.find(|letter: char| letter.is_alphabetic() != is_word).unwrap_or(rest.len());
            let (word, range) = (&rest[..length], at..at + length);
            let touches = |neighbour: Option<char>| neighbour.is_some_and(char::is_numeric);
            let is_code =
                touches(rest[length..].chars().next()) || touches(sentence[..at].chars().next_back());
            if !is_word || is_code {
                self.push(word, range);
            } else {
                let is_first = !self.text.contains(char::is_alphanumeric);
                let spelled = usual(word, language, n_pieces);
                let spelled = if is_first { capitalised(&spelled, language) } else { spelled };
                self.push_spelled(&spelled, word, at);
            }
            at += length;
        }
    }

    /// Whether the model reads the very sentence.
    pub(crate) fn is_plain(&self, sentence: &str) -> bool {
        self.kept.is_empty() && self.capitals.is_none() && self.text == sentence
    }

    /// How many placeholders it needs.
    pub(crate) fn n_kept(&self) -> usize {
        self.kept.len()
    }

    /// Whether it was written in capitals.
    pub(crate) fn is_in_capitals(&self) -> bool {
        self.capitals.is_some()
    }

    /// The ranges of the sentence that its placeholders stand for.
    pub(crate) fn kept(&self) -> &[Range<usize>] {
        &self.kept
    }

    /// The ranges of the sentence, which is `text`, that the model does not see.
    pub(crate) fn set_aside(&self, text: &str) -> Vec<Range<usize>> {
        let ends = [0..self.middle.start, self.middle.end..text.len()];
        ends.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// The ranges of the sentence, which is `text`, that come through as they are.
    pub(crate) fn untouched(&self, text: &str) -> Vec<Range<usize>> {
        self.set_aside(text).into_iter().chain(self.kept.iter().cloned()).collect()
    }

    /// Whether `written` has each of its placeholders once, and no other.
    pub(crate) fn is_carried_by(&self, written: &str) -> bool {
        let expected = |index: usize| usize::from(index < self.kept.len());
        PLACEHOLDERS.iter().enumerate().all(|(index, mark)| written.matches(*mark).count() == expected(index))
    }

    /// What the model wrote, with everything put back; a placeholder that stands for nothing vanishes. White space that
    /// stood beside a kept thing does so again where a letter or a digit would touch it.
    pub(crate) fn restore(&self, sentence: &str, written: &str) -> Restored {
        let mut restored = Restored::default();
        restored.copy(sentence, 0..self.middle.start);
        let mut had_space = false;
        for (at, character) in written.char_indices() {
            let span = at..at + character.len_utf8();
            if let Some(index) = PLACEHOLDERS.iter().position(|mark| *mark == character) {
                let Some(kept) = self.kept.get(index) else { continue };
                let is_touched = restored.text.ends_with(char::is_alphanumeric);
                if is_touched && sentence[..kept.start].ends_with(char::is_whitespace) {
                    restored.text.push(' ');
                }
                had_space = sentence[kept.end..].starts_with(char::is_whitespace);
                restored.place.push(span, restored.text.len()..restored.text.len() + kept.len());
                restored.copy(sentence, kept.clone());
                continue;
            }
            if std::mem::take(&mut had_space) && character.is_alphanumeric() {
                restored.text.push(' ');
            }
            let start = restored.text.len();
            match &self.capitals {
                Some(language) => restored.text.push_str(&upper(character, language)),
                None => restored.text.push(character),
            }
            restored.place.push(span, start..restored.text.len());
        }
        restored.copy(sentence, self.middle.end..sentence.len());
        restored
    }
}

impl Restored {
    fn copy(&mut self, sentence: &str, range: Range<usize>) {
        if !range.is_empty() {
            let start = self.text.len();
            self.text.push_str(&sentence[range.clone()]);
            self.copies.push((range, start..self.text.len()));
        }
    }
}

/// A sentence without the signs at its ends and the white space beside them.
fn middle(sentence: &str, kept: &[Kept]) -> Range<usize> {
    let mut middle = 0..sentence.len();
    for kept in kept.iter().filter(|kept| kept.kind == Kind::Symbol) {
        if sentence[middle.start..kept.range.start.max(middle.start)].trim().is_empty() {
            let rest = &sentence[kept.range.end..];
            middle.start = sentence.len() - rest.trim_start().len();
        }
    }
    for kept in kept.iter().rev().filter(|kept| kept.kind == Kind::Symbol && kept.range.start >= middle.start)
    {
        if sentence[kept.range.end.min(middle.end)..middle.end].trim().is_empty() {
            middle.end = middle.start + sentence[middle.start..kept.range.start].trim_end().len();
        }
    }
    middle
}

/// What lies before, between and behind the kept things.
fn gaps<'a>(middle: &'a Range<usize>, kept: &'a [Range<usize>]) -> impl Iterator<Item = Range<usize>> + 'a {
    let starts = std::iter::once(middle.start).chain(kept.iter().map(|range| range.end));
    let ends = kept.iter().map(|range| range.start).chain([middle.end]);
    starts.zip(ends).map(|(start, end)| start..end)
}

/// Which ranges of one text stand for which of another, from left to right in the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapping(Vec<(Range<usize>, Range<usize>)>);

impl Mapping {
    /// Goes on with a range and what it stands for.
    fn push(&mut self, here: Range<usize>, there: Range<usize>) {
        if here.is_empty() && there.is_empty() {
            return;
        }
        if let Some((last, stands_for)) = self.0.last_mut() {
            let are_equal = last.len() == stands_for.len() && here.len() == there.len();
            if are_equal && last.end == here.start && stands_for.end == there.start {
                (last.end, stands_for.end) = (here.end, there.end);
                return;
            }
        }
        self.0.push((here, there));
    }

    /// What a range stands for; empty for an empty one.
    pub(crate) fn map(&self, span: &Range<usize>) -> Range<usize> {
        let start = self.place(span.start, |there| there.start);
        let end = if span.is_empty() { start } else { self.place(span.end - 1, |there| there.end) };
        start..end.max(start)
    }

    /// What the byte at `at` stands for, of which `side` takes one end.
    fn place(&self, at: usize, side: impl Fn(Range<usize>) -> usize) -> usize {
        let index = self.0.partition_point(|(here, _)| here.end <= at);
        let Some((here, there)) = self.0.get(index).or(self.0.last()) else { return 0 };
        if here.len() != there.len() {
            return side(there.clone());
        }
        let byte = there.start + at.saturating_sub(here.start);
        side(byte.min(there.end)..(byte + 1).min(there.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::find;

    fn form(sentence: &str, casing: Option<&Languages<'_>>) -> Form {
        let is_known = |character: char| character < '\u{180}';
        Form::new(sentence, &find(sentence, &is_known), (casing, Case::Seen), &|word| word.chars().count())
    }

    #[test]
    fn kept_things_come_back() {
        let sentence = "😀 See https://x.org and @tom 👍 now 🎉🎉";
        let form = form(sentence, None);
        assert_eq!(form.text, "See \u{e000} and \u{e001} \u{e002} now");
        assert!(form.is_carried_by("\u{e001} \u{e002} \u{e000}"));
        assert!(
            !form.is_carried_by("\u{e001} \u{e000}")
                && !form.is_carried_by("\u{e001}\u{e001}\u{e002}\u{e000}")
        );
        let restored = form.restore(sentence, "Jetzt \u{e001} und \u{e000}\u{e003} \u{e002}!");
        assert_eq!(restored.text, "😀 Jetzt @tom und https://x.org 👍! 🎉🎉");
        for (source, target) in &restored.copies {
            assert_eq!(sentence[source.clone()], restored.text[target.clone()]);
        }
        assert_eq!(restored.copies.len(), 5);
        // The word `und` and the address, as the model wrote them.
        assert_eq!(&restored.text[restored.place.map(&(10..13))], "und");
        assert_eq!(&restored.text[restored.place.map(&(14..17))], "https://x.org");
        assert_eq!(&sentence[form.origin.map(&(0..3))], "See");
        assert_eq!(&sentence[form.origin.map(&(4..7))], "https://x.org");
        assert_eq!(&sentence[form.origin.map(&(8..11))], "and");
    }

    #[test]
    fn capitals_are_read_small_and_written_large() {
        let languages = Languages { from: "en", to: "tr" };
        let sentence = "THE CAT, I SAY, IS AT HTTP://X.ORG IN B12.";
        let english = form(sentence, Some(&languages));
        assert_eq!(english.text, "The cat, I say, is at \u{e000} in B12.");
        assert_eq!(english.restore(sentence, "Kedi ısı: \u{e000}.").text, "KEDİ ISI: HTTP://X.ORG.");
        let from_turkish = Languages { from: "tr", to: "de" };
        let form = form("İYİ IŞIK 😀", Some(&from_turkish));
        assert_eq!(form.text, "İyi ışık");
        let restored = form.restore("İYİ IŞIK 😀", "Große Sache");
        assert_eq!(restored.text, "GROSSE SACHE 😀");
        assert_eq!(&restored.text[restored.place.map(&(7..12))], "SACHE");
        assert_eq!(&"İYİ IŞIK 😀"[form.origin.map(&(5..12))], "IŞIK");
    }

    #[test]
    fn a_part_is_in_capitals_where_its_sentence_is() {
        let languages = Languages { from: "en", to: "tr" };
        let read = |case| Form::new("NOW", &[], (Some(&languages), case), &|word| word.chars().count());
        // By itself it may be an abbreviation.
        assert_eq!(
            [Case::Seen, Case::Capitals, Case::Mixed].map(|case| read(case).text),
            ["NOW", "Now", "NOW"]
        );
        let whole = form("SEE @bob AND COME", Some(&languages));
        assert_eq!([Case::of(Some(&whole)), Case::of(None)], [Case::Capitals, Case::Mixed]);
    }

    #[test]
    fn a_plain_sentence_is_read_as_it_is() {
        let languages = Languages { from: "en", to: "tr" };
        for sentence in ["The cat.", "NATO", "a", "  x"] {
            let form = form(sentence, Some(&languages));
            assert!(form.is_plain(sentence), "{sentence}");
        }
        assert!(!form("a 😀", None).is_plain("a 😀"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(sentence in "([a-zA-Z ]|😀|漢|@|http://x|ß|İ){1,30}") {
            let form = form(&sentence, None);
            let restored = form.restore(&sentence, &form.text);
            if form.n_kept() <= PLACEHOLDERS.len() {
                proptest::prop_assert_eq!(&restored.text, &sentence);
            }
        }

        #[test]
        fn no_place_falls_inside_a_letter(sentence in "([A-Z ]|I|İ|Ş|ẞ|ŉ|😀|@x){1,30}") {
            for from in ["tr", "de"] {
                let form = form(&sentence, Some(&Languages { from, to: "en" }));
                for (at, letter) in form.text.char_indices() {
                    let place = form.origin.map(&(at..at + letter.len_utf8()));
                    proptest::prop_assert!(sentence.get(place.clone()).is_some(), "{letter} {place:?}");
                }
            }
        }
    }
}
