//! SRT: numbered subtitles with times. Numbers, times, blank lines and line ends stay.
//!
//! Lines of a subtitle that continue a sentence are one text, which comes back in at most as many lines, of about the same
//! length. A line after the end of a sentence, and one that begins with a dash, is a text of its own. A sentence that
//! continues in the next subtitle, which begins in lower case or after a comma, is one text too; each subtitle gets a part
//! of its translation, in proportion to its length. Tags such as `<i>`
//! and `{\an8}` are restored as those of a page are; references such as `&amp;` are not decoded.

use std::ops::Range;

use super::inline::{Builder, Output, Tag, TaggedText};
use super::{TranslatedText, unreadable};
use crate::Result;

/// Elements of subtitles; anything else in angle brackets is text.
const ELEMENTS: [&str; 8] = ["b", "c", "font", "i", "s", "u", "v", "ruby"];
/// Bytes of the longest tag.
const LONGEST_TAG: usize = 200;
const DASHES: [char; 4] = ['-', '‐', '–', '—'];
/// Most subtitles that one sentence may have.
const MAX_SUBTITLES: usize = 5;

/// A file of subtitles.
#[derive(Debug, Clone)]
pub(crate) struct Subtitles {
    source: String,
    parts: Vec<SubtitlePart>,
    texts: Vec<SubtitleText>,
}

/// A text to translate.
#[derive(Debug, Clone)]
struct SubtitleText {
    text: String,
    /// Number of subtitles it is in.
    n_parts: usize,
    has_tags: bool,
}

#[derive(Debug, Clone)]
enum SubtitlePart {
    /// Bytes that stay.
    Verbatim(Range<usize>),
    Lines(Box<Lines>),
}

/// A text of one or more lines.
#[derive(Debug, Clone)]
struct Lines {
    text: TaggedText,
    n_lines: usize,
    /// Visible characters of the longest line.
    width: usize,
    line_end: &'static str,
}

impl Subtitles {
    pub(crate) fn read(source: &str) -> Result<Self> {
        let lines = lines(source);
        let is_timing: Vec<bool> = lines.iter().map(|line| is_timing(&source[line.text.clone()])).collect();
        let is_blank =
            |line: &SubtitleLine| source[line.text.clone()].trim_matches(['\u{feff}', ' ', '\t']).is_empty();
        let Some(first) = is_timing.iter().position(|is_timing| *is_timing) else {
            return match lines.iter().position(|line| !is_blank(line)) {
                None => Ok(Self {
                    source: source.to_owned(),
                    parts: vec![SubtitlePart::Verbatim(0..source.len())],
                    texts: Vec::new(),
                }),
                Some(line) => Err(unreadable(
                    line + 1,
                    "no times, expected a line such as 00:00:01,000 --> 00:00:02,500",
                    "a subtitle has a number, a line of times and its text; is the format right?",
                )),
            };
        };
        let mut reader = Reader { source, lines: &lines, parts: Vec::new(), group: 0..0 };
        for (index, line) in lines.iter().enumerate() {
            let text = source[line.text.clone()].trim();
            let is_number = || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let is_next_timing = || is_timing.get(index + 1).is_some_and(|is_timing| *is_timing);
            let is_head = is_timing[index] || (is_number() && is_next_timing());
            if index < first || is_head || is_blank(line) {
                reader.end_group();
            } else {
                if begins_speech(text) || reader.ends_sentence() {
                    reader.end_group();
                }
                reader.add(index);
            }
        }
        reader.end_group();
        reader.keep_up_to(source.len());
        let texts = sentences(source, &reader.parts);
        Ok(Self { source: source.to_owned(), parts: reader.parts, texts })
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(|text| text.text.as_str()).collect()
    }

    /// True for each text with tags inside.
    pub(crate) fn tagged(&self) -> Vec<bool> {
        self.texts.iter().map(|text| text.has_tags).collect()
    }

    pub(crate) fn write(&self, translated: &[TranslatedText<'_>]) -> String {
        let mut own = self.parts_of_texts(translated).into_iter();
        let mut written = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                SubtitlePart::Verbatim(range) => written.push_str(&self.source[range.clone()]),
                SubtitlePart::Lines(lines) => {
                    let output = lines.text.write(own.next().flatten().as_ref());
                    written.push_str(&lines.broken(&self.source, &output));
                }
            }
        }
        written
    }

    /// The translation of each part.
    fn parts_of_texts<'a>(&self, translated: &[TranslatedText<'a>]) -> Vec<Option<TranslatedText<'a>>> {
        let mut lengths = self.parts.iter().filter_map(|part| match part {
            SubtitlePart::Verbatim(_) => None,
            SubtitlePart::Lines(lines) => Some(lines.text.text().chars().count()),
        });
        let mut own = Vec::new();
        for (index, text) in self.texts.iter().enumerate() {
            let lengths: Vec<usize> = lengths.by_ref().take(text.n_parts).collect();
            match translated.get(index) {
                Some(translated) if text.n_parts > 1 => {
                    let parts = distributed(translated.text, &lengths).into_iter();
                    own.extend(parts.map(|text| Some(TranslatedText { text, alignment: &[] })));
                }
                found => own.extend(lengths.iter().map(|_| found.copied())),
            }
        }
        own
    }
}

