//! Character references: decodes `&uuml;`, `&#252;` and `&#xfc;`, encodes `&`, `<`, `>` and U+00A0.

use std::collections::BTreeSet;

use polyhead_text::entities::reference;

/// Characters of the longest name.
const MAX_NAME: usize = 32;

/// Decodes the references of a text. Unknown ones stay, and are added to `unknown`.
pub(super) fn decode(text: &str, unknown: &mut BTreeSet<String>) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some((letter, length)) = reference(rest) {
            decoded.push(letter);
            length
        } else {
            let whole = whole_reference(rest);
            unknown.extend(whole.map(str::to_owned));
            let verbatim = whole.unwrap_or("&");
            decoded.push_str(verbatim);
            verbatim.len()
        };
        rest = &rest[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// Encodes a text for a page; the references in `unknown` stay.
pub(super) fn encode(text: &str, unknown: &BTreeSet<String>, page: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '\u{a0}']) {
        page.push_str(&rest[..at]);
        rest = &rest[at..];
        let verbatim = whole_reference(rest).filter(|whole| unknown.contains(*whole));
        let (written, length) = match (verbatim, rest.as_bytes()[0]) {
            (Some(whole), _) => (whole, whole.len()),
            (None, b'&') => ("&amp;", 1),
            (None, b'<') => ("&lt;", 1),
            (None, b'>') => ("&gt;", 1),
            (None, _) => ("&nbsp;", '\u{a0}'.len_utf8()),
        };
        page.push_str(written);
        rest = &rest[length..];
    }
    page.push_str(rest);
}

/// The beginning of a text if it has the form of a reference with its semicolon.
fn whole_reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix('&')?;
    let name = name.strip_prefix('#').unwrap_or(name);
    let length = name.bytes().take(MAX_NAME).take_while(u8::is_ascii_alphanumeric).count();
    let end = text.len() - name.len() + length;
    (length > 0 && text.as_bytes().get(end) == Some(&b';')).then(|| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        decode(text, &mut BTreeSet::new())
    }

    #[test]
    fn references_become_letters() {
        assert_eq!(decoded("&uuml;&Uuml;&szlig;&eacute;&ccedil;&nbsp;&yuml;"), "üÜßéç\u{a0}ÿ");
        assert_eq!(decoded("&lt;b&gt; &amp;amp; &quot;&apos;&hellip;&mdash;&rsquo;"), "<b> &amp; \"'…—’");
        assert_eq!(decoded("&#252;&#xFC;&#XfC;&#150;&#x1F600;"), "üüü–😀");
        // As browsers read them.
        assert_eq!(decoded("AT&T &copy2024 &amp &#65 x&y"), "AT&T ©2024 & A x&y");
    }

    #[test]
    fn unknown_references_come_back() {
        for page in ["&foo; &#0; &#xD800; &#99999999999999999999; x", "&amp;foo; a &amp; b &lt;i&gt; &nbsp;"]
        {
            let mut unknown = BTreeSet::new();
            let text = decode(page, &mut unknown);
            let mut back = String::new();
            encode(&text, &unknown, &mut back);
            assert_eq!(back, page);
        }
    }
}
