//! Masking: the sentence that the model reads, and the translation restored from what it writes.
//!
//! ```text
//! 😀 SEE HTTPS://X.ORG NOW  →  😀 | See ⟨0⟩ now  →  Bak ⟨0⟩ şimdi  →  😀 BAK HTTPS://X.ORG ŞİMDİ
//! ```
//!
//! Preserved spans become placeholders, private-use characters that the model has learned to carry over. Symbols at
//! either end are set aside. Capitals become small letters; apostrophes, accents and question marks that were left out are
//! added, the marks to be dropped again. The origin of each character is recorded, so that alignments refer to the words
//! of the texts.

mod accents;
mod capitals;
mod contractions;
mod mapping;
mod questions;
mod respelling;
mod tags;

use std::ops::Range;

use self::capitals::{capitalised, is_in_capitals, upper, usual};
use self::mapping::Mapping;
use self::questions::is_question;
use self::respelling::Respelling;
pub(crate) use self::tags::StrippedSentence;
use crate::preserve::{PreservedKind, PreservedSpan};

/// Placeholders of the first, second, … preserved span of a sentence, as models are trained with them.
pub const PLACEHOLDERS: [char; 4] = ['\u{e000}', '\u{e001}', '\u{e002}', '\u{e003}'];

/// The languages of a sentence and of its translation, as two-letter codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HopLanguages<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

/// The case of the letters of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// To be detected from the sentence.
    Detect,
    /// Part of a sentence in capitals.
    Capitals,
    /// Part of a sentence that is not in capitals.
    Mixed,
}

impl Case {
    /// The case of the parts of a sentence.
    pub(crate) fn of(masked: Option<&MaskedSentence>) -> Self {
        if masked.is_some_and(MaskedSentence::is_in_capitals) { Self::Capitals } else { Self::Mixed }
    }

    /// True if a text is in capitals.
    pub(crate) fn is_capitals(self, text: &str) -> bool {
        match self {
            Self::Detect => is_in_capitals(text),
            Self::Capitals => text.contains(char::is_uppercase),
            Self::Mixed => false,
        }
    }
}

/// The sentence that the model reads in place of another.
#[derive(Debug, Clone)]
pub(crate) struct MaskedSentence {
    /// The text that the model reads.
    pub(crate) text: String,
    /// From bytes of `text` to bytes of the sentence.
    pub(crate) origin: Mapping,
    /// Preserved spans of the sentence, in the order of their placeholders.
    preserved: Vec<PreservedSpan>,
    /// The sentence without the symbols set aside at its ends.
    middle: Range<usize>,
    /// The target language of a sentence in capitals; none for others.
    capitals: Option<String>,
    /// True if a question mark was added, which the translation is not to have.
    is_marked: bool,
}

/// A translation with the preserved spans in place of their placeholders.
#[derive(Debug, Clone, Default)]
pub(crate) struct RestoredSentence {
    pub(crate) text: String,
    /// From bytes of the model's output to bytes of `text`.
    pub(crate) position: Mapping,
    /// Ranges of the sentence that were preserved, and their ranges in `text`.
    pub(crate) copies: Vec<(Range<usize>, Range<usize>)>,
}

