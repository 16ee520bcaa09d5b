//! Document formats: markup that stays, and the texts to translate in it.
//!
//! ```text
//! document → Layout::read → texts → (a translator) → Layout::write → document
//! ```
//!
//! A [`Layout`] knows no translator. Texts are plain: entities are decoded and tags are removed. Tags inside a text are
//! restored through the word alignment of its translation; every tag comes back exactly once.
//!
//! ```
//! use polyhead_translate::formats::{Format, Layout, TranslatedText};
//! let layout = Layout::read(Format::Html, "<p>The <b>cat</b>.</p>")?;
//! assert_eq!(layout.texts(), ["The cat."]);
//! let translated = TranslatedText { text: "Die Katze.", alignment: &[(0, 0), (1, 1)] };
//! assert_eq!(layout.write(&[translated]), "<p>Die <b>Katze</b>.</p>");
//! # Ok::<(), polyhead_translate::Error>(())
//! ```

mod html;
mod inline;
mod po;
mod srt;
mod text;

use std::path::Path;

use self::html::Page;
use self::inline::TaggedText;
use self::po::Catalogue;
use self::srt::Subtitles;
use self::text::TextFile;
use crate::{Error, Result};

/// A document format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain text.
    #[default]
    Text,
    /// A web page or a part of one.
    Html,
    /// Subtitles.
    Srt,
    /// Messages of a program (gettext).
    Po,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Text, Self::Html, Self::Srt, Self::Po];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Html => "html",
            Self::Srt => "srt",
            Self::Po => "po",
        }
    }

    /// The format with this name: `text`, `html`, `srt` or `po`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// The format of a file by its extension: `.txt`, `.html`, `.htm`, `.xhtml`, `.srt` or `.po`.
    pub fn from_extension(path: impl AsRef<Path>) -> Option<Self> {
        let extension = path.as_ref().extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "txt" => Some(Self::Text),
            "html" | "htm" | "xhtml" => Some(Self::Html),
            "srt" => Some(Self::Srt),
            // A template (.pot) is a catalogue without translations.
            "po" | "pot" => Some(Self::Po),
            _ => None,
        }
    }
}

/// The translation of one text.
#[derive(Debug, Clone, Copy)]
pub struct TranslatedText<'a> {
    /// The translation.
    pub text: &'a str,
    /// Pairs of a source word and a target word, counted from 0; words are runs without white space. Where pairs are
    /// missing, tags are placed next to words that have one.
    pub alignment: &'a [(usize, usize)],
}

/// A document: markup that stays, and texts to translate.
#[derive(Debug, Clone)]
pub struct Layout {
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Text(TextFile),
    Html(Page),
    Srt(Subtitles),
    Po(Catalogue),
}

impl Layout {
    /// Reads a document. Any text is valid plain text and valid HTML.
    ///
    /// # Errors
    /// If the text is not a catalogue of messages, or has no subtitles; the line is named.
    pub fn read(format: Format, text: &str) -> Result<Self> {
        let body = match format {
            Format::Text => Body::Text(TextFile::read(text)),
            Format::Html => Body::Html(Page::read(text)),
            Format::Srt => Body::Srt(Subtitles::read(text)?),
            Format::Po => Body::Po(Catalogue::read(text)?),
        };
        Ok(Self { body })
    }

    /// The texts to translate, in order.
    pub fn texts(&self) -> Vec<&str> {
        match &self.body {
            Body::Text(text) => text.texts(),
            Body::Html(page) => page.texts().map(TaggedText::text).chain(page.attribute_texts()).collect(),
            Body::Srt(subtitles) => subtitles.texts(),
            Body::Po(catalogue) => catalogue.texts(),
        }
    }

    /// True for each text with tags inside, which needs a word alignment.
    pub fn tagged(&self) -> Vec<bool> {
        match &self.body {
            Body::Html(page) => {
                let attributes = page.attribute_texts().map(|_| false);
                page.texts().map(TaggedText::has_tags).chain(attributes).collect()
            }
            Body::Srt(subtitles) => subtitles.tagged(),
            Body::Text(_) | Body::Po(_) => vec![false; self.texts().len()],
        }
    }

    /// True if any text has tags inside.
    pub fn needs_alignment(&self) -> bool {
        self.tagged().contains(&true)
    }

