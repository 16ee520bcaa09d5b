//! Times of day: `11:45 p.m.`, `7 AM`, `23:45 Uhr`, `14 Uhr 30`, `16h30`, `16 h 30`, `saat 16.30`, `23:45`.
//!
//! Written as `11:45 p.m.` in English, `23:45 Uhr` in German, `23h45` in French and `23:45` in Turkish. A time without a
//! mark of its language (`23:45`) may be a score or a ratio, and comes through as it is.

use super::Language;

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time {
    /// 0 to 23.
    pub(super) hour: u8,
    pub(super) minute: Option<u8>,
    /// True if it may be in the other half of the day: English `3:30`.
    pub(super) is_open: bool,
    /// True with a mark such as `p.m.`, `Uhr` or `h`.
    pub(super) is_marked: bool,
}

/// Words of the second half of the day, in the four languages; beginnings of words.
const LATE: &[&str] = &[
    "abend",
    "nacht",
    "nachmittag",
    "mittag",
    "soir",
    "nuit",
    "après-midi",
    "midi",
    "akşam",
    "gece",
    "öğle",
    "ikindi",
    "evening",
    "night",
    "afternoon",
    "noon",
];
/// Words of the first half.
const EARLY: &[&str] =
    &["morgen", "vormittag", "früh", "nacht", "matin", "nuit", "sabah", "gece", "morning", "night"];

impl Time {
    /// Reads the time that `text` begins with, after `before`, and its length in bytes.
    pub(super) fn read(text: &str, before: &str, language: Language) -> Option<(usize, Self)> {
        let (hour, length) = two_digits(text)?;
        let rest = &text[length..];
        let minute = rest.strip_prefix([':', '.']).and_then(two_digits).filter(|found| found.1 == 2);
        // No further part: 14:30:15 and 1.12.2024 are something else.
        let ends = |at: usize| {
            !text[at..].starts_with(|next: char| next.is_alphanumeric())
                && !text[at..].strip_prefix(['.', ':', ',', '/', '-']).is_some_and(starts_with_digit)
        };
        let end = minute.map_or(length, |_| length + 3);
        let has_colon = rest.starts_with(':');
        let minute = minute.map(|found| found.0).filter(|minute| *minute < 60);
        if end > length && minute.is_none() {
            return None;
        }
        let time = |hour, minute| Self { hour, minute, is_open: false, is_marked: true };
        match language {
            Language::English if (1..=12).contains(&hour) => {
                if let Some((mark, is_late)) = half_of_day(&text[end..]) {
                    let hour = hour % 12 + if is_late { 12 } else { 0 };
                    return Some((end + mark, time(hour, minute)));
                }
            }
            Language::German if hour < 24 => {
                if let Some(mark) = word_len(&text[end..], "Uhr") {
                    let behind = &text[end + mark..];
                    let spoken = behind.strip_prefix(' ').and_then(two_digits);
                    let spoken = spoken.filter(|found| minute.is_none() && found.0 < 60 && found.1 == 2);
                    let after = end + mark + 3;
                    return Some(match spoken.filter(|_| ends(after)) {
                        Some((minute, _)) => (after, time(hour, Some(minute))),
                        None => (end + mark, time(hour, minute)),
                    });
                }
            }
            Language::French if hour < 24 && end == length => {
                if let Some((end, minute)) = french(text, length) {
                    let is_time = minute.is_some() || before.trim_end().ends_with(['à', 'À']);
                    return (is_time && ends(end)).then(|| (end, time(hour, minute)));
                }
            }
            _ => {}
        }
        let minute = minute.filter(|_| hour < 24 && ends(end))?;
        let is_turkish = language == Language::Turkish && last_word_is(before, "saat");
        if !has_colon && !is_turkish {
            return None;
        }
        let is_open = (1..=12).contains(&hour) && matches!(language, Language::English | Language::Turkish);
        Some((end, Self { hour, minute: Some(minute), is_open, is_marked: is_turkish }))
    }

    /// The time in the form of a language.
    pub(super) fn written(self, language: Language) -> String {
        let Self { hour, minute, is_open, .. } = self;
        match (language, minute) {
            (Language::English, minute) => {
                let minutes = minute.map_or_else(String::new, |minute| format!(":{minute:02}"));
                if is_open {
                    return format!("{hour}{minutes}");
                }
                let half = if hour < 12 { "a.m." } else { "p.m." };
                format!("{}{minutes} {half}", (hour + 11) % 12 + 1)
            }
            (Language::German, Some(minute)) => format!("{hour}:{minute:02} Uhr"),
            (Language::German, None) => format!("{hour} Uhr"),
            (Language::French, Some(minute)) => format!("{hour}h{minute:02}"),
            (Language::French, None) => format!("{hour}h"),
            (Language::Turkish, minute) => format!("{hour:02}:{:02}", minute.unwrap_or(0)),
        }
    }

