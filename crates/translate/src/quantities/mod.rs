//! Quantities: amounts of money, percentages, times, dates, measures and numbers, by value.
//!
//! [`find`] reads them in a sentence by the rules of its language; [`Quantity::written`] is the form of another language;
//! [`lost`] names those whose value a translation lacks. Only English, German, French and Turkish have rules: in other
//! languages numbers are compared by their digits and come through as they are.

mod calendar;
mod clock;
mod compare;
mod money;
mod number;
mod phone;
mod units;

use std::ops::Range;

use self::calendar::Date;
use self::clock::Time;
pub(crate) use self::compare::lost;
use self::money::Amount;
use self::number::Figure;
use self::phone::phone_len;
use self::units::unit_len;
use crate::preserve::numbers::number_len;

/// Minimum number of digits of a plain number that must arrive; smaller ones may be written in words.
const MIN_DIGITS: usize = 2;

/// A language whose quantities have rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    German,
    French,
    Turkish,
}

impl Language {
    /// The language of a two-letter code.
    pub(crate) fn from_code(code: &str) -> Option<Self> {
        match code {
            "en" => Some(Self::English),
            "de" => Some(Self::German),
            "fr" => Some(Self::French),
            "tr" => Some(Self::Turkish),
            _ => None,
        }
    }
}

/// A quantity in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Its bytes in the sentence.
    pub(crate) range: Range<usize>,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Amount(Amount),
    Percent(Figure),
    Time(Time),
    Date(Date),
    /// A number, the gap before its unit, and the unit.
    Measure(Figure, String, String),
    Number(Figure),
    /// A telephone number, version, fraction, score, ISO date: digits without a form of their own.
    Verbatim,
}

impl Quantity {
    /// The quantity, which is one of `sentence`, in the form of a language.
    pub(crate) fn written(&self, sentence: &str, language: Language) -> String {
        let own = || sentence[self.range.clone()].to_owned();
        let written = match &self.value {
            Value::Amount(amount) => amount.written(language),
            Value::Percent(figure) => percent(&figure.written(language), language),
            Value::Time(time) if time.is_marked => time.written(language),
            Value::Date(date) => date.written(language),
            Value::Measure(figure, gap, unit) => format!("{}{gap}{unit}", figure.written(language)),
            Value::Number(figure) => figure.written(language),
            Value::Time(_) | Value::Verbatim => own(),
        };
        // The full stop of the sentence is that of `p.m.` too.
        match written.strip_suffix('.') {
            Some(shorter) if sentence[self.range.end..].starts_with('.') => shorter.to_owned(),
            _ => written,
        }
    }

    /// True if it is more than a number: its letters and signs are no text to translate.
    pub(crate) fn is_marked(&self) -> bool {
        match &self.value {
            Value::Amount(_) | Value::Percent(_) | Value::Measure(..) => true,
            Value::Time(time) => time.is_marked,
            Value::Date(_) | Value::Number(_) | Value::Verbatim => false,
        }
    }

    /// True if it may not be written in words.
    fn must_arrive(&self, sentence: &str) -> bool {
        match &self.value {
            Value::Number(figure) => figure.n_digits() >= MIN_DIGITS,
            Value::Verbatim => {
                sentence[self.range.clone()].bytes().filter(u8::is_ascii_digit).count() >= MIN_DIGITS
            }
            _ => true,
        }
    }

    fn figure(&self) -> Option<&Figure> {
        match &self.value {
            Value::Amount(Amount { figure, .. })
            | Value::Percent(figure)
            | Value::Measure(figure, ..)
            | Value::Number(figure) => Some(figure),
            Value::Time(_) | Value::Date(_) | Value::Verbatim => None,
        }
    }
}

/// Finds the quantities of a text, from left to right.
pub(crate) fn find(text: &str, language: Language) -> Vec<Quantity> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let (length, value) = at_start(&text[at..], &text[..at], language);
        if let Some(value) = value {
            found.push(Quantity { range: at..at + length, value });
        }
        at += length.max(character.len_utf8());
    }
    found
}

