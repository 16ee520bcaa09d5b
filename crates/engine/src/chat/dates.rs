//! The date that a template may write (`strftime_now`), in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The time now in the format of C's `strftime`.
pub(super) fn now(format: &str) -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    formatted(format, seconds)
}

/// The time `seconds` after 1970; a conversion that is not known stays as it is.
fn formatted(format: &str, seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let [hour, minute, second] = [time / 3600, time / 60 % 60, time % 60];
    let [year, month, day] = date(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days as usize + 4) % 7]);
    let (mut out, mut chars) = (String::new(), format.chars());
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        // A minus leaves out zeros in front.
        let mut conversion = chars.next();
        let is_short = conversion == Some('-');
        if is_short {
            conversion = chars.next();
        }
        let two = |number: u64| if is_short { number.to_string() } else { format!("{number:02}") };
        match conversion {
            Some('Y') => out += &year.to_string(),
            Some('y') => out += &two(year % 100),
            Some('m') => out += &two(month),
            Some('d') => out += &two(day),
            Some('e') => out += &format!("{day:2}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += day_name,
            Some('a') => out += &day_name[..3],
            Some('H') => out += &two(hour),
            Some('I') => out += &two((hour + 11) % 12 + 1),
            Some('M') => out += &two(minute),
            Some('S') => out += &two(second),
            Some('p') => out += if hour < 12 { "AM" } else { "PM" },
            Some('F') => out += &format!("{year}-{month:02}-{day:02}"),
            Some('T') => out += &format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') | None => out.push('%'),
            Some(other) => out.extend(['%', other]),
        }
    }
    out
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn date(days: u64) -> [u64; 3] {
    let (mut year, mut rest) = (1970, days);
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    loop {
        let length = 365 + u64::from(leap(year));
        if rest < length {
            break;
        }
        (year, rest) = (year + 1, rest - length);
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if rest < length {
            break;
        }
        (month, rest) = (month + 1, rest - length);
    }
    [year, month, rest + 1]
}

#[cfg(test)]
mod tests {
    use super::formatted;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let all = "%A %a %d %B %b %m %Y %y %H:%M:%S %I %p %-d %e %F %T %% %Q";
        // `date -u -d @…` of GNU.
        assert_eq!(
            formatted(all, 1_709_164_805),
            "Thursday Thu 29 February Feb 02 2024 24 00:00:05 12 AM 29 29 2024-02-29 00:00:05 % %Q"
        );
        assert_eq!(formatted("%F %H %I %p %e", 1_709_251_199 + 86_400), "2024-03-01 23 11 PM  1");
        assert_eq!(formatted("%F %a", 0), "1970-01-01 Thu");
        assert_eq!(formatted("%F %a", 4_107_542_400), "2100-03-01 Mon");
    }
}
