//! Amounts of money: `$19.99`, `US$5`, `19,99 €`, `50 TL`, `£3.5 million`, `3,5 Millionen €`.
//!
//! English has a sign before the number and a code after it; German, French and Turkish have both after it. Words (*50
//! dollars*) are left to the model; in a translation they name the currency as well as its sign does.

use super::Language;
use super::gap_len;
use super::number::Figure;

/// Signs and codes of a currency, longest first, and the beginnings of its names in the four languages.
struct Currency {
    signs: &'static [&'static str],
    names: &'static [&'static str],
}

const CURRENCIES: &[Currency] = &[
    Currency { signs: &["US$", "CA$", "AU$", "A$", "$", "USD", "CAD", "AUD"], names: &["dollar", "dolar"] },
    Currency { signs: &["€", "EUR"], names: &["euro", "avro"] },
    Currency { signs: &["£", "GBP"], names: &["pound", "pfund", "livre", "sterlin"] },
    Currency {
        signs: &["₺", "TRY", "TL"], names: &["lira", "türk lirası", "livre", "turkish", "türkische"]
    },
    Currency { signs: &["¥", "JPY"], names: &["yen"] },
    Currency { signs: &["CHF"], names: &["franc", "franken", "frank", "swiss", "schweizer", "isviçre"] },
    Currency { signs: &["₹", "INR"], names: &["rupee", "rupi", "roupie"] },
    Currency { signs: &["₽", "RUB"], names: &["ruble", "rubel", "rouble"] },
    Currency { signs: &["₩", "KRW"], names: &["won"] },
    Currency { signs: &["CNY"], names: &["yuan"] },
    Currency { signs: &["SEK", "NOK", "DKK"], names: &["kron", "couronne", "crown"] },
    Currency { signs: &["PLN", "zł"], names: &["zlot", "złot"] },
];

/// A power of a thousand that is written as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Million,
    /// A thousand millions.
    Billion,
    /// A million millions.
    Trillion,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(super) figure: Figure,
    scale: Option<Scale>,
    sign: &'static str,
}

impl Amount {
    /// Reads the amount that `text` begins with, a sign or a number, and its length in bytes.
    pub(super) fn read(text: &str, before: &str, language: Language) -> Option<(usize, Self)> {
        let Some(sign) = sign_at(text, before) else { return Self::read_number_first(text, language) };
        let gap = gap_len(&text[sign.len()..]);
        let start = sign.len() + gap;
        if !text[start..].starts_with(|digit: char| digit.is_ascii_digit()) {
            return None;
        }
        let (length, figure) = Figure::read(&text[start..], language)?;
        // $10-$20 is a range too.
        let (end, figure) = second_of_range(text, start + length, figure, (sign, language));
        let (scale_len, scale) = scale_at(&text[end..], language).unzip();
        let end = end + scale_len.unwrap_or(0);
        ends_word(&text[end..]).then_some((end, Self { figure, scale, sign }))
    }

    fn read_number_first(text: &str, language: Language) -> Option<(usize, Self)> {
        let (length, figure) = Figure::read(text, language)?;
        let (scale_len, scale) = scale_at(&text[length..], language).unzip();
        let end = length + scale_len.unwrap_or(0);
        let gap = gap_len(&text[end..]);
        let sign = sign_at(&text[end + gap..], "")?;
        let end = end + gap + sign.len();
        ends_word(&text[end..]).then_some((end, Self { figure, scale, sign }))
    }

    /// The amount in the form of a language.
    pub(super) fn written(&self, language: Language) -> String {
        let Self { figure, scale, sign } = self;
        let mut number = figure.written(language);
        if let Some(scale) = scale {
            number = format!("{number} {}", scale.name(language, figure.is_one()));
        }
        let is_sign_first = language == Language::English && !sign.chars().all(char::is_alphabetic);
        if is_sign_first { format!("{sign}{number}") } else { format!("{number} {sign}") }
    }

    /// True for the same sum in the same currency, written by a sign.
    pub(super) fn is_same(&self, source: &Self) -> bool {
        self.figure.is_same(&source.figure)
            && self.scale == source.scale
            && currency(self.sign) == currency(source.sign)
    }

