//! The font of all pictures: a subset of DejaVu Sans with European letters, IPA, and mathematical symbols.
//!
//! A PNG looks the same on every machine, since no system font is used. An SVG names the font and falls back to what its viewer
//! has. The licence and the script that made the subset are beside the font.

use std::sync::LazyLock;

use ttf_parser::Face;

/// The font file (TrueType).
pub const BYTES: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// Font family name.
pub const FAMILY: &str = "DejaVu Sans";

/// Value of the attribute `font-family` in SVG.
pub const FAMILIES: &str = "DejaVu Sans, sans-serif";

/// The font's licence, for a list of third-party licences.
pub const LICENSE: &str = include_str!("../assets/DejaVuSans-LICENSE.txt");

/// Width in ems of a missing character, that of the empty box.
const MISSING: f64 = 0.6;

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(BYTES, 0).expect("the font in the program is whole"));

/// Width of a line of text in the unit of the font size. The font has no kerning, so it is the sum of the characters.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// True if the font has a glyph for the character.
pub fn has(character: char) -> bool {
    FACE.glyph_index(character).is_some()
}

/// `text` truncated with `…` to a width of at most `most`.
pub fn fitted(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut left = most / size - advance('…');
    let shown = text.chars().take_while(|&character| {
        left -= advance(character);
        left >= 0.0
    });
    shown.chain(['…']).collect()
}

/// Width of a character in ems.
fn advance(character: char) -> f64 {
    let advance = FACE.glyph_index(character).and_then(|glyph| FACE.glyph_hor_advance(glyph));
    advance.map_or(MISSING, |advance| f64::from(advance) / f64::from(FACE.units_per_em()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_the_letters_that_pictures_need() {
        let needed = "ÇĞİıÖŞÜçğöşü ÄäÖöÜüß ÀàÂâÆæÉéÈèÊêËëÎîÏïÔôŒœÙùÛûÿ «»„“”‘’–—…·×÷±−≤≥≈≠∞∑∏√∂∇∈ αβγδεζηθικλμνξοπρστυφχψω \
                      ΓΔΘΛΞΠΣΦΨΩ ←↑→↓↔⇒ əɛɔŋʃʒθðˈːʁɲ ⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂ €£₺ ▁□●";
        let missing: String = needed.chars().filter(|&character| !has(character)).collect();
        assert_eq!(missing, "");
        assert!(BYTES.len() <= 120_000 && LICENSE.contains("Bitstream Vera"));
    }

    #[test]
    fn widths_are_sums() {
        assert_eq!(width("", 10.0), 0.0);
        // 1303 of 2048 units for a digit, as in the font's own table.
        assert!((width("10", 2048.0) - 2.0 * 1303.0).abs() < 1e-9);
        assert!((width("漢", 10.0) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn long_text_is_truncated() {
        let text = "a run with a long name";
        assert_eq!(fitted(text, 12.0, 1000.0), text);
        let cut = fitted(text, 12.0, 80.0);
        assert!(cut.ends_with('…') && text.starts_with(cut.trim_end_matches('…')), "{cut}");
        assert!(width(&cut, 12.0) <= 80.0 && width(&cut, 12.0) > 60.0);
        assert_eq!(fitted(text, 12.0, 0.0), "…");
    }
}
