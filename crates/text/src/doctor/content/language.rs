//! Language of a side: clearly another one than it should be, or a copy of the other side.
//!
//! Precision comes first. A side counts only if it has enough words in lower case: names, titles and short texts look
//! the same in several languages. The start of a long side is enough.

use crate::Result;
use crate::language::Identifier;

/// Bytes of a side that are read.
const MAX_BYTES: usize = 400;
/// Bytes of a side that settle most cases.
const FEW_BYTES: usize = 100;
/// Probability of the expected language in those bytes from which on the side is not read further.
const SETTLED: f64 = 0.1;
/// Words that a side must have.
const MIN_WORDS: usize = 4;
/// Words in lower case that a side must have.
const MIN_LOWER: usize = 3;
/// Largest probability of the expected language.
const MAX_PROBABILITY: f64 = 0.001;
/// Words of a copy.
const MIN_COPIED: usize = 3;
/// A side is nearly a copy if at most one in this many words is not on the other side.
const MAX_OWN: usize = 3;
/// Words in lower case that such a side must have.
const MIN_COPIED_LOWER: usize = 6;
/// Code of a side that is in any language.
const ANY: &str = "und";

/// The expected languages of both sides, as indices of the identifier's codes; `None` for any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    sides: [Option<usize>; 2],
}

impl Expected {
    pub(super) fn of(codes: &[String; 2]) -> Result<Self> {
        let identifier = Identifier::four();
        let known: Vec<&str> = codes.iter().map(String::as_str).filter(|code| *code != ANY).collect();
        if !known.is_empty() {
            identifier.check_codes(&known)?;
        }
        Ok(Self { sides: [0, 1].map(|side| identifier.codes().position(|code| code == codes[side])) })
    }

    /// True if the side is in a known language; all of them are written in Latin letters.
    pub(super) fn is_latin(&self, side: usize) -> bool {
        self.sides[side].is_some()
    }

    /// The code of the language that a side is most like, if it clearly is not in the expected one, and the latter.
    pub(super) fn other_language(&self, side: usize, sides: [&str; 2]) -> Option<[&'static str; 2]> {
        let expected = self.sides[side]?;
        let text = start(sides[side], MAX_BYTES);
        if !has_enough_words(text, MIN_LOWER) || is_probable(start(text, FEW_BYTES), expected, SETTLED) {
            return None;
        }
        let found = most_like(text, expected)?;
        // Names, code and quotations are the same on both sides, and say nothing about the language.
        let other = words(sides[1 - side]).collect::<Vec<_>>();
        let own: Vec<&str> = words(text).filter(|word| !other.contains(word)).collect();
        let n_words = words(text).count();
        let found = if own.len() * MAX_OWN <= n_words {
            // Nearly a copy of the other side: no list of names, and not framed by words of the expected language.
            let is_list = text.matches(',').count() * MAX_OWN > n_words;
            let is_others = self.sides[1 - side].is_none_or(|other| other == found);
            let is_framed = is_probable(&own.join(" "), expected, 0.5);
            let is_copy = is_others && !is_list && !is_framed && has_enough_words(text, MIN_COPIED_LOWER);
            is_copy.then_some(found)?
        } else {
            let own = own.join(" ");
            has_enough_words(&own, MIN_LOWER).then(|| most_like(&own, expected))??
        };
        let mut codes = Identifier::four().codes();
        Some([codes.nth(found)?, Identifier::four().codes().nth(expected)?])
    }
}

/// The most probable language of `text`, if the expected one is improbable.
fn most_like(text: &str, expected: usize) -> Option<usize> {
    let probabilities = Identifier::four().probabilities(text)?;
    if probabilities[expected] > MAX_PROBABILITY {
        return None;
    }
    (0..probabilities.len()).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]))
}

/// True if the expected language has more than this probability.
fn is_probable(text: &str, expected: usize, probability: f64) -> bool {
    Identifier::four().probabilities(text).is_some_and(|probabilities| probabilities[expected] > probability)
}