/// The length in bytes of the unit that `text` begins with, after `before`, and its value if it is a quantity.
fn at_start(text: &str, before: &str, language: Language) -> (usize, Option<Value>) {
    let first = text.chars().next().unwrap_or_default();
    let touches_word = before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    if first.is_ascii_digit() || (!touches_word && matches!(first, '+' | '(' | '-' | '−')) {
        let phone = if touches_word { 0 } else { phone_len(text) };
        if phone > 0 {
            return (phone, Some(Value::Verbatim));
        }
    }
    let is_minus = matches!(first, '-' | '−')
        && (before.is_empty() || before.ends_with([' ', '(', '\u{a0}']))
        && text[first.len_utf8()..].starts_with(|digit: char| digit.is_ascii_digit());
    if first.is_ascii_digit() || is_minus {
        return number_at(text, before, language);
    }
    let is_percent =
        first == '%' && !touches_word && text[1..].starts_with(|digit: char| digit.is_ascii_digit());
    if let Some((length, figure)) = is_percent.then(|| Figure::read(&text[1..], language)).flatten() {
        return (1 + length, Some(Value::Percent(figure)));
    }
    if first.is_alphabetic() && touches_word {
        return (first.len_utf8(), None);
    }
    match Amount::read(text, before, language) {
        Some((length, amount)) => (length, Some(Value::Amount(amount))),
        None => (first.len_utf8(), None),
    }
}

/// The quantity that begins with a digit or a minus.
fn number_at(text: &str, before: &str, language: Language) -> (usize, Option<Value>) {
    // B52, v2.1: a name rather than a number.
    let is_name = before.ends_with(|last: char| last.is_alphabetic() || last == '_');
    let minus = text.find(|digit: char| digit.is_ascii_digit()).unwrap_or(0);
    let whole = minus + number_len(&text[minus..]);
    if is_name {
        return (whole, Some(Value::Verbatim));
    }
    if let Some((length, date)) = Date::read(text, language) {
        return (length, Some(Value::Date(date)));
    }
    if let Some((length, time)) = Time::read(text, before, language) {
        return (length, Some(Value::Time(time)));
    }
    if let Some((length, amount)) = Amount::read(text, before, language) {
        return (length, Some(Value::Amount(amount)));
    }
    let Some((length, figure)) = Figure::read(text, language) else { return (whole, Some(Value::Verbatim)) };
    if length < whole {
        return (whole, Some(Value::Verbatim));
    }
    let rest = &text[length..];
    let gap = gap_len(rest);
    if rest[gap..].starts_with('%') && !rest[gap + 1..].starts_with(char::is_alphanumeric) {
        return (length + gap + 1, Some(Value::Percent(figure)));
    }
    if let Some((gap, end)) = unit_len(rest) {
        let (gap, unit) = (rest[..gap].to_owned(), rest[gap..end].to_owned());
        return (length + end, Some(Value::Measure(figure, gap, unit)));
    }
    if figure.is_decimal() && language == Language::English && is_version(before) {
        return (length, Some(Value::Verbatim));
    }
    (length, Some(Value::Number(figure)))
}

/// Words before a decimal number that begin a sentence and name no product.
const BEFORE_NUMBERS: &[&str] = &[
    "A",
    "About",
    "Above",
    "After",
    "Almost",
    "An",
    "And",
    "Another",
    "Approximately",
    "Around",
    "At",
    "Before",
    "Below",
    "Between",
    "But",
    "By",
    "Exactly",
    "For",
    "From",
    "If",
    "In",
    "It",
    "Just",
    "Less",
    "More",
    "Nearly",
    "No",
    "Of",
    "On",
    "Only",
    "Or",
    "Over",
    "Roughly",
    "Since",
    "Some",
    "Than",
    "The",
    "These",
    "To",
    "Under",
    "Until",
    "Up",
    "With",
    "Within",
];

/// True if a decimal number after this text is the version of something (*Python 3.12*, *version 2.1*).
fn is_version(before: &str) -> bool {
    let Some(before) = before.strip_suffix(' ') else { return false };
    let word = before.rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let is_named = matches!(word, "version" | "release" | "chapter" | "section" | "figure" | "table");
    let is_product = word.starts_with(|first: char| first.is_uppercase()) && !BEFORE_NUMBERS.contains(&word);
    // iOS, macOS.
    is_named || is_product || word.chars().skip(1).any(char::is_uppercase)
}