/// The texts of parts: those of consecutive subtitles that one sentence continues through are joined.
fn sentences(source: &str, parts: &[SubtitlePart]) -> Vec<SubtitleText> {
    let mut texts: Vec<SubtitleText> = Vec::new();
    let mut between = 0..0;
    for part in parts {
        let lines = match part {
            SubtitlePart::Verbatim(range) => {
                between = range.clone();
                continue;
            }
            SubtitlePart::Lines(lines) => lines,
        };
        let (text, has_tags) = (lines.text.text(), lines.text.has_tags());
        // A dash that begins a speech stays in the bytes between.
        let is_speech = source[between.clone()].trim_end().ends_with(DASHES);
        match texts.last_mut() {
            Some(last)
                if last.n_parts < MAX_SUBTITLES
                    && !(last.has_tags || has_tags || is_speech)
                    && continues(&last.text, text) =>
            {
                last.text = format!("{} {text}", last.text);
                last.n_parts += 1;
            }
            _ => texts.push(SubtitleText { text: text.to_owned(), n_parts: 1, has_tags }),
        }
    }
    texts
}

/// True if a sentence continues in the next text.
fn continues(text: &str, next: &str) -> bool {
    let is_open = text.ends_with(|last: char| last.is_alphanumeric() || last == ',');
    is_open && (text.ends_with(',') || next.starts_with(char::is_lowercase))
}

/// A text in parts at its spaces, in proportion to `lengths`; after a comma rather than beside it.
fn distributed<'a>(text: &'a str, lengths: &[usize]) -> Vec<&'a str> {
    let total: usize = lengths.iter().sum::<usize>().max(1);
    let mut parts = Vec::with_capacity(lengths.len());
    let (mut start, mut wanted) = (0, 0);
    for length in &lengths[..lengths.len().saturating_sub(1)] {
        wanted += length;
        // The byte at the same proportion of the translation.
        let target = text.len() * wanted / total;
        let spaces = text[start..].match_indices(' ').map(|(at, _)| start + at);
        let cost = |at: &usize| {
            let is_comma = text[..*at].ends_with([',', ';', ':', '.', '!', '?']);
            at.abs_diff(target) * 2 + if is_comma { 0 } else { 12 }
        };
        let end = spaces.min_by_key(cost).unwrap_or(text.len());
        parts.push(&text[start..end]);
        start = (end + 1).min(text.len());
    }
    parts.push(&text[start..]);
    parts
}

/// A line of a file.
struct SubtitleLine {
    /// Its bytes, without its end.
    text: Range<usize>,
    end: &'static str,
}

fn lines(source: &str) -> Vec<SubtitleLine> {
    let mut start = 0;
    let line = |line: &str| {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let (text, end) = match text.strip_suffix('\r') {
            Some(text) => (text, "\r\n"),
            None => (text, "\n"),
        };
        let range = start..start + text.len();
        start += line.len();
        SubtitleLine { text: range, end }
    };
    source.split_inclusive('\n').map(line).collect()
}

struct Reader<'a> {
    source: &'a str,
    lines: &'a [SubtitleLine],
    parts: Vec<SubtitlePart>,
    /// The lines that are one text.
    group: Range<usize>,
}