    /// The document with translations, one per text in order. A text without one stays as it is.
    pub fn write(&self, translated: &[TranslatedText<'_>]) -> String {
        self.write_in(translated, None)
    }

    /// The same with the code of the target language, such as `de`: a page states it in `<html lang>`, a catalogue of
    /// messages in its header.
    pub fn write_in(&self, translated: &[TranslatedText<'_>], language: Option<&str>) -> String {
        match &self.body {
            Body::Text(text) => text.write(translated),
            Body::Html(page) => page.write(translated, language),
            Body::Srt(subtitles) => subtitles.write(translated),
            Body::Po(catalogue) => catalogue.write(translated, language),
        }
    }
}

/// The error of a document that cannot be read at this line.
fn unreadable(line: usize, message: &str, hint: &str) -> Error {
    Error::request(format!("line {line}: {message}"), hint)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn lines(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
        let part = prop::sample::select(parts);
        prop_oneof![4 => prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat()), 1 => any::<String>()]
    }

    fn subtitles() -> impl Strategy<Value = String> {
        lines(&[
            "1\n",
            "\n00:00:01,000 --> 00:00:02,000\n",
            "\n00:00:01,000 --> 00:00:02,000\n",
            "Hello there",
            "- Yes.",
            "\n",
            "\n",
            "\r\n",
            "<i>",
            "</i>",
            "<b>a</b>",
            "{\\an8}",
            "<x>",
            "<",
            " ",
            "one, two",
            "\u{a0}",
            "\u{feff}",
            "♪",
        ])
    }

    fn messages() -> impl Strategy<Value = String> {
        lines(&[
            "msgid \"a\\n\"\n",
            "msgid \"\"\n",
            "\"more\"\n",
            "msgstr \"\"\n",
            "msgstr \"b\"\n",
            "msgid_plural \"as\"\n",
            "msgstr[0] \"\"\n",
            "msgstr[1] \"\"\n",
            "#, fuzzy\n",
            "#, c-format\r\n",
            "#: x\n",
            "#~ msgid \"o\"\n",
            "\n",
            "#| msgid \"q\"\n",
            "msgctxt \"c\"\n",
            "\"\\x\\303\\\"\"\n",
        ])
    }

    proptest! {
        #[test]
        fn subtitles_keep_their_times_and_tags(file in subtitles(), text in "[a-z<]{1,9}( [a-z]{1,9}){0,9}") {
            let Ok(layout) = Layout::read(Format::Srt, &file) else { return Ok(()) };
            let letters = |file: &str| file.split_whitespace().collect::<String>();
            let itself = layout.write(&[]);
            prop_assert_eq!(letters(&itself), letters(&file));
            prop_assert!(itself.lines().count() <= file.lines().count());
            let translated = vec![TranslatedText { text: &text, alignment: &[(0, 1)] }; layout.texts().len()];
            let written = layout.write(&translated);
            for preserved in ["00:00:01,000 --> 00:00:02,000", "<i>", "</i>", "<b>", "</b>", "{\\an8}"] {
                prop_assert_eq!(written.matches(preserved).count(), file.matches(preserved).count(), "{}", preserved);
            }
        }

        #[test]
        fn translated_messages_are_read_again(file in messages(), text in "[a-z\"\\\\]{1,9}(\n[a-z]{1,9}){0,2}") {
            let Ok(layout) = Layout::read(Format::Po, &file) else { return Ok(()) };
            let written = layout.write(&vec![TranslatedText { text: &text, alignment: &[] }; layout.texts().len()]);
            // Fuzzy as they are now, the same messages wait again.
            let again = Layout::read(Format::Po, &written).unwrap();
            prop_assert!(again.texts().len() >= layout.texts().len(), "{}", written);
        }
    }

    #[test]
    fn time_is_linear() {
        let time = "00:00:01,000 --> 00:00:02,000\n";
        let of_srt = [
            "<i>",
            "{",
            "{\\",
            "a\n",
            "<i>a</i> ",
            "- a\n",
            "a. ",
            "1\n00:00:01,000 --> 00:00:02,000\na <b>b</b>\n\n",
        ];
        let of_po = [
            "msgid \"a\"\n",
            "\"a\"\n",
            "#, a\n",
            "msgid_plural \"a\"\n#\n",
            "msgid \"a\"\nmsgstr \"\"\n",
            "msgstr[1] \"\"\n",
        ];
        let of_srt =
            of_srt.map(|part| (Format::Srt, format!("{time}a {}", part.repeat(1_000_000 / part.len()))));
        let of_po =
            of_po.map(|part| (Format::Po, format!("msgid \"b\"\n{}", part.repeat(1_000_000 / part.len()))));
        for (format, file) in of_srt.into_iter().chain(of_po) {
            let start = Instant::now();
            let layout = Layout::read(format, &file).unwrap();
            let written = layout.write(&[TranslatedText { text: "a b", alignment: &[] }]);
            assert!(!written.is_empty());
            assert!(start.elapsed() < Duration::from_secs(5), "{}: {:?}", &file[..60], start.elapsed());
        }
    }

    #[test]
    fn formats_have_names_and_endings() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
        assert_eq!(Format::from_name("docx"), None);
        let endings = ["a/b.TXT", "x.htm", "x.html", "x.srt", "x.po", "html", "x.c"];
        let found = endings.map(|name| Format::from_extension(name).map(Format::name));
        let expected = [Some("text"), Some("html"), Some("html"), Some("srt"), Some("po"), None, None];
        assert_eq!(found, expected);
    }
}
