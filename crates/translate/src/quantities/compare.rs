//! Comparison of a sentence and its translation: is every quantity there, in a form of the target language?

use std::ops::Range;

use super::units::is_named;
use super::{Language, Quantity, Value, find};
use crate::preserve::numbers::{digits, is_alone};

/// The quantities of `source` whose values `target` lacks. Each must occur as often, and without letters beside it where it
/// had none (not *202books*).
pub(crate) fn lost(source: &str, target: &str, [from, to]: [Language; 2]) -> Vec<Quantity> {
    let mut there = find(target, to);
    let mut is_lost = |quantity: &Quantity| {
        let expected = Expected { quantity, source, target, language: to };
        there.iter().position(|found| expected.is(found)).map(|place| there.swap_remove(place)).is_none()
    };
    let (marked, plain): (Vec<Quantity>, Vec<Quantity>) = find(source, from)
        .into_iter()
        .filter(|quantity| quantity.must_arrive(source))
        .partition(Quantity::is_marked);
    // Plain numbers could take what an amount needs.
    let mut found: Vec<Quantity> = marked.into_iter().chain(plain).filter(&mut is_lost).collect();
    found.sort_by_key(|quantity| quantity.range.start);
    found
}

/// A quantity of a source to be found in its translation.
struct Expected<'a> {
    quantity: &'a Quantity,
    source: &'a str,
    target: &'a str,
    language: Language,
}

impl Expected<'_> {
    /// True if `found` is the quantity.
    fn is(&self, found: &Quantity) -> bool {
        let Self { quantity, source, target, language } = self;
        let (before, behind) = (&target[..found.range.start], &target[found.range.end..]);
        let has_figure =
            || found.figure().zip(quantity.figure()).is_some_and(|(own, source)| own.is_same(source));
        match (&quantity.value, &found.value) {
            (Value::Amount(source), Value::Amount(own)) => own.is_same(source),
            (Value::Amount(amount), Value::Number(_)) => {
                has_figure() && amount.is_named(before, behind, *language)
            }
            (Value::Percent(_), Value::Percent(_)) => has_figure(),
            (Value::Percent(_), Value::Number(_)) => has_figure() && names_percent(before, behind),
            (Value::Time(time), Value::Time(own)) => time.is_in(self.text(&found.range), Some(*own), target),
            (Value::Time(time), Value::Number(_) | Value::Verbatim) => {
                time.is_in(self.text(&found.range), None, target)
            }
            (Value::Date(source), Value::Date(own)) => own.is_same(source),
            (Value::Measure(_, _, unit), Value::Measure(_, _, own)) => {
                has_figure() && own.eq_ignore_ascii_case(unit)
            }
            (Value::Measure(_, _, unit), Value::Number(_)) => has_figure() && is_named(unit, behind),
            (Value::Number(_), _) => has_figure() && self.is_as_free(found),
            (Value::Verbatim, _) => {
                digits(&source[quantity.range.clone()]) == digits(self.text(&found.range))
                    && self.is_as_free(found)
            }
            _ => false,
        }
    }

    /// True if no letter touches the number, or one touched it in the source.
    fn is_as_free(&self, found: &Quantity) -> bool {
        is_alone(self.target, &found.range) || !is_alone(self.source, &self.quantity.range)
    }

    fn text(&self, range: &Range<usize>) -> &str {
        &self.target[range.clone()]
    }
}

