//! Kinds of elements by their names, and attributes that exclude elements from translation.

/// Elements whose tags end a text.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "audio",
    "base",
    "basefont",
    "blockquote",
    "body",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "iframe",
    "legend",
    "li",
    "link",
    "listing",
    "main",
    "menu",
    "menuitem",
    "meta",
    "nav",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "plaintext",
    "pre",
    "search",
    "section",
    "select",
    "source",
    "summary",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "track",
    "ul",
    "video",
    "xmp",
];
/// Elements without content.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];
/// Elements whose content is not markup.
const RAW: &[&str] = &["iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "xmp"];
/// Elements inside a text whose words stay as they are.
const LITERAL: &[&str] = &["code", "kbd", "samp", "var"];

/// True if the tags of the element end a text.
pub(super) fn is_block(name: &str) -> bool {
    BLOCKS.binary_search(&name).is_ok()
}

/// True if the element has no content.
pub(super) fn is_void(name: &str) -> bool {
    VOID.binary_search(&name).is_ok()
}

/// True if the content of the element is not markup.
pub(super) fn is_raw(name: &str) -> bool {
    RAW.binary_search(&name).is_ok()
}

/// True if the words of the element stay as they are, but belong to the text around it.
pub(super) fn is_literal(name: &str) -> bool {
    LITERAL.contains(&name)
}

/// True if the element is a picture, without words of the text around it.
pub(super) fn is_picture(name: &str) -> bool {
    matches!(name, "svg" | "math")
}

/// True if a tag excludes its element from translation: `translate="no"`, or the class `notranslate`.
pub(super) fn is_untranslated(tag: &str) -> bool {
    const WORD: &[u8] = b"translate";
    // Few tags have the word at all.
    if !tag.as_bytes().windows(WORD.len()).any(|window| window.eq_ignore_ascii_case(WORD)) {
        return false;
    }
    attributes(tag).into_iter().any(|(name, value)| match name.to_ascii_lowercase().as_str() {
        "translate" => value.eq_ignore_ascii_case("no"),
        "class" => value.split_ascii_whitespace().any(|class| class == "notranslate"),
        _ => false,
    })
}

/// Names and values of a tag, in order; the values are as in the page, without quotes.
pub(super) fn attributes(tag: &str) -> Vec<(&str, &str)> {
    let inside = tag.trim_start_matches('<').trim_end_matches('>');
    let name_end = inside.find(|c: char| c.is_ascii_whitespace() || c == '/').unwrap_or(inside.len());
    let mut rest = &inside[name_end..];
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return found;
        }
        // A name may begin with `=`.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | '=');
        let end = rest[first..].find(ends).map_or(rest.len(), |end| first + end);
        let (name, behind) = rest.split_at(end);
        let Some(value) = behind.trim_ascii_start().strip_prefix('=') else {
            found.push((name, ""));
            rest = behind;
            continue;
        };
        let value = value.trim_ascii_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let (value, behind) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        found.push((name, value));
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        assert!([BLOCKS, VOID, RAW, LITERAL].iter().all(|list| list.is_sorted()));
    }

    #[test]
    fn attributes_exclude_elements_from_translation() {
        let excludes = |tag: &str| is_untranslated(tag);
        assert!(
            excludes("<p translate=no>")
                && excludes("<p TRANSLATE = 'NO'>")
                && excludes("<p a class=\"x notranslate\">")
        );
        assert!(
            !excludes("<p translate=yes>") && !excludes("<p class=notranslated>") && !excludes("<translate>")
        );
        assert!(!excludes("<p title='translate=no'>") && !excludes("<p data-translate=no>"));
    }
}
