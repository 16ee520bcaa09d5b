//! PO: messages of a program (gettext).
//!
//! Messages whose translation is empty or marked `fuzzy` are translated; other translations stay. New translations get
//! the flag `fuzzy`, for a person to check. Of the plural forms the first comes from `msgid` and the others from
//! `msgid_plural`; a language with one form gets that of the plural. The header gets the language; comments and old
//! messages (`#~`) stay. Accelerators (`_File`) are taken out and placed in the translation.

mod accelerator;
mod header;

use std::ops::Range;

use self::accelerator::Accelerator;
use super::{TranslatedText, unreadable};
use crate::Result;

/// A file of messages.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    parts: Vec<PoPart>,
    texts: Vec<String>,
}

#[derive(Debug, Clone)]
enum PoPart {
    /// Text that stays.
    Verbatim(String),
    Message {
        /// The keyword: `msgstr`, or `msgstr[1]`.
        keyword: String,
        /// Index of the text that it translates.
        text: usize,
        /// White space around the text.
        around: [String; 2],
        accelerator: Option<Accelerator>,
        line_end: &'static str,
    },
    /// The translation of the empty message, and its bytes in the file.
    Header { text: String, bytes: String, line_end: &'static str },
}

impl Catalogue {
    pub(crate) fn read(source: &str) -> Result<Self> {
        let line_end = if source.lines().next().is_some_and(|line| source[line.len()..].starts_with("\r\n")) {
            "\r\n"
        } else {
            "\n"
        };
        let mut reader = Reader { source, line_end, ..Reader::default() };
        let mut start = 0;
        for (index, line) in source.split_inclusive('\n').enumerate() {
            let text = line.trim_end_matches(['\n', '\r']);
            reader.line(index + 1, start..start + text.len())?;
            start += line.len();
        }
        reader.end_entry();
        reader.keep_up_to(source.len());
        Ok(Self { parts: reader.parts, texts: reader.texts })
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    pub(crate) fn write(&self, translated: &[TranslatedText<'_>], language: Option<&str>) -> String {
        let mut written = String::new();
        for part in &self.parts {
            match part {
                PoPart::Verbatim(text) => written.push_str(text),
                PoPart::Header { text, bytes, line_end } => match language {
                    Some(language) if header::in_language(text, language) != *text => {
                        let lines = quoted(&header::in_language(text, language));
                        written.push_str(&format!("msgstr {}", lines.join(line_end)));
                    }
                    _ => written.push_str(bytes),
                },
                PoPart::Message { keyword, text, around: [lead, tail], accelerator, line_end } => {
                    let text = translated
                        .get(*text)
                        .map_or(self.texts[*text].as_str(), |translated| translated.text);
                    let text = accelerator.map_or(text.to_owned(), |accelerator| accelerator.placed(text));
                    let lines = quoted(&format!("{lead}{text}{tail}"));
                    written.push_str(&format!("{keyword} {}", lines.join(line_end)));
                }
            }
        }
        written
    }
}

/// A quoted string: one line, or an empty string and one line for each line of `text`.
fn quoted(text: &str) -> Vec<String> {
    let escaped = |line: &str| {
        let letters = line.chars().map(|letter| match letter {
            '\n' => "\\n".to_owned(),
            '\t' => "\\t".to_owned(),
            '\r' => "\\r".to_owned(),
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            letter if letter.is_ascii_control() => format!("\\{:03o}", u32::from(letter)),
            letter => letter.to_string(),
        });
        format!("\"{}\"", letters.collect::<String>())
    };
    let lines: Vec<String> = text.split_inclusive('\n').map(escaped).collect();
    match lines.len() {
        0 => vec!["\"\"".to_owned()],
        1 => lines,
        _ => std::iter::once("\"\"".to_owned()).chain(lines).collect(),
    }
}

/// A message and its translations.
#[derive(Debug, Default)]
struct PoEntry {
    /// Bytes of its line of flags.
    flags: Option<Range<usize>>,
    /// Byte where a line of flags would be inserted.
    flags_place: Option<usize>,
    strings: Vec<PoField>,
    is_translated: bool,
}

/// A keyword with its string.
#[derive(Debug)]
struct PoField {
    keyword: String,
    bytes: Range<usize>,
    text: String,
}

impl PoEntry {
    fn text(&self, keyword: &str) -> Option<&str> {
        self.strings.iter().find(|field| field.keyword == keyword).map(|field| field.text.as_str())
    }

    fn translations(&self) -> impl Iterator<Item = &PoField> {
        self.strings.iter().filter(|field| field.keyword.starts_with("msgstr"))
    }
}

#[derive(Default)]
struct Reader<'a> {
    source: &'a str,
    line_end: &'static str,
    entry: PoEntry,
    /// Bytes of the source that are in `parts`.
    done: usize,
    parts: Vec<PoPart>,
    texts: Vec<String>,
}

impl Reader<'_> {
    fn line(&mut self, number: usize, bytes: Range<usize>) -> Result<()> {
        let line = &self.source[bytes.clone()];
        let text = line.trim_start_matches('\u{feff}').trim();
        let start = bytes.end - line.trim_start_matches('\u{feff}').len();
        if text.is_empty() || text.starts_with("#~") {
            return Ok(());
        }
        if text.starts_with('#') {
            if self.entry.is_translated {
                self.end_entry();
            }
            if text.starts_with("#,") && self.entry.flags.is_none() {
                self.entry.flags = Some(start..bytes.end);
            } else if text.starts_with("#|") {
                self.entry.flags_place.get_or_insert(start);
            }
            return Ok(());
        }
        if text.starts_with('"') {
            let Some(last) = self.entry.strings.last_mut() else {
                return Err(invalid(number, "a string without a keyword"));
            };
            last.text.push_str(
                &unquoted(text).ok_or_else(|| invalid(number, "a string without a closing quote"))?,
            );
            last.bytes.end = bytes.end;
            return Ok(());
        }
        let (keyword, string) = text.split_at(text.find(['"', ' ', '\t']).unwrap_or(text.len()));
        let is_form = keyword.strip_prefix("msgstr[").and_then(|rest| rest.strip_suffix(']'));
        let is_form = is_form.is_some_and(|number| number.parse::<u8>().is_ok());
        if !is_form && !["msgctxt", "msgid", "msgid_plural", "msgstr", "domain"].contains(&keyword) {
            return Err(invalid(number, &format!("{:?}", shortened(keyword))));
        }
        let text = unquoted(string.trim()).ok_or_else(|| invalid(number, "no string after the keyword"))?;
        if ["msgctxt", "msgid", "domain"].contains(&keyword) && self.entry.is_translated {
            self.end_entry();
        }
        self.entry.flags_place.get_or_insert(start);
        self.entry.is_translated |= keyword.starts_with("msgstr");
        self.entry.strings.push(PoField { keyword: keyword.to_owned(), bytes: start..bytes.end, text });
        Ok(())
    }