    /// True if the quantity `found` of a translation, which is `target`, is this time in whatever form.
    pub(super) fn is_in(self, found: &str, read: Option<Self>, target: &str) -> bool {
        let clock = read.map(|time| (time.hour, time.minute)).or_else(|| clock(found));
        let Some((hour, minute)) = clock else { return false };
        let is_closed = read.is_some_and(|time| time.is_marked && !time.is_open);
        if minute.unwrap_or(0) != self.minute.unwrap_or(0) {
            return false;
        }
        if hour == self.hour {
            // 7:00 p.m. is 19:00; 7:00 in the other half needs a word.
            let is_clear = is_closed || self.is_open || !self.is_marked || hour >= 12;
            return is_clear || !read.is_some_and(|time| time.is_open) || names(target, EARLY);
        }
        if self.is_open {
            return hour == (self.hour + 12) % 24;
        }
        let is_other_half = !is_closed && hour <= 12 && hour % 12 == self.hour % 12;
        is_other_half && names(target, if self.hour < 12 { EARLY } else { LATE })
    }
}

/// Hour and minute of `14:30`, `14.30`, `14h30`; the hour alone of `14`.
fn clock(text: &str) -> Option<(u8, Option<u8>)> {
    let (hour, length) = two_digits(text)?;
    let rest = &text[length..];
    if rest.is_empty() {
        return (hour < 24).then_some((hour, None));
    }
    let (minute, end) = two_digits(rest.strip_prefix([':', '.', 'h'])?)?;
    (hour < 24 && minute < 60 && end == 2 && rest.len() == 3).then_some((hour, Some(minute)))
}

/// True if a text has a word that begins with one of these.
fn names(text: &str, beginnings: &[&str]) -> bool {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !(letter.is_alphanumeric() || letter == '-'));
    words.into_iter().any(|word| beginnings.iter().any(|beginning| word.starts_with(beginning)))
}

/// The number of one or two digits that `text` begins with, and its length.
pub(super) fn two_digits(text: &str) -> Option<(u8, usize)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_short = (1..=2).contains(&length);
    Some((text[..length].parse().ok().filter(|_| is_short)?, length))
}

/// The length of ` p.m.` or ` AM` at the beginning of a text, and true for the second half of the day. The full stop that
/// ends the text belongs to the sentence.
fn half_of_day(text: &str) -> Option<(usize, bool)> {
    let word = text.trim_start_matches([' ', '\u{a0}', '\u{202f}']);
    let mut letters = word.chars();
    let is_late = match letters.next()?.to_ascii_lowercase() {
        'a' => false,
        'p' => true,
        _ => return None,
    };
    let rest = letters.as_str();
    let (has_stop, rest) = rest.strip_prefix('.').map_or((false, rest), |rest| (true, rest));
    let rest = rest.strip_prefix(['m', 'M'])?;
    let closed = rest.strip_prefix('.').filter(|behind| has_stop && !behind.trim().is_empty());
    let rest = closed.unwrap_or(rest);
    let is_ended = !rest.starts_with(char::is_alphanumeric);
    is_ended.then_some((text.len() - rest.len(), is_late))
}

/// The end of `16h30`, `16 h 30` or `16h` in a text whose hour ends at `end`, and the minute.
fn french(text: &str, end: usize) -> Option<(usize, Option<u8>)> {
    let space = [' ', '\u{a0}', '\u{202f}'];
    let rest = text[end..].strip_prefix(space).unwrap_or(&text[end..]).strip_prefix(['h', 'H'])?;
    let behind = rest.strip_prefix(space).unwrap_or(rest);
    let minute = two_digits(behind).filter(|found| found.0 < 60 && found.1 == 2);
    let at = |rest: &str| text.len() - rest.len();
    match minute {
        Some((minute, length)) => Some((at(behind) + length, Some(minute))),
        None => (!rest.starts_with(char::is_alphanumeric)).then(|| (at(rest), None)),
    }
}

/// The length of a word and the space before it at the beginning of a text.
fn word_len(text: &str, word: &str) -> Option<usize> {
    let rest = text.trim_start_matches([' ', '\u{a0}', '\u{202f}']).strip_prefix(word)?;
    (!rest.starts_with(char::is_alphanumeric)).then(|| text.len() - rest.len())
}

