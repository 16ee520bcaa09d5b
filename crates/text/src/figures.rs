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