    /// Appends the parts of the message that was read.
    fn end_entry(&mut self) {
        let entry = std::mem::take(&mut self.entry);
        let Some(id) = entry.text("msgid") else { return };
        if id.is_empty() && entry.text("msgctxt").is_none() {
            return self.header(&entry);
        }
        if id.trim().is_empty() {
            return;
        }
        let plural = entry.text("msgid_plural").unwrap_or(id);
        let flags = entry.flags.clone().map_or("", |flags| &self.source[flags]);
        let is_fuzzy = flags.trim_start_matches("#,").split(',').any(|flag| flag.trim() == "fuzzy");
        let n_forms = entry.translations().count();
        let waiting: Vec<&PoField> =
            entry.translations().filter(|field| is_fuzzy || field.text.is_empty()).collect();
        if waiting.is_empty() {
            return;
        }
        if !is_fuzzy {
            self.add_flag(&entry);
        }
        let mut made: Vec<(&str, usize)> = Vec::new();
        for field in waiting {
            let is_first = field.keyword == "msgstr" || (field.keyword == "msgstr[0]" && n_forms > 1);
            let whole = if is_first { id } else { plural };
            let core = whole.trim();
            if core.is_empty() {
                continue;
            }
            let text =
                made.iter().find(|(text, _)| *text == core).map_or(self.texts.len(), |(_, text)| *text);
            let (plain, accelerator) = match accelerator::taken(core) {
                Some((plain, accelerator)) => (plain, Some(accelerator)),
                None => (core.to_owned(), None),
            };
            if text == self.texts.len() {
                self.texts.push(plain);
                made.push((core, text));
            }
            let lead = whole.len() - whole.trim_start().len();
            let around = [whole[..lead].to_owned(), whole[lead + core.len()..].to_owned()];
            self.keep_up_to(field.bytes.start);
            self.done = field.bytes.end;
            let (keyword, line_end) = (field.keyword.clone(), self.line_end);
            self.parts.push(PoPart::Message { keyword, text, around, accelerator, line_end });
        }
    }

