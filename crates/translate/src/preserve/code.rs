//! Code in a text: tags, entities, format specifiers, code between backticks, paths, file names, options, identifiers; and
//! emoticons.
//!
//! `<b>`, `&nbsp;`, `%s`, `%(name)s`, `{count}`, `${HOME}`, `$HOME`, `` `ls -la` ``, `/etc/hosts`, `C:\Users`, `main.rs`,
//! `--output=FILE`, `snake_case`, `std::io`, `main()`, `0x1F`, `84537c9`, `:-)`.

use super::run;

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
        Some('$') if is_word_start => variable_len(line),
        Some('&') => entity_len(line),
        Some('-') if before.is_whitespace() || "([\"'“".contains(before) => option_len(line),
        Some('`') => line[1..].find('`').filter(|length| *length > 0).map_or(0, |length| length + 2),
        Some('/' | '~' | '\\') if is_word_start => path_len(line),
        Some(first) if first.is_ascii_alphabetic() && is_word_start => {
            if line[1..].starts_with(":\\") {
                path_len(line)
            } else {
                file_len(line).max(identifier_len(line)).max(hexadecimal_len(line))
            }
        }
        Some(first) if first.is_ascii_digit() && is_word_start => file_len(line).max(hexadecimal_len(line)),
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

/// The length of an identifier in `snake_case`, of a path of names (`std::io`) or of a call (`main()`).
fn identifier_len(line: &str) -> usize {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut end = run(line, is_part);
    while let Some(rest) = line[end..].strip_prefix("::").filter(|rest| rest.starts_with(is_part)) {
        end += 2 + run(rest, is_part);
    }
    if line[end..].starts_with("()") {
        return end + 2;
    }
    let word = line[..end].trim_end_matches('_');
    if word.contains('_') || word.contains("::") { word.len() } else { 0 }
}