/// The length in bytes of one space, or `&nbsp;`, that a text begins with; 0 for none.
fn gap_len(text: &str) -> usize {
    [" ", "\u{a0}", "\u{202f}", "&nbsp;"]
        .iter()
        .find(|gap| text.starts_with(**gap))
        .map_or(0, |gap| gap.len())
}

fn percent(number: &str, language: Language) -> String {
    match language {
        Language::English => format!("{number}%"),
        Language::German | Language::French => format!("{number} %"),
        Language::Turkish => format!("%{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    fn found(text: &str, language: Language) -> Vec<&str> {
        find(text, language).into_iter().map(|quantity| &text[quantity.range]).collect()
    }

    fn converted(text: &str, from: Language, to: Language) -> String {
        let (mut out, mut at) = (String::new(), 0);
        for quantity in find(text, from) {
            out += &text[at..quantity.range.start];
            out += &quantity.written(text, to);
            at = quantity.range.end;
        }
        out + &text[at..]
    }

    #[test]
    fn quantities_are_found_whole() {
        for (text, language, expected) in [
            (
                "It costs $19.99, at 11:45 p.m. on 12/31/2024.",
                English,
                &["$19.99", "11:45 p.m.", "12/31/2024"][..],
            ),
            ("We met at 11:45 p.m.", English, &["11:45 p.m"]),
            ("Call +49 30 1234567 or (555) 123-4567.", English, &["+49 30 1234567", "(555) 123-4567"]),
            ("5&nbsp;km at 20 °C, -3.5 °C", English, &["5&nbsp;km", "20 °C", "-3.5 °C"]),
            ("um 23:45 Uhr für 1.250 €", German, &["23:45 Uhr", "1.250 €"]),
            ("Il a 1 234 567 amis à 16h30, 25 %.", French, &["1 234 567", "16h30", "25 %"]),
            ("Saat 16.30'da %25 indirimle 50 TL'ye", Turkish, &["16.30", "%25", "50 TL"]),
            ("2.10.3, 1/2, 3-1, 2024-12-31, B52", English, &["2.10.3", "1/2", "3-1", "2024-12-31", "52"]),
            ("10-20% of 5-10 km", English, &["10-20%", "5-10 km"]),
            ("$3-$5 million", English, &["$3-$5 million"]),
            ("no quantity here", English, &[]),
        ] {
            assert_eq!(found(text, language), expected, "{text}");
        }
    }

    #[test]
    fn quantities_take_the_form_of_the_language() {
        for (text, from, to, expected) in [
            ("25%", English, German, "25 %"),
            ("25%", English, Turkish, "%25"),
            ("%25", Turkish, English, "25%"),
            ("%2,5", Turkish, French, "2,5 %"),
            ("25&nbsp;%", French, English, "25%"),
            ("3.5 GB", English, German, "3,5 GB"),
            ("70 mph", English, French, "70 mph"),
            ("at 23:45", English, French, "at 23:45"),
            ("in Python 3.12 on Ubuntu 22.04", English, German, "in Python 3.12 on Ubuntu 22.04"),
            ("About 3.5 of them", English, German, "About 3,5 of them"),
            ("iOS 17.5 and version 2.1", English, French, "iOS 17.5 and version 2.1"),
            ("à 16h30.", French, English, "à 4:30 p.m."),
            ("à 16h30 !", French, English, "à 4:30 p.m. !"),
            ("2024-12-31, 2.10.3, 1/2, 3:1", English, German, "2024-12-31, 2.10.3, 1/2, 3:1"),
            ("1,234,567", English, French, "1\u{a0}234\u{a0}567"),
        ] {
            assert_eq!(converted(text, from, to), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn ranges_are_in_order(text in "([0-9]|[-+(). :,/%$€hUr]|&nbsp;|p\\.m\\.| km|\\PC){0,30}") {
            for language in [English, German, French, Turkish] {
                let mut end = 0;
                for quantity in find(&text, language) {
                    proptest::prop_assert!(quantity.range.start >= end && !quantity.range.is_empty());
                    proptest::prop_assert!(text.get(quantity.range.clone()).is_some());
                    end = quantity.range.end;
                }
            }
        }
    }
}
