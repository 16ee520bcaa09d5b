//! Common parts of every SVG: escaped text, short numbers, and the root element.

use crate::font;

/// Escapes `text` for element content and quoted attributes; characters that XML forbids become `�`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A length with at most two decimals, without trailing zeros: `12.5`, `3`.
pub fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// A complete SVG of the given size on white, with an accessible `title`, around `body`.
pub fn document(size: [f64; 2], title: &str, body: &str) -> String {
    let [width, height] = size.map(short);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"{}\" role=\"img\">\n<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         {body}</svg>\n",
        font::FAMILIES,
        escaped(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<a href=\"x\">R&D's\u{0}\n</a>"),
            "&lt;a href=&quot;x&quot;&gt;R&amp;D&#39;s\u{fffd} &lt;/a&gt;"
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([12.0, 0.5, 1.005, -0.001, 100.0].map(short), ["12", "0.5", "1", "0", "100"]);
    }
}