    /// True if a translation names the currency beside a number of the same value, which ends before `behind`.
    pub(super) fn is_named(&self, before: &str, behind: &str, language: Language) -> bool {
        let behind = &behind[gap_len(behind)..];
        let (scale_len, scale) = scale_at(behind, language).unzip();
        let behind = behind[scale_len.unwrap_or(0)..].to_lowercase();
        let behind = behind.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
        // Three and a half millions of euros: French has a preposition.
        let behind = ["de ", "d'", "d’"].iter().find_map(|word| behind.strip_prefix(word)).unwrap_or(behind);
        let before = before.trim_end().to_lowercase();
        let Some(index) = currency(self.sign) else { return false };
        let Currency { signs, names } = &CURRENCIES[index];
        let is_behind = names.iter().any(|name| behind.starts_with(name))
            || signs.iter().any(|sign| behind.starts_with(&sign.to_lowercase()));
        scale == self.scale && (is_behind || signs.iter().any(|sign| before.ends_with(&sign.to_lowercase())))
    }
}

impl Scale {
    fn name(self, language: Language, is_one: bool) -> &'static str {
        let [one, many] = match (language, self) {
            (Language::English, Self::Million) => ["million"; 2],
            (Language::English, Self::Billion) => ["billion"; 2],
            (Language::English, Self::Trillion) => ["trillion"; 2],
            (Language::German, Self::Million) => ["Million", "Millionen"],
            (Language::German, Self::Billion) => ["Milliarde", "Milliarden"],
            (Language::German, Self::Trillion) => ["Billion", "Billionen"],
            (Language::French, Self::Million) => ["million", "millions"],
            (Language::French, Self::Billion) => ["milliard", "milliards"],
            (Language::French, Self::Trillion) => ["billion", "billions"],
            (Language::Turkish, Self::Million) => ["milyon"; 2],
            (Language::Turkish, Self::Billion) => ["milyar"; 2],
            (Language::Turkish, Self::Trillion) => ["trilyon"; 2],
        };
        if is_one { one } else { many }
    }

    /// Abbreviations, which touch the number in English.
    fn abbreviations(self, language: Language) -> &'static [&'static str] {
        match (language, self) {
            (Language::English, Self::Million) => &["m", "M", "mn"],
            (Language::English, Self::Billion) => &["bn", "B"],
            (Language::English, Self::Trillion) => &["tn", "T"],
            (Language::German, Self::Million) => &["Mio."],
            (Language::German, Self::Billion) => &["Mrd."],
            _ => &[],
        }
    }
}

/// The length of a word such as ` million` at the beginning of a text, with the space before it.
fn scale_at(text: &str, language: Language) -> Option<(usize, Scale)> {
    let gap = gap_len(text);
    let word = &text[gap..];
    let is_short_form = (language == Language::English) == (gap == 0);
    for scale in [Scale::Million, Scale::Billion, Scale::Trillion] {
        let names = [true, false].map(|is_one| scale.name(language, is_one));
        let short: &[&str] = if is_short_form { scale.abbreviations(language) } else { &[] };
        let found = names.iter().chain(short).filter(|name| {
            word.strip_prefix(**name).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        });
        if let Some(name) = found.max_by_key(|name| name.len()) {
            return Some((gap + name.len(), scale));
        }
    }
    None
}

/// The second number of `$10-$20` after the first, which ends at `end`.
fn second_of_range(
    text: &str,
    end: usize,
    first: Figure,
    (sign, language): (&str, Language),
) -> (usize, Figure) {
    let rest = &text[end..];
    let dash = rest.chars().next().filter(|dash| matches!(dash, '-' | '–'));
    let second = dash.and_then(|dash| {
        let number = rest[dash.len_utf8()..].strip_prefix(sign)?;
        number.starts_with(|digit: char| digit.is_ascii_digit()).then_some(())?;
        Some((dash, text.len() - number.len(), Figure::read(number, language)?))
    });
    match (first, second) {
        (Figure::One(first), Some((dash, start, (length, Figure::One(second))))) => {
            (start + length, Figure::Range(first, dash, second))
        }
        (first, _) => (end, first),
    }
}

/// The sign or code that `text` begins with.
fn sign_at(text: &str, before: &str) -> Option<&'static str> {
    let signs = CURRENCIES.iter().flat_map(|currency| currency.signs);
    let sign = signs.copied().filter(|sign| text.starts_with(sign)).max_by_key(|sign| sign.len())?;
    let is_word = sign.starts_with(char::is_alphabetic);
    (!(is_word && before.ends_with(char::is_alphanumeric))).then_some(sign)
}