impl MaskedSentence {
    /// Masks the preserved spans of a sentence; those inside it must not outnumber the placeholders.
    ///
    /// `casing` names the languages where capitals are to be read as small letters; `n_tokens` counts the tokens of a word.
    pub(crate) fn new(
        sentence: &str,
        preserved: &[PreservedSpan],
        (casing, case): (Option<&HopLanguages<'_>>, Case),
        n_tokens: &dyn Fn(&str) -> usize,
    ) -> Self {
        let middle = middle(sentence, preserved);
        let inside = |span: &&PreservedSpan| span.range.start >= middle.start && span.range.end <= middle.end;
        let preserved: Vec<PreservedSpan> = preserved.iter().filter(inside).cloned().collect();
        let plain: String = gaps(&middle, &preserved).map(|gap| format!("{} ", &sentence[gap])).collect();
        let language = casing.map(|languages| languages.from);
        let respelling = Respelling::of(&plain, language);
        // A part of a sentence may begin like a question.
        let is_marked = case == Case::Detect
            && language.is_some_and(|language| is_question(&sentence[middle.clone()], language));
        let casing = casing.filter(|_| case.is_capitals(&plain));
        let mut masked = Self {
            text: String::new(),
            origin: Mapping::default(),
            preserved: Vec::new(),
            middle: middle.clone(),
            capitals: casing.map(|languages| languages.to.to_owned()),
            is_marked,
        };
        for (index, gap) in gaps(&middle, &preserved).enumerate() {
            match casing {
                None => masked.push_respelled(sentence, gap, respelling),
                Some(languages) => {
                    let usual = |word: &str| respelling.accented(usual(word, languages.from, n_tokens));
                    masked.push_in_sentence_case(sentence, gap, languages.from, &usual);
                }
            }
            if let (Some(span), Some(placeholder)) = (preserved.get(index), PLACEHOLDERS.get(index)) {
                masked.push(&placeholder.to_string(), span.range.clone());
            }
        }
        if is_marked {
            masked.push("?", middle.end..middle.end);
        }
        masked.preserved = preserved;
        masked
    }

    fn push(&mut self, text: &str, origin: Range<usize>) {
        self.origin.push(self.text.len()..self.text.len() + text.len(), origin);
        self.text.push_str(text);
    }

    /// Appends another spelling of a word that begins at `start`, letter by letter: a letter may have other bytes (*İ* and
    /// *i*), and no range may end inside one.
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

    /// Appends text with the apostrophes or accents that people leave out.
    fn push_respelled(&mut self, sentence: &str, gap: Range<usize>, respelling: Respelling) {
        let (mut plain, mut at) = (gap.start, gap.start);
        while at < gap.end {
            let rest = &sentence[at..gap.end];
            let is_word = rest.starts_with(char::is_alphanumeric);
            let length = rest.find(|letter: char| letter.is_alphanumeric() != is_word).unwrap_or(rest.len());
            let neighbours = [sentence[..at].chars().next_back(), rest[length..].chars().next()];
            if let Some(spelled) = respelling.word(&rest[..length], neighbours).filter(|_| is_word) {
                self.push(&sentence[plain..at], plain..at);
                self.push_spelled(&spelled, &rest[..length], at);
                plain = at + length;
            }
            at += length;
        }
        self.push(&sentence[plain..gap.end], plain..gap.end);
    }

    /// Appends a text in capitals, each word in its `usual` spelling.
    fn push_in_sentence_case(
        &mut self,
        sentence: &str,
        gap: Range<usize>,
        language: &str,
        usual: &dyn Fn(&str) -> String,
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
                let spelled = usual(word);
                let spelled = if is_first { capitalised(&spelled, language) } else { spelled };
                self.push_spelled(&spelled, word, at);
            }
            at += length;
        }
    }

    /// True if the masked sentence is the sentence itself.
    pub(crate) fn is_plain(&self, sentence: &str) -> bool {
        self.preserved.is_empty() && self.capitals.is_none() && self.text == sentence
    }

    /// The number of placeholders.
    pub(crate) fn n_placeholders(&self) -> usize {
        self.preserved.len()
    }

    /// True for a sentence in capitals.
    pub(crate) fn is_in_capitals(&self) -> bool {
        self.capitals.is_some()
    }

    /// The spans of the sentence that the placeholders stand for.
    pub(crate) fn preserved(&self) -> &[PreservedSpan] {
        &self.preserved
    }

    /// The ranges at the ends of the sentence, which is `text`, that the model does not read.
    pub(crate) fn set_aside(&self, text: &str) -> Vec<Range<usize>> {
        let ends = [0..self.middle.start, self.middle.end..text.len()];
        ends.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// All spans of the sentence, which is `text`, that the model does not read, in order.
    pub(crate) fn unread(&self, text: &str) -> Vec<PreservedSpan> {
        let aside = self.set_aside(text).into_iter();
        let aside = aside.map(|range| PreservedSpan::unchanged(range, PreservedKind::Symbol));
        let mut spans: Vec<PreservedSpan> = aside.chain(self.preserved.iter().cloned()).collect();
        spans.sort_by_key(|span| span.range.start);
        spans
    }

    /// True if `written`, a translation of `sentence`, has each placeholder once and no other, and words between its tags.
    pub(crate) fn is_carried_by(&self, sentence: &str, written: &str) -> bool {
        let expected = |index: usize| usize::from(index < self.preserved.len());
        let mut placeholders = PLACEHOLDERS.iter().enumerate();
        placeholders.all(|(index, mark)| written.matches(*mark).count() == expected(index))
            && tags::enclose_words(sentence, &self.preserved, written)
    }

    /// The sentence without its inline tags; none if it has none.
    pub(crate) fn without_tags(&self, sentence: &str) -> Option<StrippedSentence> {
        StrippedSentence::new(sentence, &self.text, &self.preserved)
    }

    /// Restores the preserved spans and capitals in the model's output; a placeholder of no span is dropped. White space
    /// beside a preserved span returns where a letter or a digit would touch it.
    pub(crate) fn restore(&self, sentence: &str, written: &str) -> RestoredSentence {
        let mut restored = RestoredSentence::default();
        restored.copy(sentence, 0..self.middle.start);
        let (mut had_space, mut repeated_until) = (false, 0);
        let end = if self.is_marked { without_mark(written).len() } else { written.len() };
        for (at, character) in written[..end].char_indices() {
            let rest = &written[at + character.len_utf8()..end];
            let written = at..at + character.len_utf8();
            if at < repeated_until {
                restored.position.push(written, restored.text.len()..restored.text.len());
                continue;
            }
            if let Some(index) = PLACEHOLDERS.iter().position(|mark| *mark == character) {
                let Some(span) = self.preserved.get(index) else { continue };
                let is_touched = restored.text.ends_with(char::is_alphanumeric) || had_space;
                if is_touched && sentence[..span.range.start].ends_with(char::is_whitespace) {
                    restored.text.push(' ');
                }
                had_space = sentence[span.range.end..].starts_with(char::is_whitespace);
                let start = restored.text.len();
                restored.push_span(span, sentence);
                repeated_until =
                    written.end + span.replacement.as_deref().map_or(0, |text| repeated_len(text, rest));
                restored.position.push(written, start..restored.text.len());
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
            restored.position.push(written, start..restored.text.len());
        }
        restored.copy(sentence, self.middle.end..sentence.len());
        restored
    }
}

impl RestoredSentence {
    fn copy(&mut self, sentence: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.push_span(&PreservedSpan::unchanged(range, PreservedKind::Symbol), sentence);
        }
    }

    fn push_span(&mut self, span: &PreservedSpan, sentence: &str) {
        let start = self.text.len();
        self.text.push_str(span.text(sentence));
        self.copies.push((span.range.clone(), start..self.text.len()));
    }
}

