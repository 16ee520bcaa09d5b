//! Dates in digits: `12/31/2024`, `31.12.2024`, `31/12/2024`.
//!
//! English dates with slashes are read as month/day/year, the order of the United States, unless the first number is more
//! than 12; other dates as day/month/year. They are written as `12/31/2024` in English, `31.12.2024` in German and Turkish
//! and `31/12/2024` in French. ISO dates (`2024-12-31`) are the same everywhere and come through as they are.

use super::Language;
use super::clock::two_digits;

/// A date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Date {
    day: u8,
    month: u8,
    /// Two or four digits.
    year: String,
    /// True if days and months have two digits.
    is_padded: bool,
    /// True if it is written in the order of its language.
    is_native: bool,
}

impl Date {
    /// Reads the date that `text` begins with, and its length in bytes.
    pub(super) fn read(text: &str, language: Language) -> Option<(usize, Self)> {
        let (first, first_len) = two_digits(text)?;
        let mark = text[first_len..].chars().next().filter(|mark| matches!(mark, '/' | '.'))?;
        let rest = &text[first_len + 1..];
        let (second, second_len) = two_digits(rest)?;
        let rest = rest[second_len..].strip_prefix(mark)?;
        let year_len = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_english = language == Language::English;
        // 2.10.34 is a version rather than a date in English.
        let is_year = year_len == 4 || (year_len == 2 && !(is_english && mark == '.'));
        let behind = &rest[year_len..];
        let is_ended = !behind.starts_with(char::is_alphanumeric)
            && !behind
                .strip_prefix(['.', '/', '-', ',', ':'])
                .is_some_and(|next| next.starts_with(|digit: char| digit.is_ascii_digit()));
        let month_first = mark == '/' && if is_english { first <= 12 } else { second > 12 };
        let (month, day) = if month_first { (first, second) } else { (second, first) };
        let is_date = is_year && is_ended && (1..=12).contains(&month) && (1..=31).contains(&day);
        let is_padded = first_len == 2 && second_len == 2 && (day < 10 || month < 10);
        let is_native = is_english || !month_first;
        let found = Self { day, month, year: rest[..year_len].to_owned(), is_padded, is_native };
        is_date.then(|| (text.len() - behind.len(), found))
    }

    /// The date in the form of a language.
    pub(super) fn written(&self, language: Language) -> String {
        let number = |number: u8| if self.is_padded { format!("{number:02}") } else { number.to_string() };
        let (day, month, year) = (number(self.day), number(self.month), &self.year);
        match language {
            Language::English => format!("{month}/{day}/{year}"),
            Language::German | Language::Turkish => format!("{day}.{month}.{year}"),
            Language::French => format!("{day}/{month}/{year}"),
        }
    }

    /// True if `self` in a translation is the day of `source`, in the order of its language.
    pub(super) fn is_same(&self, source: &Self) -> bool {
        self.is_native && (self.day, self.month, &self.year) == (source.day, source.month, &source.year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    #[test]
    fn dates_have_the_order_of_the_language() {
        for (text, from, expected) in [
            ("12/31/2024", English, ["12/31/2024", "31.12.2024", "31/12/2024", "31.12.2024"]),
            ("31/12/2024", English, ["12/31/2024", "31.12.2024", "31/12/2024", "31.12.2024"]),
            ("03/04/2024", English, ["03/04/2024", "04.03.2024", "04/03/2024", "04.03.2024"]),
            ("3/4/24", English, ["3/4/24", "4.3.24", "4/3/24", "4.3.24"]),
            ("31.12.2024", German, ["12/31/2024", "31.12.2024", "31/12/2024", "31.12.2024"]),
            ("03/04/2024", French, ["04/03/2024", "03.04.2024", "03/04/2024", "03.04.2024"]),
            ("1.2.2024", Turkish, ["2/1/2024", "1.2.2024", "1/2/2024", "1.2.2024"]),
        ] {
            let (length, date) = Date::read(text, from).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(length, text.len());
            assert_eq!([English, German, French, Turkish].map(|to| date.written(to)), expected, "{text}");
        }
    }

    #[test]
    fn other_numbers_are_no_dates() {
        for text in
            ["2024-12-31", "13/32/2024", "0/1/2024", "1/2", "2.10.3", "1/2.2024", "1/2/345", "1/2/2024/5"]
        {
            assert_eq!(Date::read(text, English), None, "{text}");
        }
        assert_eq!(Date::read("2.10.34", English), None);
        assert!(Date::read("2.10.34", German).is_some());
    }
}