fn last_word_is(text: &str, word: &str) -> bool {
    let text = text.trim_end();
    let Some((at, _)) = text.char_indices().nth_back(word.len().saturating_sub(1)) else { return false };
    text[at..].eq_ignore_ascii_case(word) && !text[..at].ends_with(char::is_alphanumeric)
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|digit: char| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Language::{English, French, German, Turkish};

    fn converted(before: &str, text: &str, from: Language) -> [String; 4] {
        let found = Time::read(text, before, from);
        let (length, time) = found.unwrap_or_else(|| panic!("{text}"));
        assert_eq!(length, text.trim_end_matches(|mark| "!, x".contains(mark)).len(), "{text}");
        [English, German, French, Turkish].map(|to| time.written(to))
    }

    #[test]
    fn times_are_written_in_the_form_of_the_language() {
        let late = ["11:45 p.m.", "23:45 Uhr", "23h45", "23:45"];
        for text in ["11:45 p.m. x", "11:45 p.m., x", "11:45 PM", "11:45pm", "11:45\u{a0}P.M. x"] {
            assert_eq!(converted("", text, English), late, "{text}");
        }
        for text in ["23:45 Uhr", "23.45 Uhr", "23 Uhr 45"] {
            assert_eq!(converted("um ", text, German), late, "{text}");
        }
        for text in ["23h45", "23 h 45", "23\u{a0}h\u{a0}45", "23H45"] {
            assert_eq!(converted("à ", text, French), late, "{text}");
        }
        assert_eq!(converted("Saat ", "23.45", Turkish), late);
        assert_eq!(converted("", "7 a.m. x", English), ["7 a.m.", "7 Uhr", "7h", "07:00"]);
        assert_eq!(converted("", "12:05 a.m. x", English), ["12:05 a.m.", "0:05 Uhr", "0h05", "00:05"]);
        assert_eq!(converted("", "12 PM", English), ["12 p.m.", "12 Uhr", "12h", "12:00"]);
        assert_eq!(converted("à ", "16h", French), ["4 p.m.", "16 Uhr", "16h", "16:00"]);
        assert_eq!(converted("saat ", "7:30", Turkish), ["7:30", "7:30 Uhr", "7h30", "07:30"]);
    }

    #[test]
    fn the_last_full_stop_belongs_to_the_sentence() {
        assert_eq!(Time::read("11:45 p.m.", "", English).unwrap().0, "11:45 p.m".len());
        assert_eq!(Time::read("11:45 p.m.!", "", English).unwrap().0, "11:45 p.m.".len());
    }

    #[test]
    fn other_numbers_are_no_times() {
        for (text, language) in [
            ("13 p.m.", English),
            ("7 amber", English),
            ("7 pm2", English),
            ("25:00", German),
            ("12:60", German),
            ("14:30:15", English),
            ("14.30", German),
            ("16h", French),
            ("5 heures", French),
            ("16h5", French),
            ("16.30", Turkish),
            ("3:1", English),
            ("1.12.2024", German),
            ("123:45", English),
        ] {
            assert_eq!(Time::read(text, "", language), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_there_in_any_form() {
        let time = |text: &str, language| Time::read(text, "", language).unwrap().1;
        let is_in = |source: Time, found: &str, language, target: &str| {
            let read = Time::read(found, "", language).map(|read| read.1);
            source.is_in(found, read, target)
        };
        let late = time("11:45 p.m. x", English);
        assert!(is_in(late, "23:45", German, "um 23:45"));
        assert!(is_in(late, "23.45", Turkish, "23.45'te"));
        assert!(is_in(late, "11:45", German, "um 11:45 Uhr nachts"));
        assert!(!is_in(late, "11:45", German, "um 11:45"));
        assert!(!is_in(late, "23:44", German, "um 23:44"));
        let french = time("16h30", French);
        assert!(is_in(french, "4:30 p.m", English, ""));
        assert!(is_in(french, "16:30", English, ""));
        assert!(is_in(french, "4:30", English, "at 4:30 in the afternoon"));
        assert!(!is_in(french, "4:30", English, "at 4:30"));
        assert!(!is_in(french, "4:30 a.m", English, "at 4:30 a.m. in the afternoon"));
        assert!(is_in(time("3:30", English), "15:30", German, ""));
        assert!(!is_in(time("7:30 Uhr", German), "7:30", English, "at 7:30"));
        assert!(is_in(time("7:30 Uhr", German), "7:30", English, "at 7:30 in the morning"));
    }

    proptest::proptest! {
        #[test]
        fn a_written_time_is_read_again(hour in 0_u8..24, minute in 0_u8..60) {
            let time = Time { hour, minute: Some(minute), is_open: false, is_marked: true };
            for language in [English, German, French, Turkish] {
                let text = time.written(language);
                let read = Time::read(&text, "saat ", language).unwrap();
                proptest::prop_assert!(time.is_in(&text[..read.0], Some(read.1), "sabah gece"), "{}", text);
            }
        }

        #[test]
        fn any_text_is_read(text in "([0-9]|[:.hamp UhrHAPM]|\\PC){0,12}", before in "(saat|à|\\PC| ){0,4}") {
            for language in [English, German, French, Turkish] {
                if let Some((length, _)) = Time::read(&text, &before, language) {
                    proptest::prop_assert!(text.is_char_boundary(length) && length > 0);
                }
            }
        }
    }
}