/// The index of the currency of a sign.
fn currency(sign: &str) -> Option<usize> {
    CURRENCIES.iter().position(|currency| currency.signs.contains(&sign))
}

fn ends_word(text: &str) -> bool {
    !text.starts_with(|next: char| next.is_alphanumeric() || next == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    fn converted(text: &str, from: Language) -> [String; 4] {
        let (length, amount) = Amount::read(text, "", from).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(length, text.len(), "{text}");
        [English, German, French, Turkish].map(|to| amount.written(to))
    }

    #[test]
    fn amounts_are_written_in_the_form_of_the_language() {
        for (text, from) in [
            ("$19.99", English),
            ("$ 19.99", English),
            ("19,99 $", German),
            ("19,99$", French),
            ("19,99\u{a0}$", French),
            ("19,99&nbsp;$", French),
            ("$19,99", Turkish),
        ] {
            assert_eq!(converted(text, from), ["$19.99", "19,99 $", "19,99 $", "19,99 $"], "{text}");
        }
        for (text, from, expected) in [
            ("€1,250", English, ["€1,250", "1.250 €", "1\u{a0}250 €", "1.250 €"]),
            ("1 250 €", French, ["€1,250", "1.250 €", "1\u{a0}250 €", "1.250 €"]),
            ("US$5", English, ["US$5", "5 US$", "5 US$", "5 US$"]),
            ("₺50", Turkish, ["₺50", "50 ₺", "50 ₺", "50 ₺"]),
            ("50 TL", Turkish, ["50 TL"; 4]),
            ("CHF 20", German, ["20 CHF"; 4]),
            ("£3.5 million", English, ["£3.5 million", "3,5 Millionen £", "3,5 millions £", "3,5 milyon £"]),
            ("$2bn", English, ["$2 billion", "2 Milliarden $", "2 milliards $", "2 milyar $"]),
            ("1 Million €", German, ["€1 million", "1 Million €", "1 million €", "1 milyon €"]),
            ("3,5 Mio. €", German, ["€3.5 million", "3,5 Millionen €", "3,5 millions €", "3,5 milyon €"]),
            ("$10-$20", English, ["$10-20", "10-20 $", "10-20 $", "10-20 $"]),
            ("$10–20", English, ["$10–20", "10–20 $", "10–20 $", "10–20 $"]),
        ] {
            assert_eq!(converted(text, from), expected, "{text}");
        }
    }

    #[test]
    fn words_and_variables_are_no_amounts() {
        for text in ["$HOME", "$", "5", "5 dollars", "5 $HOME", "5 TLS", "USDA 5", "$x5", "TL"] {
            assert_eq!(Amount::read(text, "", English), None, "{text}");
        }
        assert_eq!(Amount::read("TL 5", "A", English), None);
    }

    #[test]
    fn a_translation_may_name_the_currency() {
        let amount = |text: &str, language| Amount::read(text, "", language).unwrap().1;
        assert!(amount("$19.99", English).is_named("", " Dollar.", German));
        assert!(amount("$19.99", English).is_named("", " dolara", Turkish));
        assert!(amount("50 TL", Turkish).is_named("", " lira", English));
        assert!(amount("€3.5 million", English).is_named("", " millions d'euros", French));
        assert!(!amount("€3.5 million", English).is_named("", " euros", French));
        assert!(!amount("$19.99", English).is_named("", " Euro", German));
        assert!(!amount("$19.99", English).is_named("", "", German));
        assert!(amount("5 $", German).is_same(&amount("US$5", English)));
        assert!(!amount("5 €", German).is_same(&amount("$5", English)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9]|[$€., mbTL]|&nbsp;|million|\\PC){0,16}") {
            for language in [English, German, French, Turkish] {
                if let Some((length, amount)) = Amount::read(&text, "", language) {
                    proptest::prop_assert!(text.is_char_boundary(length));
                    for to in [English, German, French, Turkish] {
                        let written = amount.written(to);
                        let again = Amount::read(&written, "", to).map(|found| found.1);
                        proptest::prop_assert!(again.is_some_and(|again| again.is_same(&amount)), "{}", written);
                    }
                }
            }
        }
    }
}
