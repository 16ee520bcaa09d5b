//! Markup: character references, tags, `{{…}}`, `[[…]]` and escaped line ends, compared between the sides.

use std::sync::LazyLock;

use regex::Regex;

use crate::entities::reference;

/// Rounds of decoding: `&amp;lt;` is `<` after two.
const MAX_ROUNDS: usize = 3;

/// A tag: `<b>`, `</p>`, `<br/>`, `<a href="…">`; attributes need a value, so that `a <b and c> d` is none.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"</?([A-Za-z][A-Za-z0-9:_-]*)(?:\s+[A-Za-z_:-]+\s*=\s*(?:\\?"[^"]*"|'[^']*'|[^\s>"']+))*\s*/?>"#,
    )
    .expect("a constant expression")
});

/// Names of HTML, sorted; tags with other names may be placeholders, which are translated.
const HTML: [&str; 44] = [
    "a",
    "abbr",
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "cite",
    "code",
    "dd",
    "del",
    "div",
    "dl",
    "dt",
    "em",
    "font",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "table",
    "td",
    "tr",
    "u",
    "ul",
];

/// A tag with another name.
const OTHER_TAG: &str = "<…>";

/// Markup that one side has and the other lacks: its name, and 0 if the source has it, 1 if the target has.
pub(super) fn difference(sides: [&str; 2]) -> Option<(String, usize)> {
    if sides.iter().all(|text| !may_have_markup(text)) {
        return None;
    }
    let [source, target] = sides.map(kinds);
    let lacks = |has: &[String], other: &[String]| has.iter().find(|name| !other.contains(name)).cloned();
    let only_source = lacks(&source, &target).map(|name| (name, 0));
    only_source.or_else(|| lacks(&target, &source).map(|name| (name, 1)))
}

/// `text` with its character references decoded; `None` if it has none. A reference never becomes a control character:
/// white space becomes a space, other ones stay.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut decoded = None;
    for _ in 0..MAX_ROUNDS {
        let Some(next) = decode_once(decoded.as_deref().unwrap_or(text)) else { break };
        decoded = Some(next);
    }
    decoded
}

fn decode_once(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some((letter, length)) = entity(rest) {
            out.push(letter);
            is_changed = true;
            length
        } else {
            out.push('&');
            1
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    is_changed.then_some(out)
}

/// The character of a complete reference, one with its semicolon.
fn entity(text: &str) -> Option<(char, usize)> {
    let (letter, length) = reference(text)?;
    let is_complete = text.as_bytes().get(length - 1) == Some(&b';');
    let letter = if letter.is_whitespace() && letter.is_control() { ' ' } else { letter };
    (is_complete && !letter.is_control()).then_some((letter, length))
}

fn may_have_markup(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'&' | b'<' | b'{' | b'[' | b'\\'))
}

/// The kinds of markup of one side, sorted, each once: `<b>`, `&…;`.
fn kinds(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    if text.match_indices('&').any(|(at, _)| entity(&text[at..]).is_some()) {
        names.push("&…;".to_owned());
    }
    for (open, close, name) in [("{{", "}}", "{{…}}"), ("[[", "]]", "[[…]]")] {
        if text.find(open).is_some_and(|at| text[at..].contains(close)) {
            names.push(name.to_owned());
        }
    }
    if has_escape(text) {
        names.push("\\n".to_owned());
    }
    if text.contains('<') {
        names.extend(TAG.captures_iter(text).filter_map(|tag| {
            let (whole, name) = (tag.get(0)?, tag.get(1)?);
            tag_name(whole.as_str(), name.as_str())
        }));
    }
    names.sort();
    names.dedup();
    names
}

/// The name of a tag; `None` if it may be a placeholder, which is translated (`<file>`), or a type (`List<String>`).
fn tag_name(tag: &str, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if HTML.binary_search(&name.as_str()).is_err() {
        return tag.contains(['/', '=']).then(|| OTHER_TAG.to_owned());
    }
    // Two names of one look.
    Some(match name.as_str() {
        "strong" => "<b>".to_owned(),
        "em" => "<i>".to_owned(),
        name => format!("<{name}>"),
    })
}

/// True if the text has `\n` as two characters at the end of a word; `(default: \n)` and `C:\new` are about it.
fn has_escape(text: &str) -> bool {
    text.match_indices("\\n").any(|(at, _)| {
        text[..at]
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '!' | '?' | ',' | ';' | ')' | ']'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_one_side_is_found() {
        for (source, target, name, side) in [
            ("Tom &amp; Jerry", "Tom und Jerry", "&…;", 0),
            ("it", "l&#39;eau", "&…;", 1),
            ("a <b>bold</b> word", "ein fettes Wort", "<b>", 0),
            ("end", "Ende</p>", "<p>", 1),
            ("see <a href=\"x.html\">this</a>", "siehe dies", "<a>", 0),
            ("{{cite web}} text", "Text", "{{…}}", 0),
            ("the town", "die [[Stadt]]", "[[…]]", 1),
            ("one\\ntwo", "eins zwei", "\\n", 0),
            ("<item type=\"menu\">File</item>", "Datei", "<…>", 0),
        ] {
            assert_eq!(difference([source, target]), Some((name.to_owned(), side)), "{source}");
        }
    }

    #[test]
    fn markup_of_both_sides_passes() {
        for (source, target) in [
            ("a <b>bold</b> word", "ein <strong>fettes</strong> Wort"),
            ("<user name>", "<Name>"),
            ("Use <file>.", "<dosya> kullanın."),
            ("a < b and c > d", "a kleiner b und c größer d"),
            ("a <b and c> d", "x"),
            ("R&D, AT&T; Q&A", "F&E"),
            ("List<String> x", "x"),
            ("mail <me@example.com>", "x"),
            ("&quot;yes&quot;", "&laquo;oui&raquo;"),
            ("a[0] {x}", "b"),
            ("C:\\new", "der Ordner"),
            ("separate by STRING (default: \\n)", "mit ZEICHENFOLGE trennen"),
        ] {
            assert_eq!(difference([source, target]), None, "{source}");
        }
    }

    #[test]
    fn references_are_decoded() {
        assert_eq!(decode("Tom &amp; l&#39;eau&nbsp;!").as_deref(), Some("Tom & l'eau\u{a0}!"));
        assert_eq!(decode("&amp;lt;b&amp;gt;").as_deref(), Some("<b>"));
        assert_eq!(decode("a&#10;b&#9;c").as_deref(), Some("a b c"));
        assert_eq!(decode("a &#1; &foo; & AT&T"), None);
        assert!(HTML.is_sorted());
    }
}
