//! Numbers: those of two and more digits must agree between the sides.
//!
//! Compared are digits, so that `1,234.5`, `1.234,5` and `1 234,5` agree, in any order. What is left over agrees where
//! the languages write the same number in different ways: 12- and 24-hour times (`11:45 pm`, `23:45`), years in short
//! (`1960s`, `60er`), Roman numerals (`19th`, `XIXe`), millions (`5,000,000`, `5 Millionen`), and number words.

use super::number_words::{Hints, hints};

/// Digits of one number without marks and leading zeros.
type Digits = String;

/// The numbers of one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Numbers {
    /// Numbers of two and more digits.
    long: Vec<Digits>,
    /// Numbers of one digit: they may be words on the other side, so they only explain what is left over.
    short: Vec<Digits>,
    /// Times: numbers with a colon between them.
    n_times: usize,
}

/// How digits on both sides of a mark are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// `1,234.5` is one number.
    Joined,
    /// `10.30` is two numbers, as a time or a date.
    Split,
}

/// The numbers that only the source and only the target have; `None` if the sides agree.
pub(super) fn difference(sides: [&str; 2]) -> Option<[Vec<String>; 2]> {
    if sides.iter().all(|text| !has_two_digits(text)) {
        return None;
    }
    let joined = sides.map(|text| Numbers::of(text, Marks::Joined));
    let rest = unmatched(&joined)?;
    if all_digits(sides[0]) == all_digits(sides[1]) {
        return None;
    }
    let split = sides.map(|text| Numbers::of(text, Marks::Split));
    let split_rest = unmatched(&split)?;
    let known = sides.map(hints);
    let agrees = agrees(&joined, &rest, &known) || agrees(&split, &split_rest, &known);
    (!agrees).then_some(rest)
}

fn has_two_digits(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_digit);
    digits.next().is_some() && digits.next().is_some()
}

fn all_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(u8::is_ascii_digit).collect()
}

/// The long numbers of each side without those that the other has too; `None` if nothing is left.
fn unmatched(sides: &[Numbers; 2]) -> Option<[Vec<Digits>; 2]> {
    let mut target = sides[1].long.clone();
    let source: Vec<Digits> = sides[0]
        .long
        .iter()
        .filter(|number| {
            let at = target.iter().position(|other| other == *number);
            at.map(|at| target.swap_remove(at)).is_none()
        })
        .cloned()
        .collect();
    // Said twice on one side: a repetition, not another number.
    let new = |rest: Vec<Digits>, other: &Numbers| -> Vec<Digits> {
        rest.into_iter().filter(|number| !other.long.contains(number)).collect()
    };
    let rest = [new(source, &sides[1]), new(target, &sides[0])];
    (rest.iter().any(|numbers| !numbers.is_empty())).then_some(rest)
}

/// True if all that is left over is the same number in another notation.
fn agrees(sides: &[Numbers; 2], rest: &[Vec<Digits>; 2], hints: &[Hints; 2]) -> bool {
    let has_scale = hints.iter().any(|side| side.has_scale);
    let mut left = rest.clone();
    for side in [0, 1] {
        let other = 1 - side;
        let (own, others) = (left[side].clone(), left[other].clone());
        left[side] = own
            .into_iter()
            .filter(|number| {
                let is_known = |partner: &Digits| is_same(number, partner, has_scale);
                let is_other = others.iter().chain(&sides[other].short).any(is_known)
                    || hints[other].roman.contains(number)
                    || (has_scale && sides[other].long.iter().any(is_known));
                !is_other
            })
            .collect();
        // A partner explains the number on its own side too.
        left[other].retain(|number| !rest[side].iter().any(|partner| is_same(number, partner, has_scale)));
    }
    [0, 1].into_iter().all(|side| {
        let (own, other) = (&hints[side], &hints[1 - side]);
        left[side].retain(|number| {
            let is_hour = number.parse().is_ok_and(|hour| (13..=24).contains(&hour));
            !(is_hour && (own.has_clock || other.has_clock)) && !(number.ends_with("000") && other.has_scale)
        });
        let n_words = other.n_words.saturating_sub(own.n_words);
        // A time has two numbers and may be one word.
        let n_times = sides[side].n_times.min(n_words).min(left[side].len() / 2);
        left[side].len() - n_times <= n_words + other.n_months.saturating_sub(own.n_months)
    })
}

/// True if two numbers are an hour in two notations, a year in two, or digits before and without `million`.
fn is_same(a: &str, b: &str, has_scale: bool) -> bool {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let is_year = long.len() == 4
        && short.len() == 2
        && long.ends_with(short)
        && matches!(&long[..2], "17" | "18" | "19" | "20");
    let is_hour = match (a.parse::<u32>(), b.parse::<u32>()) {
        (Ok(a), Ok(b)) => a.max(b) <= 24 && a.abs_diff(b) == 12,
        _ => false,
    };
    let is_scaled = has_scale && long.trim_end_matches('0') == short.trim_end_matches('0');
    is_year || is_hour || is_scaled
}

