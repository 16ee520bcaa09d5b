//! Number formatting for display.

/// Decimal digits in groups of three: 10531488 as `10,531,488`.
///
/// ```
/// assert_eq!(polyhead_text::figures::grouped(10_531_488), "10,531,488");
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).unwrap_or_default())
        .collect();
    parts.join(",")
}

/// A number and what it counts, `noun` in the singular: 1 `line`, 2,000 `lines`, 3 `entries`, 4 `batches`.
///
/// ```
/// use polyhead_text::figures::counted;
/// assert_eq!(counted(1, "pair"), "1 pair");
/// assert_eq!(counted(0, "entry"), "0 entries");
/// assert_eq!(counted(1_200, "batch"), "1,200 batches");
/// ```
pub fn counted(number: u64, noun: &str) -> String {
    let number_text = grouped(number);
    if number == 1 {
        return format!("{number_text} {noun}");
    }
    let is_vowel = |letter: char| "aeiou".contains(letter);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{number_text} {stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") => {
            format!("{number_text} {noun}es")
        }
        _ => format!("{number_text} {noun}s"),
    }
}

/// The form of a verb that agrees with a number.
///
/// ```
/// use polyhead_text::figures::agreeing;
/// assert_eq!(agreeing(1, ["is", "are"]), "is");
/// assert_eq!(agreeing(2, ["is", "are"]), "are");
/// ```
pub fn agreeing(number: u64, [singular, plural]: [&'static str; 2]) -> &'static str {
    if number == 1 { singular } else { plural }
}
