//! Plain text: each line is a text, and a hard-wrapped paragraph is one text that is wrapped again.
//!
//! A paragraph, lines without a blank one between them, is hard-wrapped if the first word of each line would not have
//! fitted on the line before (give or take an eighth), and a line ends inside a sentence. The width is that of the longest
//! line of the file that another one follows. List items (`- `, `1. `) begin paragraphs of their own; indentation stays.

use super::TranslatedText;

/// Widths of wrapped text, in characters: shorter lines are verses or lists, longer ones are not wrapped.
const WIDTHS: std::ops::RangeInclusive<usize> = 45..=120;

/// A file of plain text.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    parts: Vec<TextPart>,
}

#[derive(Debug, Clone)]
enum TextPart {
    /// White space and line ends that stay.
    Verbatim(String),
    Line(String),
    Wrapped(Paragraph),
}

/// A hard-wrapped paragraph.
#[derive(Debug, Clone)]
struct Paragraph {
    /// Its text on one line.
    text: String,
    /// White space before the first line, and before each of the others.
    indents: [String; 2],
    width: usize,
    line_end: String,
}

/// A line of a file: indentation, text and line end.
#[derive(Debug, Clone, Copy)]
struct TextLine<'a> {
    indent: &'a str,
    text: &'a str,
    end: &'a str,
}

impl TextLine<'_> {
    /// Characters with the indentation.
    fn width(&self) -> usize {
        self.indent.chars().count() + self.text.chars().count()
    }

    fn is_item(&self) -> bool {
        let (marker, rest) = self.text.split_once(' ').unwrap_or((self.text, ""));
        let is_number = || {
            let number = marker.trim_end_matches(['.', ')']);
            number.len() < marker.len()
                && number.len() <= 3
                && number.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        !rest.is_empty() && (matches!(marker, "-" | "*" | "+" | "•" | "–" | ">" | "#") || is_number())
    }

    fn ends_sentence(&self) -> bool {
        let text = self.text.trim_end_matches(['"', '\'', '”', '’', '»', ')', ']']);
        text.ends_with(['.', '!', '?', ':', '…', '。', '！', '？'])
    }
}

impl TextFile {
    pub(crate) fn read(source: &str) -> Self {
        let lines: Vec<TextLine<'_>> = source.split_inclusive('\n').map(line).collect();
        let followed =
            lines.iter().zip(&lines[1.min(lines.len())..]).filter(|(_, next)| !next.text.is_empty());
        let width = followed.map(|(line, _)| line.width()).filter(|width| *width <= *WIDTHS.end()).max();
        let width = width.filter(|width| WIDTHS.contains(width));
        let is_break =
            |a: &TextLine<'_>, b: &TextLine<'_>| a.text.is_empty() || b.text.is_empty() || b.is_item();
        let mut parts = Vec::new();
        for block in lines.chunk_by(|a, b| !is_break(a, b)) {
            match width.filter(|width| is_wrapped(block, *width)) {
                Some(width) => parts.extend(wrapped(block, width)),
                None => block.iter().for_each(|line| parts.extend(single(line))),
            }
        }
        Self { parts }
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        let parts = self.parts.iter();
        let texts = parts.filter_map(|part| match part {
            TextPart::Verbatim(_) => None,
            TextPart::Line(text) | TextPart::Wrapped(Paragraph { text, .. }) => Some(text.as_str()),
        });
        texts.collect()
    }

    pub(crate) fn write(&self, translated: &[TranslatedText<'_>]) -> String {
        let mut translated = translated.iter();
        let mut written = String::new();
        for part in &self.parts {
            match part {
                TextPart::Verbatim(text) => written.push_str(text),
                TextPart::Line(text) => written.push_str(translated.next().map_or(text, |own| own.text)),
                TextPart::Wrapped(paragraph) => {
                    paragraph.write(translated.next().map_or(&paragraph.text, |own| own.text), &mut written);
                }
            }
        }
        written
    }
}

fn line(line: &str) -> TextLine<'_> {
    let body = line.trim_end_matches(['\n', '\r']);
    let text = body.trim();
    let indent = &body[..body.len() - body.trim_start().len()];
    TextLine { indent, text, end: &line[indent.len() + text.len()..] }
}

fn single(line: &TextLine<'_>) -> [TextPart; 3] {
    let [indent, end] = [line.indent, line.end].map(|white| TextPart::Verbatim(white.to_owned()));
    match line.text {
        "" => [indent, TextPart::Verbatim(String::new()), end],
        text => [indent, TextPart::Line(text.to_owned()), end],
    }
}