    fn header(&mut self, entry: &PoEntry) {
        let Some(field) = entry.translations().next() else { return };
        self.keep_up_to(field.bytes.start);
        self.done = field.bytes.end;
        let (text, bytes) = (field.text.clone(), self.source[field.bytes.clone()].to_owned());
        self.parts.push(PoPart::Header { text, bytes, line_end: self.line_end });
    }

    /// Adds the flag `fuzzy` to a message.
    fn add_flag(&mut self, entry: &PoEntry) {
        if let Some(flags) = &entry.flags {
            let others = self.source[flags.clone()].trim_start().trim_start_matches("#,").trim();
            let separator = if others.is_empty() { "" } else { ", " };
            let merged = format!("#, fuzzy{separator}{others}");
            self.keep_up_to(flags.start);
            self.done = flags.end;
            self.parts.push(PoPart::Verbatim(merged));
        } else if let Some(place) = entry.flags_place {
            self.keep_up_to(place);
            self.parts.push(PoPart::Verbatim(format!("#, fuzzy{}", self.line_end)));
        }
    }

    /// Appends the source up to a byte as it is.
    fn keep_up_to(&mut self, end: usize) {
        if self.done < end {
            self.parts.push(PoPart::Verbatim(self.source[self.done..end].to_owned()));
            self.done = end;
        }
    }
}

fn invalid(line: usize, found: &str) -> crate::Error {
    let message = format!("{found}, expected a PO keyword such as msgid or msgstr with its string");
    unreadable(line, &message, "check the file with msgfmt --check; is the format right?")
}

fn shortened(word: &str) -> String {
    word.chars().take(20).collect()
}

/// The text of a quoted string; none without a closing quote.
fn unquoted(text: &str) -> Option<String> {
    let mut unquoted = String::new();
    let mut rest = text.strip_prefix('"')?;
    loop {
        let at = rest.find(['"', '\\'])?;
        unquoted.push_str(&rest[..at]);
        if rest[at..].starts_with('"') {
            return (at + 1 == rest.len()).then_some(unquoted);
        }
        let escaped = &rest[at + 1..];
        let (letter, length) = escape(escaped)?;
        unquoted.push_str(&letter);
        rest = &escaped[length..];
    }
}

/// The character of an escape after a backslash, and the length of the escape.
fn escape(text: &str) -> Option<(String, usize)> {
    let first = text.chars().next()?;
    let simple = match first {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '"' | '\\' | '\'' | '?' => first,
        _ => {
            let (radix, skip, most) = if first == 'x' { (16, 1, 2) } else { (8, 0, 3) };
            let digits =
                text[skip..].bytes().take(most).take_while(|byte| char::from(*byte).is_digit(radix)).count();
            let number = u8::from_str_radix(&text[skip..skip + digits], radix).ok().filter(u8::is_ascii);
            return Some(match number {
                Some(number) => (char::from(number).to_string(), skip + digits),
                // Bytes of another encoding stay escaped.
                None => (format!("\\{first}"), first.len_utf8()),
            });
        }
    };
    Some((simple.to_string(), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# Header
msgid ""
msgstr ""
"Content-Type: text/plain\n"

#: a.c:1
#, c-format
msgid "%d file\n"
msgid_plural ""
"%d "
"files\n"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#. done
msgctxt "menu"
msgid "Open"
msgstr "Offen"

#, fuzzy
#| msgid "Shut"
msgid "Close \"it\""
msgstr "Zu"

msgid "one\n\ttwo"
msgstr ""

#~ msgid "old"
#~ msgstr "alt"
"#;

    #[test]
    fn empty_and_fuzzy_messages_are_translated() {
        let layout = Catalogue::read(FILE).unwrap();
        assert_eq!(layout.texts(), ["%d file", "%d files", "Close \"it\"", "one\n\ttwo"]);
        let translated = ["%d Datei", "%d Dateien", "\"Es\" \\ zu", "eins\n\tzwei"];
        let translated = translated.map(|text| TranslatedText { text, alignment: &[] });
        let expected = FILE
            .replace("#, c-format", "#, fuzzy, c-format")
            .replace("msgstr[0] \"\"", "msgstr[0] \"%d Datei\\n\"")
            .replace("msgstr[1] \"\"", "msgstr[1] \"%d Dateien\\n\"")
            .replace("msgstr[2] \"\"", "msgstr[2] \"%d Dateien\\n\"")
            .replace("\"Zu\"", r#""\"Es\" \\ zu""#)
            .replace("msgid \"one", "#, fuzzy\nmsgid \"one")
            .replace("two\"\nmsgstr \"\"", "two\"\nmsgstr \"\"\n\"eins\\n\"\n\"\\tzwei\"");
        assert_eq!(layout.write(&translated, None), expected);
        // Line ends are those of the file.
        let layout = Catalogue::read(&FILE.replace('\n', "\r\n")).unwrap();
        assert_eq!(layout.write(&translated, None), expected.replace('\n', "\r\n"));
    }

    #[test]
    fn the_header_states_the_language_and_accelerators_come_back() {
        let file =
            "msgid \"\"\nmsgstr \"\"\n\"Language: \\n\"\n\"X: y\\n\"\n\nmsgid \"_Open\"\nmsgstr \"\"\n";
        let layout = Catalogue::read(file).unwrap();
        assert_eq!(layout.texts(), ["Open"]);
        let written = layout.write(&[TranslatedText { text: "Datei Öffnen", alignment: &[] }], Some("de"));
        let expected = file.replace("Language: ", "Language: de").replace("msgid \"_", "#, fuzzy\nmsgid \"_");
        let expected = expected.replace("Open\"\nmsgstr \"\"", "Open\"\nmsgstr \"_Datei Öffnen\"");
        assert_eq!(written, expected);
        assert_eq!(
            Catalogue::read(&written).unwrap().write(&[], Some("de")).matches("Language: de").count(),
            1
        );
    }

    #[test]
    fn a_single_form_is_the_plural() {
        let file = "msgid \"a file\"\nmsgid_plural \"files\"\nmsgstr[0] \"\"";
        assert_eq!(Catalogue::read(file).unwrap().texts(), ["files"]);
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("msgid \"a\"\nmsgstr \"b", "line 2: no string after the keyword"),
            ("\"a\"", "line 1: a string without a keyword"),
            ("msgid \"a\"\n\"b", "line 2: a string without a closing quote"),
            ("\n<html>", "line 2: \"<html>\", expected a PO keyword"),
            ("msgstr[x] \"\"", "line 1: \"msgstr[x]\", expected"),
        ];
        for (file, message) in cases {
            let error = Catalogue::read(file).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