/// The length of an HTML entity: `&nbsp;`, `&#39;`, `&#x27;`.
fn entity_len(line: &str) -> usize {
    let Some(end) = line.find(';').filter(|end| (3..=12).contains(end)) else { return 0 };
    let name = &line[1..end];
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_entity = match name.strip_prefix('#') {
        Some(number) => is_number(number.strip_prefix(['x', 'X']).unwrap_or(number)),
        None => {
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    };
    if is_entity { end + 1 } else { 0 }
}

/// The length of a variable of a shell: `$HOME`, `$MY_PATH1`.
fn variable_len(line: &str) -> usize {
    let name =
        run(&line[1..], |letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    let is_name = name > 1 && line[1..].starts_with(|first: char| first.is_ascii_uppercase() || first == '_');
    let is_ended = !line[1 + name..].starts_with(char::is_alphanumeric);
    if is_name && is_ended { 1 + name } else { 0 }
}

/// Capitals after a dash that begins a line of dialogue: *-I see.*, *-O geldi.*
const WORDS_OF_ONE_LETTER: &str = "AIOYaoy";

/// The length of an option of a command: `-v`, `--save-dev`, `--output=FILE`.
fn option_len(line: &str) -> usize {
    let is_letter = |letter: char| letter.is_ascii_alphabetic();
    let Some(name) = line.strip_prefix("--") else {
        let mut letters = line[1..].chars();
        let is_short =
            letters.next().is_some_and(|letter| is_letter(letter) && !WORDS_OF_ONE_LETTER.contains(letter));
        let is_ended = !letters.next().is_some_and(|next| next.is_alphanumeric() || "-'’".contains(next));
        return if is_short && is_ended { 2 } else { 0 };
    };
    let length = run(name, |letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if length < 2 || !name.starts_with(is_letter) || name[length..].starts_with(char::is_alphanumeric) {
        return 0;
    }
    let Some(value) = name[length..].strip_prefix('=') else {
        return 2 + name[..length].trim_end_matches(['-', '_']).len();
    };
    let value = value[..value.find(char::is_whitespace).unwrap_or(value.len())].trim_end_matches(MARKS);
    2 + length + 1 + value.len()
}

/// Marks after a word that belong to its sentence.
const MARKS: [char; 12] = ['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '”', '’'];

/// Endings of file names; none that is a word after a full stop without a space.
const FILE_ENDINGS: &[&str] = &[
    "avi", "bat", "bin", "bmp", "c", "cfg", "conf", "cpp", "cs", "css", "csv", "doc", "docx", "epub", "exe",
    "gif", "gz", "h", "hpp", "htm", "html", "ini", "ipynb", "jar", "java", "jpeg", "jpg", "js", "json",
    "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mkv", "mov", "mp3", "mp4", "odt", "ogg", "pdf", "php",
    "png", "po", "ppt", "pptx", "ps1", "py", "rar", "rb", "rs", "rst", "rtf", "scss", "sh", "sql", "srt",
    "svg", "swift", "tar", "tex", "toml", "ts", "tsv", "tsx", "txt", "vue", "wav", "webm", "webp", "xls",
    "xlsx", "xml", "yaml", "yml", "zip",
];

/// The length of a file name: `main.rs`, `report_v2.pdf`, `archive.tar.gz`.
fn file_len(line: &str) -> usize {
    let end = run(line, |letter| letter.is_alphanumeric() || "._-".contains(letter));
    let word = line[..end].trim_end_matches(['.', '-', '_']);
    let Some((name, ending)) = word.rsplit_once('.') else { return 0 };
    let is_file =
        FILE_ENDINGS.contains(&ending) && name.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    if is_file && name.contains(|letter: char| letter.is_alphabetic()) { word.len() } else { 0 }
}

/// Minimum number of digits of a hexadecimal number without `0x`.
const MIN_HEXADECIMAL: usize = 7;

/// The length of a hexadecimal number: `0x1F`, the hash `84537c9`, a UUID.
fn hexadecimal_len(line: &str) -> usize {
    let is_hexadecimal = |letter: char| letter.is_ascii_hexdigit();
    let is_ended = |end: usize| !line[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    if let Some(number) = line.strip_prefix("0x").or_else(|| line.strip_prefix("0X")) {
        let end = 2 + run(number, is_hexadecimal);
        return if end > 2 && is_ended(end) { end } else { 0 };
    }
    let end = run(line, |letter| is_hexadecimal(letter) || letter == '-');
    let groups: Vec<usize> = line[..end].split('-').map(str::len).collect();
    if groups == [8, 4, 4, 4, 12] && is_ended(end) {
        return end;
    }
    let end = run(line, is_hexadecimal);
    let word = &line[..end];
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    let is_hash = end >= MIN_HEXADECIMAL && has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase);
    if is_hash && !has(u8::is_ascii_uppercase) && is_ended(end) { end } else { 0 }
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
            "&nbsp;",
            "&#39;",
            "&#x27;",
            "$HOME",
            "$MY_PATH1",
            "-v",
            "--flag",
            "--save-dev",
            "--output=FILE",
            "main.rs",
            "report_v2.pdf",
            "archive.tar.gz",
            "3d-model.txt",
            "FOO_BAR",
            "std::io::Read",
            "main()",
            "0x1F",
            "84537c9",
            "123e4567-e89b-12d3-a456-426614174000",
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
            "AT&T; x",
            "& now;",
            "&;",
            "$5",
            "$A",
            "$Home",
            "-I see",
            "-5",
            "-- so",
            "-ein",
            "--",
            "e.g",
            "1.5",
            "deadbeef",
            "1234567",
            "1990s",
            "word(s)",
            "std:io",
            "Node.jsx2",
        ] {
            assert_eq!(code_len(text, ' '), 0, "{text}");
        }
        assert_eq!(code_len("-t-il", 'a'), 0);
        assert_eq!(code_len("--but", 'e'), 0);
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