/// The length in bytes of the last word of a replacement, or of its full stop, where the model wrote it as well at the
/// beginning of `rest`: *um 23:45 Uhr Uhr*, *at 4:30 p.m..*
fn repeated_len(replacement: &str, rest: &str) -> usize {
    if replacement.ends_with('.') && rest.starts_with('.') && !rest.starts_with("..") {
        return 1;
    }
    let Some((_, last)) = replacement.rsplit_once(' ') else { return 0 };
    let word = rest.trim_start_matches([' ', '\u{a0}']);
    match word.strip_prefix(last) {
        Some(behind) if !behind.starts_with(char::is_alphanumeric) => rest.len() - behind.len(),
        _ => 0,
    }
}

/// A sentence without the symbols at its ends and the white space beside them.
fn middle(sentence: &str, preserved: &[PreservedSpan]) -> Range<usize> {
    let mut middle = 0..sentence.len();
    for span in preserved.iter().filter(|span| span.kind == PreservedKind::Symbol) {
        if sentence[middle.start..span.range.start.max(middle.start)].trim().is_empty() {
            let rest = &sentence[span.range.end..];
            middle.start = sentence.len() - rest.trim_start().len();
        }
    }
    let symbols = preserved.iter().rev().filter(|span| span.kind == PreservedKind::Symbol);
    for span in symbols {
        if span.range.start < middle.start {
            continue;
        }
        if sentence[span.range.end.min(middle.end)..middle.end].trim().is_empty() {
            middle.end = middle.start + sentence[middle.start..span.range.start].trim_end().len();
        }
    }
    middle
}

/// A sentence without its final mark and the white space before it.
fn without_mark(written: &str) -> &str {
    written.trim_end().trim_end_matches(['?', '.', '!', '？']).trim_end()
}

