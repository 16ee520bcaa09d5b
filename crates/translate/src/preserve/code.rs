//! Code in a text: tags, format specifiers, code between backticks, paths, identifiers; and emoticons.
//!
//! `<b>`, `%s`, `%(name)s`, `{count}`, `${HOME}`, `` `ls -la` ``, `/etc/hosts`, `C:\Users`, `snake_case`, `:-)`.

/// Bytes of the longest unit that is found.
const MAX_BYTES: usize = 256;

const EMOTICONS: &[&str] = &[
    ":-)", ":)", ";-)", ";)", ":-(", ":(", ":'(", ":-D", ":D", ":-P", ":P", ":-/", ":-|", ":-O", "<3", "</3",
    "^^", "^_^",
];

/// The length in bytes of the code or emoticon that `text` begins with, after the character `before`; 0 for none.
pub(super) fn code_len(text: &str, before: char) -> usize {
    let end = text.char_indices().find(|(at, letter)| *at >= MAX_BYTES || "\n\r\t".contains(*letter));
    let line = &text[..end.map_or(text.len(), |(at, _)| at)];
    let is_word_start = !before.is_alphanumeric() && before != '_';
    let emoticon = if before.is_whitespace() { emoticon_len(line) } else { 0 };
    if emoticon > 0 {
        return emoticon;
    }
    match line.chars().next() {
        Some('<') => tag_len(line),
        Some('%') if !before.is_ascii_digit() => specifier_len(line),
        Some('{') => braces_len(line),
        Some('$') if line[1..].starts_with('{') => match braces_len(&line[1..]) {
            0 => 0,
            length => length + 1,
        },
        Some('`') => line[1..].find('`').filter(|length| *length > 0).map_or(0, |length| length + 2),
        Some('/' | '~' | '\\') if is_word_start => path_len(line),
        Some(first) if first.is_ascii_alphabetic() && is_word_start => {
            if line[1..].starts_with(":\\") {
                path_len(line)
            } else {
                identifier_len(line)
            }
        }
        _ => 0,
    }
}

/// True for signs that do not occur in sentences, so that no model has learned them.
pub(super) fn is_sign(character: char) -> bool {
    matches!(character, '<' | '>' | '{' | '}' | '|' | '\\' | '^' | '~' | '`' | '_' | '=')
}

fn emoticon_len(line: &str) -> usize {
    let stands_alone = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let found = EMOTICONS.iter().filter(|sign| line.strip_prefix(**sign).is_some_and(stands_alone));
    found.map(|sign| sign.len()).max().unwrap_or(0)
}

/// The length of a tag: `<b>`, `</a>`, `<a href="x">`.
fn tag_len(line: &str) -> usize {
    let name = line[1..].strip_prefix('/').unwrap_or(&line[1..]);
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return 0;
    }
    let end = line[1..].find(['<', '>']).map(|end| end + 1);
    end.filter(|end| line[*end..].starts_with('>') && !line[..*end].contains('@')).map_or(0, |end| end + 1)
}

/// The length of a format specifier: `%s`, `%-5.2f`, `%1$s`, `%(name)s`, `%ld`.
fn specifier_len(line: &str) -> usize {
    let mut rest = &line[1..];
    if let Some(named) = rest.strip_prefix('(') {
        let Some(end) = named.find(')') else { return 0 };
        rest = &named[end + 1..];
    }
    rest = rest.trim_start_matches(|flag: char| flag.is_ascii_digit() || "$-+#.*".contains(flag));
    rest = rest.trim_start_matches(['l', 'h', 'z', 'j']);
    let mut characters = rest.chars();
    let is_one = characters.next().is_some_and(|letter| "sdiufFeEgGxXocp@r".contains(letter));
    let ends = !characters.next().is_some_and(char::is_alphanumeric);
    if is_one && ends { line.len() - rest.len() + 1 } else { 0 }
}

/// The length of a placeholder in braces: `{}`, `{count}`, `{0:.2f}`, `{{ name }}`.
fn braces_len(line: &str) -> usize {
    let (open, close) = if line.starts_with("{{") { ("{{", "}}") } else { ("{", "}") };
    let Some(end) = line[open.len()..].find(close) else { return 0 };
    let inside = &line[open.len()..open.len() + end];
    let is_space = |letter: char| letter.is_whitespace() && open.len() == 1;
    if inside.contains(|letter| is_space(letter) || "{}".contains(letter)) {
        return 0;
    }
    end + open.len() + close.len()
}

/// The length of a path (`/etc/hosts`, `~/notes.txt`, `C:\Users\x`): a name after the first slash, and another slash or
/// a full stop inside.
fn path_len(line: &str) -> usize {
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    let word = line[..end].trim_end_matches(|mark: char| ".,;:!?)]}\"'”’»".contains(mark));
    let inside = word.trim_start_matches(['~', '/', '\\']);
    let is_path = inside.len() < word.len() || word.contains(":\\");
    let has_parts = inside.contains(['/', '\\', '.']) || word.starts_with("~/");
    let is_name = inside.starts_with(|first: char| first.is_alphanumeric() || first == '.');
    if is_path && has_parts && is_name { word.len() } else { 0 }
}

/// The length of an identifier in `snake_case`.
fn identifier_len(line: &str) -> usize {
    let end = line.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(line.len());
    let word = line[..end].trim_end_matches('_');
    if word.contains('_') { word.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_whole() {
        for code in [
            "<b>",
            "</a>",
            "<a href=\"x\">",
            "<br/>",
            "%s",
            "%d",
            "%-5.2f",
            "%1$s",
            "%(name)s",
            "%ld",
            "{}",
            "{count}",
            "{0:.2f}",
            "{{ name }}",
            "${HOME}",
            "`ls -la`",
            "/etc/app/config.json",
            "~/notes",
            "C:\\Users\\John\\x.txt",
            "snake_case",
            ":-)",
            ":D",
            "<3",
        ] {
            for after in ["", " a", ", a", ". A"] {
                assert_eq!(code_len(&format!("{code}{after}"), ' '), code.len(), "{code}{after}");
            }
        }
    }

    #[test]
    fn language_is_no_code() {
        for text in [
            "a < b",
            "< b >",
            "<jane@x.org>",
            "% of them",
            "%",
            "% s",
            "{a b}",
            "{",
            "`",
            "``",
            "and/or",
            "/",
            "/ a",
            "~5",
            "word",
            "_",
            "a:b",
            ":Dog",
            "$5",
            "</",
            "%seen",
            "A. B.",
        ] {
            assert_eq!(code_len(text, ' '), 0, "{text}");
        }
        assert_eq!(code_len("%s", '5'), 0);
        assert_eq!(code_len("/or", 'd'), 0);
        assert_eq!(code_len(":)", 'a'), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([<>%{}$`/~:_a-z0-9 .\\\\]|é|\\PC){0,30}", before in "\\PC") {
            let length = code_len(&text, before.chars().next().unwrap_or(' '));
            proptest::prop_assert!(text.is_char_boundary(length));
        }
    }
}