/// True if one side is a copy of the other but for case, marks around words and white space.
pub(super) fn is_copy([source, target]: [&str; 2]) -> bool {
    let lower = |text| tokens(text).map(str::to_lowercase);
    // Most pairs differ in their first word.
    lower(source).eq(lower(target))
        && words(source).count() >= MIN_COPIED
        && words(source).filter(|word| word.starts_with(char::is_lowercase)).count() >= MIN_COPIED - 1
}

/// The first bytes of a long text.
fn start(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or_default()]
}

/// Text between spaces without the marks around it.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let tokens = text.split_whitespace().map(|token| token.trim_matches(|c: char| !c.is_alphanumeric()));
    tokens.filter(|token| !token.is_empty())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    tokens(text).filter(|token| is_word(token))
}

/// True for two and more letters, with hyphens and apostrophes; not for code and numbers.
fn is_word(token: &str) -> bool {
    token.len() > 1 && token.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '’' | '-'))
}

fn has_enough_words(text: &str, min_lower: usize) -> bool {
    let [mut n_words, mut n_lower] = [0, 0];
    for word in words(text) {
        n_words += 1;
        n_lower += usize::from(word.starts_with(char::is_lowercase));
        if n_words >= MIN_WORDS && n_lower >= min_lower {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(code: &str, text: &str) -> Option<&'static str> {
        let expected = Expected::of(&[code.to_owned(), "und".to_owned()]).unwrap();
        assert_eq!(expected.other_language(1, ["", text]), None);
        expected.other_language(0, [text, ""]).map(|[found, _]| found)
    }

    #[test]
    fn another_language_is_found() {
        assert_eq!(other("de", "This sentence was not translated into German."), Some("en"));
        assert_eq!(other("en", "Dieser Satz wurde nicht ins Englische übersetzt."), Some("de"));
        assert_eq!(other("fr", "Bu cümle başka bir dile çevrilmedi."), Some("tr"));
        assert_eq!(other("tr", "Cette phrase n’est pas traduite du tout."), Some("fr"));
    }

    #[test]
    fn short_sides_and_names_pass() {
        for (code, text) in [
            ("de", "Thank you."),
            ("en", "Johann Sebastian Bach, Das Wohltemperierte Klavier"),
            ("fr", "George Washington and John Adams"),
            ("de", "Ich habe „The Lord of the Rings“ schon dreimal gelesen."),
            ("tr", "12 + 30 = 42"),
            ("en", "git commit --amend --no-edit"),
        ] {
            assert_eq!(other(code, text), None, "{text}");
        }
        let error = Expected::of(&["en".into(), "xx".into()]).unwrap_err().to_string();
        assert!(error.contains("\"xx\""), "{error}");
    }

    #[test]
    fn what_both_sides_share_says_nothing() {
        let other = |source: &str, target: &str| {
            let expected = Expected::of(&["en".to_owned(), "tr".to_owned()]).unwrap();
            expected.other_language(1, [source, target]).map(|[found, _]| found)
        };
        assert_eq!(
            other("Public, private, and protected constants.", "Public, private ve protected sabitler."),
            None
        );
        assert_eq!(other("autoComplete: Either 'on' or 'off'.", "autoComplete: 'on' ya da 'off'."), None);
        let list = [
            "The programs: ls, cut, date, cat, head, cp, mv",
            "Programlar: ls, cut, date, cat, head, cp, mv",
        ];
        assert_eq!(other(list[0], list[1]), None);
        let copied = "These options can be found in the settings of the browser.";
        assert_eq!(other(copied, &copied.replace("browser", "program")), Some("en"));
    }

    #[test]
    fn copies_are_found_without_case_and_punctuation() {
        assert!(is_copy(["The quick fox.", "the quick  fox"]));
        assert!(is_copy(["Save it as PDF…", "Save it as PDF"]));
        assert!(!is_copy(["New York", "New York"]));
        assert!(!is_copy(["1 2 3 4", "1, 2, 3, 4"]));
        assert!(!is_copy(["The quick fox", "The quick dog"]));
    }
}