impl Reader<'_> {
    fn add(&mut self, index: usize) {
        self.group = if self.group.is_empty() { index..index + 1 } else { self.group.start..index + 1 };
    }

    /// True if the last lines read end a sentence.
    fn ends_sentence(&self) -> bool {
        let Some(last) = self.group.clone().next_back() else { return false };
        let mut text = &self.source[self.lines[last].text.clone()];
        while let Some(shorter) = without_last_tag(text.trim_end()) {
            text = shorter;
        }
        let closing =
            |letter: char| matches!(letter, '"' | '\'' | '”' | '’' | '»' | '«' | ')' | ']') || letter == ' ';
        text.trim_end_matches(closing).ends_with(['.', '!', '?', '…', '。', '！', '？', '♪'])
    }

    fn end_group(&mut self) {
        let group = std::mem::take(&mut self.group);
        let (Some(first), Some(last)) = (group.clone().next(), group.clone().next_back()) else { return };
        let first_line = &self.source[self.lines[first].text.clone()];
        // The dash and the white space around it stay.
        let spoken = first_line.trim_start().trim_start_matches(DASHES).trim_start();
        let start = self.lines[first].text.end - spoken.len();
        let bytes = start..self.lines[last].text.end;
        let mut builder = Builder::default();
        let mut at = start;
        for (range, tag) in tags(&self.source[bytes.clone()]) {
            let range = start + range.start..start + range.end;
            builder.text(&self.source[at..range.start]);
            at = range.end;
            builder.tag(tag, range);
        }
        builder.text(&self.source[at..bytes.end]);
        let Some(text) = builder.finish(self.source, bytes.clone()) else { return };
        let widths = group.clone().map(|line| width(&self.source[self.lines[line].text.clone()]));
        let width = widths.max().unwrap_or(0);
        self.keep_up_to(bytes.start);
        let n_lines = 1 + self.source[text.bytes()].matches('\n').count();
        let line_end = self.lines[first].end;
        self.parts.push(SubtitlePart::Lines(Box::new(Lines { text, n_lines, width, line_end })));
        self.parts.push(SubtitlePart::Verbatim(bytes.end..bytes.end));
    }

    /// Appends the source up to a byte as it is.
    fn keep_up_to(&mut self, end: usize) {
        match self.parts.last_mut() {
            Some(SubtitlePart::Verbatim(last)) => last.end = end,
            _ => self.parts.push(SubtitlePart::Verbatim(0..end)),
        }
    }
}

impl Lines {
    /// The output broken into lines.
    fn broken(&self, source: &str, output: &[Output<'_>]) -> String {
        // Words with their tags, and their visible characters.
        let mut words: Vec<(String, usize)> = vec![Default::default()];
        for part in output {
            match part {
                Output::Markup(markup) => {
                    if let Some((word, _)) = words.last_mut() {
                        word.push_str(&source[markup.clone()]);
                    }
                }
                Output::Text(text) => {
                    for (index, part) in text.split([' ', '\n']).enumerate() {
                        if index > 0 {
                            words.push(Default::default());
                        }
                        if let Some((word, width)) = words.last_mut() {
                            word.push_str(part);
                            *width += part.chars().count();
                        }
                    }
                }
            }
        }
        let n_lines = n_lines(&words, self.width).min(self.n_lines);
        // Bisection for the narrowest lines that are not too many.
        let (mut too_narrow, mut wide) = (0, words.iter().map(|word| word.1 + 1).sum::<usize>());
        while too_narrow + 1 < wide {
            let middle = usize::midpoint(too_narrow, wide);
            if n_lines_fit(&words, middle, n_lines) { wide = middle } else { too_narrow = middle }
        }
        let mut text = String::new();
        let mut used = 0;
        for (index, (word, width)) in words.iter().enumerate() {
            if index > 0 {
                let is_full = used + 1 + width > wide;
                text.push_str(if is_full { self.line_end } else { " " });
                used = if is_full { 0 } else { used + 1 };
            }
            text.push_str(word);
            used += width;
        }
        text
    }
}

fn n_lines_fit(words: &[(String, usize)], width: usize, n_lines: usize) -> bool {
    self::n_lines(words, width) <= n_lines
}

/// The number of lines of at most `width` characters; only a single word may be longer.
fn n_lines(words: &[(String, usize)], width: usize) -> usize {
    let (mut lines, mut used) = (1, 0);
    for (index, word) in words.iter().enumerate() {
        if index > 0 && used + 1 + word.1 > width {
            (lines, used) = (lines + 1, word.1);
        } else {
            used += word.1 + usize::from(index > 0);
        }
    }
    lines
}

fn is_timing(line: &str) -> bool {
    let is_time = |time: &str| {
        time.starts_with(|first: char| first.is_ascii_digit())
            && time.contains(':')
            && time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b',' | b'.'))
    };
    line.split_once("-->").is_some_and(|(from, to)| {
        is_time(from.trim_start_matches('\u{feff}').trim())
            && to.split_whitespace().next().is_some_and(is_time)
    })
}

/// True if a line begins with a dash, perhaps after tags.
fn begins_speech(line: &str) -> bool {
    let mut text = line.trim_start();
    while let Some((end, _)) = tag(text) {
        text = text[end..].trim_start();
    }
    text.starts_with(DASHES)
}

/// The number of visible characters.
fn width(line: &str) -> usize {
    let hidden: usize = tags(line).iter().map(|(tag, _)| line[tag.clone()].chars().count()).sum();
    line.chars().count() - hidden
}