/// The ranges before, between and after the preserved spans.
fn gaps<'a>(
    middle: &'a Range<usize>,
    preserved: &'a [PreservedSpan],
) -> impl Iterator<Item = Range<usize>> + 'a {
    let starts = std::iter::once(middle.start).chain(preserved.iter().map(|span| span.range.end));
    let ends = preserved.iter().map(|span| span.range.start).chain([middle.end]);
    starts.zip(ends).map(|(start, end)| start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preserve::find;

    fn masked(sentence: &str, casing: Option<&HopLanguages<'_>>) -> MaskedSentence {
        let is_known = |character: char| character < '\u{180}';
        let spans = find(sentence, &is_known);
        MaskedSentence::new(sentence, &spans, (casing, Case::Detect), &|word| word.chars().count())
    }

    #[test]
    fn preserved_spans_come_back() {
        let sentence = "😀 See https://x.org and @tom 👍 now 🎉🎉";
        let masked = masked(sentence, None);
        assert_eq!(masked.text, "See \u{e000} and \u{e001} \u{e002} now");
        assert!(masked.is_carried_by(sentence, "\u{e001} \u{e002} \u{e000}"));
        assert!(
            !masked.is_carried_by(sentence, "\u{e001} \u{e000}")
                && !masked.is_carried_by(sentence, "\u{e001}\u{e001}\u{e002}\u{e000}")
        );
        let restored = masked.restore(sentence, "Jetzt \u{e001} und \u{e000}\u{e003} \u{e002}!");
        assert_eq!(restored.text, "😀 Jetzt @tom und https://x.org 👍! 🎉🎉");
        for (source, target) in &restored.copies {
            assert_eq!(sentence[source.clone()], restored.text[target.clone()]);
        }
        assert_eq!(restored.copies.len(), 5);
        // The word `und` and the address, as the model wrote them.
        assert_eq!(&restored.text[restored.position.map(&(10..13))], "und");
        assert_eq!(&restored.text[restored.position.map(&(14..17))], "https://x.org");
        assert_eq!(&sentence[masked.origin.map(&(0..3))], "See");
        assert_eq!(&sentence[masked.origin.map(&(4..7))], "https://x.org");
        assert_eq!(&sentence[masked.origin.map(&(8..11))], "and");
    }

    #[test]
    fn replacements_take_the_place_of_their_placeholders() {
        let sentence = "It is $19.99 at 11:45 p.m. now";
        let span = |text: &str, replacement: &str| {
            let start = sentence.find(text).unwrap();
            let (range, replacement) = (start..start + text.len(), Some(replacement.to_owned()));
            PreservedSpan { range, kind: PreservedKind::Quantity, replacement }
        };
        let spans = [span("$19.99", "19,99 $"), span("11:45 p.m.", "23:45 Uhr")];
        let masked = MaskedSentence::new(sentence, &spans, (None, Case::Mixed), &|word| word.len());
        assert_eq!(masked.text, "It is \u{e000} at \u{e001} now");
        let written = "Jetzt um \u{e001} Uhr: \u{e000}.";
        let restored = masked.restore(sentence, written);
        assert_eq!(restored.text, "Jetzt um 23:45 Uhr: 19,99 $.");
        let copies =
            restored.copies.iter().map(|(from, to)| (&sentence[from.clone()], &restored.text[to.clone()]));
        assert_eq!(copies.collect::<Vec<_>>(), [("11:45 p.m.", "23:45 Uhr"), ("$19.99", "19,99 $")]);
        let at = |text: &str| {
            let start = written.find(text).unwrap();
            &restored.text[restored.position.map(&(start..start + text.len()))]
        };
        assert_eq!([at("\u{e001}"), at(":"), at("\u{e000}"), at(".")], ["23:45 Uhr", ":", "19,99 $", "."]);
    }

    #[test]
    fn what_the_model_repeats_of_a_replacement_is_left_out() {
        assert_eq!(repeated_len("23:45 Uhr", " Uhr los"), 4);
        assert_eq!(repeated_len("4:30 p.m.", ". Then"), 1);
        assert_eq!(repeated_len("25 %", "%"), 1);
        assert_eq!(repeated_len("23:45 Uhr", " Uhrzeit"), 0);
        assert_eq!(repeated_len("19,99 $", " now"), 0);
        assert_eq!(repeated_len("4:30 p.m.", "..."), 0);
        assert_eq!(repeated_len("23:45", " 23:45"), 0);
    }

    #[test]
    fn capitals_are_read_in_small_letters_and_written_in_capitals() {
        let languages = HopLanguages { from: "en", to: "tr" };
        let sentence = "THE CAT, I SAY, IS AT HTTP://X.ORG IN B12.";
        let english = masked(sentence, Some(&languages));
        assert_eq!(english.text, "The cat, I say, is at \u{e000} in B12.");
        assert_eq!(english.restore(sentence, "Kedi ısı: \u{e000}.").text, "KEDİ ISI: HTTP://X.ORG.");
        let from_turkish = HopLanguages { from: "tr", to: "de" };
        let masked = masked("İYİ IŞIK 😀", Some(&from_turkish));
        assert_eq!(masked.text, "İyi ışık");
        let restored = masked.restore("İYİ IŞIK 😀", "Große Sache");
        assert_eq!(restored.text, "GROSSE SACHE 😀");
        assert_eq!(&restored.text[restored.position.map(&(7..12))], "SACHE");
        assert_eq!(&"İYİ IŞIK 😀"[masked.origin.map(&(5..12))], "IŞIK");
    }

    #[test]
    fn a_part_is_in_capitals_where_its_sentence_is() {
        let languages = HopLanguages { from: "en", to: "tr" };
        let read =
            |case| MaskedSentence::new("NOW", &[], (Some(&languages), case), &|word| word.chars().count());
        // By itself it may be an abbreviation.
        assert_eq!(
            [Case::Detect, Case::Capitals, Case::Mixed].map(|case| read(case).text),
            ["NOW", "Now", "NOW"]
        );
        let whole = masked("SEE @bob AND COME", Some(&languages));
        assert_eq!([Case::of(Some(&whole)), Case::of(None)], [Case::Capitals, Case::Mixed]);
    }

    #[test]
    fn what_was_left_out_is_read_and_not_written() {
        let languages = |from| HopLanguages { from, to: "fr" };
        let question = masked("where are you 😀", Some(&languages("en")));
        assert_eq!(question.text, "where are you?");
        let restored = question.restore("where are you 😀", "Où es-tu\u{a0}?");
        assert_eq!(restored.text, "Où es-tu 😀");
        assert_eq!(question.origin.map(&(13..14)), 13..13);
        assert_eq!(&restored.text[restored.position.map(&(4..9))], "es-tu");
        let turkish = masked("HAVA COK GUZEL", Some(&languages("tr")));
        assert_eq!(turkish.text, "Hava çok güzel");
        let sentence = "@ali cok guzel bir yer, degil mi";
        let turkish = masked(sentence, Some(&languages("tr")));
        assert_eq!(turkish.text, "\u{e000} çok güzel bir yer, değil mi?");
        assert_eq!(&sentence[turkish.origin.map(&(4..8))], "cok");
        let part = MaskedSentence::new("where are you", &[], (Some(&languages("en")), Case::Mixed), &|_| 1);
        assert_eq!(part.text, "where are you");
    }

    #[test]
    fn a_plain_sentence_is_not_masked() {
        let languages = HopLanguages { from: "en", to: "tr" };
        for sentence in ["The cat.", "NATO", "a", "  x"] {
            let masked = masked(sentence, Some(&languages));
            assert!(masked.is_plain(sentence), "{sentence}");
        }
        assert!(!masked("a 😀", None).is_plain("a 😀"));
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_lost(sentence in "([a-zA-Z ]|😀|漢|@|http://x|ß|İ){1,30}") {
            let masked = masked(&sentence, None);
            let restored = masked.restore(&sentence, &masked.text);
            if masked.n_placeholders() <= PLACEHOLDERS.len() {
                proptest::prop_assert_eq!(&restored.text, &sentence);
            }
        }

        #[test]
        fn no_range_ends_inside_a_letter(sentence in "([A-Z ]|I|İ|Ş|ẞ|ŉ|😀|@x){1,30}") {
            for from in ["tr", "de"] {
                let masked = masked(&sentence, Some(&HopLanguages { from, to: "en" }));
                for (at, letter) in masked.text.char_indices() {
                    let range = masked.origin.map(&(at..at + letter.len_utf8()));
                    proptest::prop_assert!(sentence.get(range.clone()).is_some(), "{letter} {range:?}");
                }
            }
        }
    }
}