/// True if lines are one paragraph that was wrapped at a width.
fn is_wrapped(block: &[TextLine<'_>], width: usize) -> bool {
    let mut pairs = block.iter().zip(block.iter().skip(1));
    let is_full = |line: &TextLine<'_>, next: &TextLine<'_>| {
        let word = next.text.split_whitespace().next().unwrap_or_default();
        // Text that is wrapped by hand is ragged.
        line.width() <= width && line.width() + 1 + word.chars().count() > width - width / 8
    };
    block.len() > 1
        && block[block.len() - 1].width() <= width
        && pairs.clone().all(|(line, next)| is_full(line, next))
        && pairs.any(|(line, _)| !line.ends_sentence())
        && block.iter().skip(2).all(|line| line.indent == block[1].indent)
}

fn wrapped(block: &[TextLine<'_>], width: usize) -> [TextPart; 2] {
    let text: Vec<&str> = block.iter().map(|line| line.text).collect();
    let (first, last) = (block[0], block[block.len() - 1]);
    let paragraph = Paragraph {
        text: text.join(" "),
        indents: [first.indent, block[1].indent].map(str::to_owned),
        width,
        line_end: first.end.trim_start_matches([' ', '\t']).to_owned(),
    };
    [TextPart::Wrapped(paragraph), TextPart::Verbatim(last.end.to_owned())]
}

impl Paragraph {
    /// Appends a text, wrapped. Its words are those between spaces, so that other white space in it stays.
    fn write(&self, text: &str, written: &mut String) {
        written.push_str(&self.indents[0]);
        let mut used = self.indents[0].chars().count();
        for (index, word) in text.split(' ').enumerate() {
            let length = word.chars().count();
            if index > 0 && used + 1 + length > self.width {
                written.push_str(&self.line_end);
                written.push_str(&self.indents[1]);
                used = self.indents[1].chars().count();
            } else if index > 0 {
                written.push(' ');
                used += 1;
            }
            written.push_str(word);
            used += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAPPED: &str = "A title\n\n  The first paragraph of this text was wrapped by hand, as\n\
        letters and licences are. It has two sentences, and one of\nthem continues on the next line.\n\n\
        - The item of a list may be as long as any other line and\n  is wrapped with its indentation.\n- Short\n\
        One line.\nAnother.\n";

    fn upper(file: &str) -> String {
        let layout = TextFile::read(file);
        let upper: Vec<String> = layout.texts().iter().map(|text| text.to_uppercase()).collect();
        let upper: Vec<_> = upper.iter().map(|text| TranslatedText { text, alignment: &[] }).collect();
        layout.write(&upper)
    }

    #[test]
    fn a_wrapped_paragraph_is_one_text() {
        let expected = [
            "A title",
            "The first paragraph of this text was wrapped by hand, as letters and licences are. It has two sentences, \
             and one of them continues on the next line.",
            "- The item of a list may be as long as any other line and is wrapped with its indentation.",
            "- Short",
            "One line.",
            "Another.",
        ];
        assert_eq!(TextFile::read(WRAPPED).texts(), expected);
        assert_eq!(upper(WRAPPED), WRAPPED.to_uppercase());
        let windows = WRAPPED.replace('\n', "\r\n");
        assert_eq!(TextFile::read(&windows).texts(), expected);
        assert_eq!(upper(&windows), windows.to_uppercase());
    }

    #[test]
    fn a_longer_translation_is_wrapped_at_the_same_width() {
        let file = "The first paragraph of this text was wrapped by hand,\nas letters are.\n";
        let layout = TextFile::read(file);
        let text = "Der erste Absatz dieses Textes wurde von Hand umbrochen, wie es bei Briefen üblich ist, und ist länger.";
        let written = layout.write(&[TranslatedText { text, alignment: &[] }]);
        let expected = "Der erste Absatz dieses Textes wurde von Hand\numbrochen, wie es bei Briefen üblich ist, und ist\n\
            länger.\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn other_lines_are_texts_of_their_own() {
        let poem =
            "Roses are red,\nviolets are blue\nand sugar is sweet, as everybody here knows\nand so are you\n";
        let list = "The first sentence of a list that has one of them on each line.\nA short one.\nAnd a third sentence.\n";
        let words = "one\ntwo\n\nthree";
        for file in [poem, list, words, "", "\n", " \r\n\r\n", "one", "\u{a0}x\n"] {
            assert_eq!(
                TextFile::read(file).texts().len(),
                file.lines().filter(|line| !line.trim().is_empty()).count()
            );
            assert_eq!(TextFile::read(file).write(&[]), file);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_file_without_translations_is_itself(file in "([a-z]{1,9}[ ,.]{1,2}){0,60}|([ a-z.\t-]{0,60}\r?\n){0,9}") {
            let written = TextFile::read(&file).write(&[]);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            proptest::prop_assert_eq!(words(&written), words(&file));
            proptest::prop_assert!(written.lines().count() <= file.lines().count());
        }
    }
}
