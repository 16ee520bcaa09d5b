//! Numbers with separators, read by the rules of a language and written by those of another.
//!
//! | language | decimals | thousands |
//! |---|---|---|
//! | English | `3.14` | `1,234,567` |
//! | German, Turkish | `3,14` | `1.234.567` |
//! | French | `3,14` | `1 234 567`, with U+00A0 |
//!
//! Thousands may be separated by spaces or apostrophes in every language. A number against the rules of its language
//! (*3.14* in German, *2.10.3*) has no value: it comes through as it is, and its digits are compared.

use super::Language;

/// The space that separates thousands in French.
const NO_BREAK_SPACE: char = '\u{a0}';

/// A decimal number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number {
    /// Digits before the decimal mark, without separators.
    pub(super) integer: String,
    /// Digits after the decimal mark; empty without one.
    pub(super) fraction: String,
    /// True if thousands are separated.
    is_grouped: bool,
    /// True if it is written by the rules of its language.
    is_native: bool,
    is_negative: bool,
}

/// A number or a range of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Figure {
    /// A number.
    One(Number),
    /// Two numbers and the dash between them.
    Range(Number, char, Number),
}

impl Figure {
    /// Reads the figure that `text` begins with, and its length in bytes; none if it is no number of the language.
    pub(super) fn read(text: &str, language: Language) -> Option<(usize, Self)> {
        let (sign, is_negative) = match text.chars().next()? {
            minus @ ('-' | '−') => (minus.len_utf8(), true),
            _ => (0, false),
        };
        let (length, first) = Number::read(&text[sign..], language)?;
        let (first, end) = (Number { is_negative, ..first }, sign + length);
        let rest = &text[end..];
        let dash = rest.chars().next().filter(|dash| matches!(dash, '-' | '–'));
        let Some((dash, (second_len, second))) =
            dash.and_then(|dash| Some((dash, Number::read(&rest[dash.len_utf8()..], language)?)))
        else {
            return Some((end, Self::One(first)));
        };
        Some((end + dash.len_utf8() + second_len, Self::Range(first, dash, second)))
    }

    /// The figure in the form of a language.
    pub(super) fn written(&self, language: Language) -> String {
        match self {
            Self::One(number) => number.written(language),
            Self::Range(first, dash, second) => {
                format!("{}{dash}{}", first.written(language), second.written(language))
            }
        }
    }

    /// True if `self` in a translation has the value of `source`, in a form of the language of the translation.
    pub(super) fn is_same(&self, source: &Self) -> bool {
        match (self, source) {
            (Self::One(own), Self::One(source)) => own.is_same(source),
            (Self::Range(own, _, own_end), Self::Range(source, _, source_end)) => {
                own.is_same(source) && own_end.is_same(source_end)
            }
            _ => false,
        }
    }

    /// The number of digits.
    pub(super) fn n_digits(&self) -> usize {
        match self {
            Self::One(number) => number.n_digits(),
            Self::Range(first, _, second) => first.n_digits() + second.n_digits(),
        }
    }

    /// True for exactly one.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Self::One(number) if number.integer == "1" && number.fraction.is_empty())
    }

    /// True for a number with a decimal mark.
    pub(super) fn is_decimal(&self) -> bool {
        matches!(self, Self::One(number) if !number.fraction.is_empty())
    }
}

impl Number {
    /// Reads the number that `text` begins with, and its length in bytes.
    fn read(text: &str, language: Language) -> Option<(usize, Self)> {
        let length = extent(text);
        let word = &text[..length];
        let marks: Vec<char> = word.chars().filter(|mark| !mark.is_ascii_digit()).collect();
        let groups: Vec<&str> = word.split(|mark: char| !mark.is_ascii_digit()).collect();
        let (first, rest) = groups.split_first().filter(|(first, _)| !first.is_empty())?;
        let are_thousands = |groups: &[&str]| {
            !first.starts_with('0') && first.len() <= 3 && groups.iter().all(|group| group.len() == 3)
        };
        let number = |n_integer: usize, is_grouped: bool, is_native: bool| Self {
            integer: groups[..n_integer].concat(),
            fraction: groups[n_integer..].concat(),
            is_grouped,
            is_native,
            is_negative: false,
        };
        let is_space = |mark: char| !matches!(mark, '.' | ',');
        // English has commas; spaces are read, but not what a translation should have.
        let is_usual = |mark: char| !is_space(mark) || language != Language::English;
        let decimal = language.decimal_mark();
        let (last, others) = match marks.split_last() {
            None => return Some((length, number(1, false, true))),
            Some((last, others)) => (*last, others),
        };
        let is_one_kind = others.iter().all(|mark| *mark == last);
        let found = if is_one_kind && others.is_empty() && last == decimal {
            number(1, false, true)
        } else if is_one_kind && are_thousands(rest) {
            // One group after a full stop or a comma is clear only by the language: 1.234 in French is not.
            let is_clear = !others.is_empty() || is_space(last) || Some(last) == language.thousands_mark();
            is_clear.then(|| number(groups.len(), true, last != decimal && is_usual(last)))?
        } else if let Some(group_mark) = others.first() {
            let is_regular = others.iter().all(|mark| mark == group_mark) && *group_mark != last;
            let is_number = is_regular && !is_space(last) && are_thousands(&rest[..rest.len() - 1]);
            is_number.then(|| number(groups.len() - 1, true, last == decimal && is_usual(*group_mark)))?
        } else {
            return None;
        };
        Some((length, found))
    }

