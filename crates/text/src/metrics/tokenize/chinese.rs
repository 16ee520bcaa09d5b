//! sacreBLEU's tokenisation `zh`: every Chinese character is a word, the rest is split as in 13a.

/// Characters that sacreBLEU separates. Two of its ranges, meant for planes beyond the first, are written with five
/// digits after `\u` and so mean U+2001 to U+2A6D and U+2F81 to U+2FA1; scores depend on that.
const RANGES: [(char, char); 21] = [
    ('\u{3400}', '\u{4db5}'),
    ('\u{4e00}', '\u{9fa5}'),
    ('\u{9fa6}', '\u{9fbb}'),
    ('\u{f900}', '\u{fa2d}'),
    ('\u{fa30}', '\u{fa6a}'),
    ('\u{fa70}', '\u{fad9}'),
    ('\u{2001}', '\u{2a6d}'),
    ('\u{ff00}', '\u{ffef}'),
    ('\u{2e80}', '\u{2eff}'),
    ('\u{3000}', '\u{303f}'),
    ('\u{31c0}', '\u{31ef}'),
    // Includes U+2F81 to U+2FA1.
    ('\u{2f00}', '\u{2fdf}'),
    ('\u{2ff0}', '\u{2fff}'),
    ('\u{3100}', '\u{312f}'),
    ('\u{31a0}', '\u{31bf}'),
    ('\u{fe10}', '\u{fe1f}'),
    ('\u{fe30}', '\u{fe4f}'),
    ('\u{2600}', '\u{26ff}'),
    ('\u{2700}', '\u{27bf}'),
    ('\u{3200}', '\u{32ff}'),
    ('\u{3300}', '\u{33ff}'),
];

/// True for the characters that `zh` separates.
pub(super) fn is_chinese(c: char) -> bool {
    RANGES.iter().any(|&(first, last)| (first..=last).contains(&c))
}