/// True if percent is written in words beside a number.
fn names_percent(before: &str, behind: &str) -> bool {
    let behind = behind.trim_start().to_lowercase();
    let is_behind =
        ["percent", "per cent", "prozent", "pour cent", "%"].iter().any(|word| behind.starts_with(word));
    is_behind || before.trim_end().to_lowercase().ends_with("yüzde")
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    fn lost_in(source: &'static str, target: &str, languages: [Language; 2]) -> Vec<&'static str> {
        lost(source, target, languages).into_iter().map(|quantity| &source[quantity.range]).collect()
    }

    #[test]
    fn quantities_are_compared_by_value() {
        for (source, target, languages, expected) in [
            ("1,234.50 or 3.14", "1.234,50 oder 3,14", [English, German], &[][..]),
            ("It weighs 1.5 kg.", "Es wiegt 1.5 kg.", [English, German], &["1.5 kg"]),
            ("It weighs 1.5 kg.", "Es wiegt 1,5 Kilo.", [English, German], &[]),
            ("It costs $19.99.", "Es kostet 19,99 Dollar.", [English, German], &[]),
            ("It costs $19.99.", "Es kostet 19,99 $.", [English, German], &[]),
            ("It costs $19.99.", "Es kostet 19,99.", [English, German], &["$19.99"]),
            ("It costs $5.", "Es kostet fünf Dollar.", [English, German], &["$5"]),
            ("I have 5 cats.", "Ich habe fünf Katzen.", [English, German], &[]),
            ("In 1987, 12 of them.", "1978'de on ikisi.", [English, Turkish], &["1987", "12"]),
            ("the 1990s, B52", "die 1990er, B52", [English, German], &[]),
            ("12 and 12 and 7", "12 und 7", [English, German], &["12"]),
            ("I have 202 books.", "Ich habe 202Bücher.", [English, German], &["202"]),
            ("At 11:45 p.m. we left", "Um 23:45 Uhr gingen wir", [English, German], &[]),
            ("At 11:45 p.m. we left", "23.45'te ayrıldık", [English, Turkish], &[]),
            ("At 11:45 p.m. we left", "11:45'te ayrıldık", [English, Turkish], &["11:45 p.m."]),
            ("At 11:45 p.m. we left", "Gece 11:45'te ayrıldık", [English, Turkish], &[]),
            ("on 12/31/2024", "am 31.12.2024", [English, German], &[]),
            ("on 12/31/2024", "am 12.31.2024", [English, German], &["12/31/2024"]),
            ("25% of it", "yüzde 25'i", [English, Turkish], &[]),
            ("25% of it", "%25'i", [English, Turkish], &[]),
            ("25% of it", "25 davon", [English, German], &["25%"]),
            ("on 2026-11-15 at 14:30.", "am 15.11.2026 um 14.30 Uhr", [English, German], &["2026-11-15"]),
            ("Ça coûte 1 234,50 €.", "It costs €1,234.50.", [French, English], &[]),
            (
                "J'ai vu 6,05 € dans le journal.",
                "I saw 6.000 € in the newspaper.",
                [French, English],
                &["6,05 €"],
            ),
            ("J'ai vu 674 281,81.", "I saw 674 281.81.", [French, English], &["674 281,81"]),
            ("50 TL verdim.", "I paid 50 lira.", [Turkish, English], &[]),
            ("call (555) 123-4567.", "(555) 123-4567 anrufen", [English, German], &[]),
            ("$5 and 5 km, 50", "5 km, 5 $ und 50", [English, German], &[]),
            ("1.500 Leute", "1.500 people", [German, English], &["1.500"]),
            ("1.500 Leute", "1,500 people", [German, English], &[]),
            ("A320-200, 99, 5", "", [English, German], &["320-200", "99"]),
        ] {
            assert_eq!(lost_in(source, target, languages), expected, "{source} → {target}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_converted_text_has_every_value(
            parts in proptest::collection::vec(
                "\\$[1-9][0-9]{0,2}(,[0-9]{3}){0,2}(\\.[0-9]{2})?|[1-9][0-9]?:[0-5][0-9] p\\.m\\.|[0-9]{1,3}%|[1-9][0-9]{0,5}(\\.[0-9]{1,3})?( km)?|(0[1-9]|1[0-2])/[0-2][1-9]/20[0-9]{2}|2\\.10\\.3|555-123-4567",
                1..5,
            )
        ) {
            let source = parts.join(" and ");
            for to in [German, French, Turkish] {
                let (mut target, mut at) = (String::new(), 0);
                for quantity in find(&source, English) {
                    target += &source[at..quantity.range.start];
                    target += &quantity.written(&source, to);
                    at = quantity.range.end;
                }
                target += &source[at..];
                proptest::prop_assert_eq!(lost(&source, &target, [English, to]), [], "{} → {}", source, target);
            }
        }
    }
}