    fn written(&self, language: Language) -> String {
        let minus = if self.is_negative { "-" } else { "" };
        let mut integer = String::new();
        for (index, digit) in self.integer.chars().enumerate() {
            if self.is_grouped && index > 0 && (self.integer.len() - index).is_multiple_of(3) {
                integer.push(language.thousands_mark().unwrap_or(NO_BREAK_SPACE));
            }
            integer.push(digit);
        }
        if self.fraction.is_empty() {
            return format!("{minus}{integer}");
        }
        format!("{minus}{integer}{}{}", language.decimal_mark(), self.fraction)
    }

    fn is_same(&self, source: &Self) -> bool {
        self.is_native && self.integer == source.integer && self.fraction == source.fraction
    }

    fn n_digits(&self) -> usize {
        self.integer.len() + self.fraction.len()
    }
}

impl Language {
    fn decimal_mark(self) -> char {
        if self == Self::English { '.' } else { ',' }
    }

    /// The mark between thousands; none for a space.
    fn thousands_mark(self) -> Option<char> {
        match self {
            Self::English => Some(','),
            Self::German | Self::Turkish => Some('.'),
            Self::French => None,
        }
    }
}

/// The length in bytes of digits with single marks between them, and spaces between thousands.
fn extent(text: &str) -> usize {
    let mut end = 0;
    loop {
        let digits = text[end..].bytes().take_while(u8::is_ascii_digit).count();
        end += digits;
        let mut next = text[end..].chars();
        let Some(mark) = next.next().filter(|_| digits > 0) else { return end };
        let is_joint = match mark {
            '.' | ',' => next.next().is_some_and(|digit| digit.is_ascii_digit()),
            ' ' | '\'' | '’' | '\u{a0}' | '\u{202f}' => {
                let behind = text[end + mark.len_utf8()..].bytes().take_while(u8::is_ascii_digit).count();
                let has_groups = text[..end - digits].ends_with(mark) && digits == 3;
                behind == 3 && (has_groups || (end == digits && digits <= 3 && !text.starts_with('0')))
            }
            _ => false,
        };
        if !is_joint {
            return end;
        }
        end += mark.len_utf8();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    fn converted(text: &str, from: Language, to: Language) -> Option<String> {
        let (length, figure) = Figure::read(text, from)?;
        assert_eq!(length, text.len(), "{text}");
        Some(figure.written(to))
    }

    #[test]
    fn separators_follow_the_language() {
        for (from, text) in [
            (English, "1,234,567.89"),
            (German, "1.234.567,89"),
            (Turkish, "1.234.567,89"),
            (French, "1 234 567,89"),
            (French, "1\u{202f}234\u{202f}567,89"),
            (German, "1'234'567,89"),
        ] {
            for (to, expected) in [
                (English, "1,234,567.89"),
                (German, "1.234.567,89"),
                (Turkish, "1.234.567,89"),
                (French, "1\u{a0}234\u{a0}567,89"),
            ] {
                assert_eq!(converted(text, from, to).as_deref(), Some(expected), "{text}");
            }
        }
        for (text, from, to, expected) in [
            ("1.5", English, German, "1,5"),
            ("1,500", English, German, "1.500"),
            ("1.500", English, German, "1,500"),
            ("1.500", German, English, "1,500"),
            ("1,5", Turkish, English, "1.5"),
            ("2024", English, German, "2024"),
            ("007", English, French, "007"),
            ("-3.5", English, French, "-3,5"),
            ("1.5-2.5", English, German, "1,5-2,5"),
            ("10–20", French, English, "10–20"),
            ("1.234.567", English, German, "1.234.567"),
        ] {
            assert_eq!(converted(text, from, to).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_against_the_rules_have_no_value() {
        for (text, language) in [
            ("1,5", English),
            ("3.14", German),
            ("1.234", French),
            ("2.10.3", English),
            ("192.168.0.1", German),
            ("1,2,3", French),
            ("0.123", Turkish),
            ("1,23.45,6", English),
            ("", English),
            ("a", English),
        ] {
            assert_eq!(Figure::read(text, language), None, "{text}");
        }
        let read = |text, language| Figure::read(text, language).unwrap().1;
        assert!(read("1,5", German).is_same(&read("1.5", English)));
        assert!(!read("1.500", German).is_same(&read("1.500", English)));
        assert!(!read("1,234.5", German).is_same(&read("1,234.5", English)), "foreign separators");
    }

    proptest::proptest! {
        #[test]
        fn a_written_number_has_its_value(integer in "[1-9][0-9]{0,11}", fraction in "([0-9]{1,4})?", is_grouped: bool) {
            let number = Number { integer, fraction, is_grouped, is_native: true, is_negative: false };
            let source = Figure::One(number);
            for language in [English, German, French, Turkish] {
                let text = source.written(language);
                let (length, found) = Figure::read(&text, language).unwrap();
                proptest::prop_assert_eq!(length, text.len());
                proptest::prop_assert!(found.is_same(&source), "{}", text);
            }
        }

        #[test]
        fn any_text_is_read(text in "([0-9]|[-., '\u{a0}–a]|\\PC){0,30}") {
            for language in [English, German, French, Turkish] {
                if let Some((length, _)) = Figure::read(&text, language) {
                    proptest::prop_assert!(text.is_char_boundary(length) && length > 0);
                }
            }
        }
    }
}