impl Numbers {
    fn of(text: &str, marks: Marks) -> Self {
        let mut numbers = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            rest = &rest[at..];
            let (groups, length) = match marks {
                Marks::Joined => Group::all(rest),
                Marks::Split => (vec![Group { mark: None, digits: run(rest) }], run(rest).len()),
            };
            numbers.add(&groups);
            rest = &rest[length..];
            let is_time = rest.strip_prefix(':').is_some_and(|after| !run(after).is_empty());
            numbers.n_times += usize::from(is_time);
        }
        numbers
    }

    fn add(&mut self, groups: &[Group<'_>]) {
        let marks: Vec<char> = groups.iter().filter_map(|group| group.mark).collect();
        let thousands = |groups: &[Group<'_>]| {
            groups.windows(2).all(|pair| pair[1].digits.len() == 3)
                && groups[0].digits.len() <= 3
                && groups[1..].windows(2).all(|pair| pair[0].mark == pair[1].mark)
        };
        let whole: String = groups.iter().map(|group| group.digits).collect();
        if thousands(groups) {
            return self.push(&whole);
        }
        let Some((fraction, before)) = groups.split_last() else { return };
        let is_decimal = matches!(fraction.mark, Some('.' | ','))
            && thousands(before)
            && marks.iter().filter(|mark| Some(**mark) == fraction.mark).count() == 1;
        if is_decimal {
            let whole: String = before.iter().map(|group| group.digits).collect();
            return self.push(&(whole + fraction.digits.trim_end_matches('0')));
        }
        for group in groups {
            self.push(group.digits);
        }
    }

    fn push(&mut self, digits: &str) {
        let digits = digits.trim_start_matches('0');
        match digits.len() {
            0 => {}
            1 => self.short.push(digits.to_owned()),
            _ => self.long.push(digits.to_owned()),
        }
    }
}

/// Digits, and the mark between them and the digits before.
struct Group<'a> {
    mark: Option<char>,
    digits: &'a str,
}

impl<'a> Group<'a> {
    /// The groups at the beginning of `text` that may be one number, and their length in bytes.
    fn all(text: &'a str) -> (Vec<Self>, usize) {
        let first = run(text);
        let mut groups = vec![Self { mark: None, digits: first }];
        let mut length = first.len();
        while let Some(mark) = text[length..].chars().next() {
            let start = length + mark.len_utf8();
            let digits = run(&text[start..]);
            let is_mark = match mark {
                '.' | ',' => !digits.is_empty(),
                // A space groups thousands only, and after nothing but thousands.
                ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '’' => {
                    digits.len() == 3
                        && first.len() <= 3
                        && groups[1..].iter().all(|group| group.mark == Some(mark))
                }
                _ => false,
            };
            if !is_mark {
                break;
            }
            groups.push(Self { mark: Some(mark), digits });
            length = start + digits.len();
        }
        (groups, length)
    }
}

/// The digits at the beginning of `text`.
fn run(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_are_found() {
        for (source, target, only) in [
            ("I am 45.", "Ich bin 54.", [&["45"][..], &["54"]]),
            ("in 1998", "en 1989", [&["1998"], &["1989"]]),
            ("12,500 euros", "12 600 euros", [&["12500"], &["12600"]]),
            ("He paid 10 euros.", "Er zahlte 100 Euro.", [&["10"], &["100"]]),
            ("Articles 12 and 15", "Artikel 12", [&["15"], &[]]),
            ("It costs 30 dollars.", "Es ist teuer.", [&["30"], &[]]),
            ("at 11:45 pm", "um 22:45", [&["11"], &["22"]]),
        ] {
            let only = only.map(|side| side.iter().map(|digits| (*digits).to_owned()).collect());
            assert_eq!(difference([source, target]), Some(only), "{source}");
        }
    }

    #[test]
    fn numbers_in_other_notations_agree() {
        for (source, target) in [
            ("1,234.5 km", "1.234,5 km"),
            ("1,234,567 people", "1 234 567 personnes"),
            ("1,000 and 2,000", "1000 ve 2.000"),
            ("3.50 euros", "3,5 Euro"),
            ("20.00 euros", "20 Euro"),
            ("at 11:45 pm", "um 23:45"),
            ("at 11:45 pm", "um 23.45 Uhr"),
            ("at 3 pm", "um 15 Uhr"),
            ("It is 2:30.", "Il est 14 h 30."),
            ("the 19th century", "le XIXe siècle"),
            ("on May 19th, 2003", "am 19.05.2003"),
            ("12/24/1999", "24.12.1999"),
            ("December 24, 1999", "24.12.1999"),
            ("the 1960s", "die 60er Jahre"),
            ("5 million", "5,000,000"),
            ("1.5 million", "1.500.000"),
            ("I am twelve.", "Ich bin 12."),
            ("twenty-five people", "25 kişi"),
            ("25 people", "fünfundzwanzig Leute"),
            ("80 pages", "quatre-vingts pages"),
            ("It is 12 o'clock.", "Il est midi."),
            ("It's eight o'clock.", "Es ist 20 Uhr."),
            ("She will be back at five.", "Elle sera de retour à 17h."),
            ("in the twenty-first century", "im 21. Jahrhundert"),
            ("in my thirties", "wenn ich über 30 bin"),
            ("open 24/7", "rund um die Uhr geöffnet"),
            ("113 million euros", "cent treize millions d'euros"),
            ("1,000,000 stars", "one million stars"),
            ("How about 12:45?", "Wie wäre es mit dreiviertel eins?"),
            ("October 20th", "le vingt octobre"),
            ("the last 10 matches", "son on maç"),
            ("2 cats", "zwei Katzen"),
            ("%50", "50 %"),
            ("room 101", "oda 101'de"),
        ] {
            assert_eq!(difference([source, target]), None, "{source}");
        }
    }
}
