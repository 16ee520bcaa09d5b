//! The font of all pictures: DejaVu Sans, cut down to the letters of European languages, IPA, and signs of mathematics.
//!
//! A PNG shows the same letters on every machine, since no font of the system is looked at. An SVG names the font and
//! falls back to what its viewer has. The licence stands beside the font, as does the script that cut it.

use std::sync::LazyLock;

use ttf_parser::Face;

/// The font file (TrueType).
pub const BYTES: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// The font's name.
pub const FAMILY: &str = "DejaVu Sans";

/// The value of the attribute `font-family` in SVG: the font, then any without serifs.
pub const FAMILIES: &str = "DejaVu Sans, sans-serif";

/// The font's licence, to be shown where a program shows the licences of its parts.
pub const LICENSE: &str = include_str!("../assets/DejaVuSans-LICENSE.txt");

/// Width in ems of a character that the font lacks, as its empty box has it.
const MISSING: f64 = 0.6;

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(BYTES, 0).expect("the font in the program is whole"));

/// Width of a line of text at a font size, in the unit of the size. The font has no kerning, so it is a sum.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// Whether the font can show a character.
pub fn has(character: char) -> bool {
    FACE.glyph_index(character).is_some()
}

/// `text` cut to at most `most` wide, with `…` in the place of what was left out.
pub fn fitted(text: &str, size: f64, most: f64) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut left = most / size - advance('…');
    let kept = text.chars().take_while(|&character| {
        left -= advance(character);
        left >= 0.0
    });
    kept.chain(['…']).collect()
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
    fn letters_that_pictures_need_are_there() {
        let needed = "ÇĞİıÖŞÜçğöşü ÄäÖöÜüß ÀàÂâÆæÉéÈèÊêËëÎîÏïÔôŒœÙùÛûÿ «»„“”‘’–—…·×÷±−≤≥≈≠∞∑∏√∂∇∈ αβγδεζηθικλμνξοπρστυφχψω \
                      ΓΔΘΛΞΠΣΦΨΩ ←↑→↓↔⇒ əɛɔŋʃʒθðˈːʁɲ ⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂ €£₺ ▁□●";
        let missing: String = needed.chars().filter(|&character| !has(character)).collect();
        assert_eq!(missing, "");
        assert!(BYTES.len() <= 120_000 && LICENSE.contains("Bitstream Vera"));
    }

    #[test]
    fn widths_add_up() {
        assert_eq!(width("", 10.0), 0.0);
        // 1303 of 2048 units for a digit, as in the font's own table.
        assert!((width("10", 2048.0) - 2.0 * 1303.0).abs() < 1e-9);
        assert!((width("漢", 10.0) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn long_text_is_cut_to_fit() {
        let text = "a run with a long name";
        assert_eq!(fitted(text, 12.0, 1000.0), text);
        let cut = fitted(text, 12.0, 80.0);
        assert!(cut.ends_with('…') && text.starts_with(cut.trim_end_matches('…')), "{cut}");
        assert!(width(&cut, 12.0) <= 80.0 && width(&cut, 12.0) > 60.0);
        assert_eq!(fitted(text, 12.0, 0.0), "…");
    }
}