/// The tags of a text with their bytes.
fn tags(text: &str) -> Vec<(Range<usize>, Tag)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['<', '{']) {
        at += offset;
        match tag(&text[at..]) {
            Some((length, tag)) => {
                found.push((at..at + length, tag));
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// The tag that a text begins with, and its length in bytes.
fn tag(text: &str) -> Option<(usize, Tag)> {
    let end = |closing: char, opening: char| {
        let found =
            text.char_indices().skip(1).take(LONGEST_TAG).find(|(_, c)| *c == closing || *c == opening)?;
        (found.1 == closing).then_some(found.0 + 1)
    };
    if text.starts_with("{\\") {
        return Some((end('}', '{')?, Tag::Single));
    }
    let inside = &text.strip_prefix('<')?[..end('>', '<')? - 2];
    let name = inside.trim_start_matches('/');
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
    let name = name.to_ascii_lowercase();
    let tag = match inside.starts_with('/') {
        _ if !ELEMENTS.contains(&name.as_str()) => return None,
        true => Tag::Close(name),
        false => Tag::Open(name),
    };
    Some((inside.len() + 2, tag))
}

/// A text without its last tag; none if it does not end with a tag.
fn without_last_tag(text: &str) -> Option<&str> {
    let start = text.rfind(['<', '{'])?;
    let (length, _) = tag(&text[start..])?;
    (start + length == text.len()).then(|| &text[..start])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\u{feff}1\r\n00:00:01,000 --> 00:00:02,500 X1:1\r\n<i>I have never seen\r\nsuch a cat.</i>\r\n\
        \r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n- Who is there?\r\n- Me & you.\r\n\r\n\
        3\r\n00:00:05,000 --> 00:00:06,000\r\n♪ ♪\r\nOne.\r\nTwo, {\\an8}three";

    fn written(translated: &[&str]) -> String {
        let layout = Subtitles::read(FILE).unwrap();
        let translated: Vec<_> =
            translated.iter().map(|text| TranslatedText { text, alignment: &[] }).collect();
        layout.write(&translated)
    }

    #[test]
    fn sentences_and_speeches_are_texts() {
        let layout = Subtitles::read(FILE).unwrap();
        let texts = layout.texts();
        let expected = ["I have never seen such a cat.", "Who is there?", "Me & you.", "One.", "Two, three"];
        assert_eq!(texts, expected);
        assert_eq!(layout.write(&[]), FILE.replace("seen\r\nsuch", "\r\nseen such").replace(" \r", "\r"));
    }

    #[test]
    fn lines_come_back_balanced() {
        let written =
            written(&["Ich habe eine solche Katze noch nie gesehen.", "Wer da?", "Ich < du.", "Eins."]);
        let expected = FILE
            .replace("I have never seen\r\nsuch a cat.", "Ich habe eine solche\r\nKatze noch nie gesehen.")
            .replace("Who is there?", "Wer da?")
            .replace("Me & you.", "Ich < du.")
            .replace("One.", "Eins.");
        assert_eq!(written, expected);
        assert!(self::written(&["Nie!"]).contains("<i>Nie!</i>\r\n\r\n2"));
    }

    #[test]
    fn a_sentence_may_continue_in_the_next_subtitle() {
        let file = "1\n00:00:01,000 --> 00:00:02,000\n<i>I have never, as long</i>\n\n\
            2\n00:00:02,000 --> 00:00:03,000\nas I live, seen\nsuch a cat,\n\n\
            3\n00:00:03,000 --> 00:00:04,000\nTom.\n\n\
            4\n00:00:04,000 --> 00:00:05,000\nLos Angeles\n\n\
            5\n00:00:05,000 --> 00:00:06,000\n- what?\n";
        let layout = Subtitles::read(file).unwrap();
        let sentence = "I have never, as long as I live, seen such a cat, Tom.";
        assert_eq!(layout.texts(), [sentence, "Los Angeles", "what?"]);
        let new = ["Ich habe nie, solange ich lebe, so eine Katze gesehen, Tom.", "Los Angeles", "was?"];
        let new = new.map(|text| TranslatedText { text, alignment: &[] });
        let expected = file
            .replace("I have never, as long", "Ich habe nie, solange")
            .replace("as I live, seen\nsuch a cat,", "ich lebe, so eine\nKatze gesehen,")
            .replace("what?", "was?");
        assert_eq!(layout.write(&new), expected);
        assert_eq!(layout.write(&[]), file);
        // A short translation leaves subtitles empty rather than losing words.
        let short = layout.write(&[TranslatedText { text: "Nie!", alignment: &[] }]);
        assert!(short.contains("<i>Nie!</i>\n\n2") && !short.contains("Tom"), "{short}");
    }

    #[test]
    fn a_file_without_subtitles_is_refused_with_its_line() {
        let error = Subtitles::read("\n\nHello\n").unwrap_err();
        assert!(error.to_string().starts_with("line 3: no times, expected a line such as"), "{error}");
        assert_eq!(Subtitles::read(" \n").unwrap().write(&[]), " \n");
    }
}
