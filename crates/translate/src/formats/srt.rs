//! SRT: numbered subtitles with times. Numbers, times, blank lines and line ends stay.
//!
//! Lines of a subtitle that go on one sentence are one text, which comes back in as many lines at most, of about the same
//! length. A line behind the end of a sentence, and one that begins with a dash, is a text of its own. Tags such as `<i>`
//! and `{\an8}` are put back as those of a page are; references such as `&amp;` are not read.

use std::ops::Range;

use super::inline::{Builder, Chunk, Mark, Passage};
use super::{Filled, unreadable};
use crate::Result;

/// Elements of subtitles; other things in angle brackets are text.
const ELEMENTS: [&str; 8] = ["b", "c", "font", "i", "s", "u", "v", "ruby"];
/// Bytes of the longest tag.
const LONGEST_TAG: usize = 200;
const DASHES: [char; 4] = ['-', '‐', '–', '—'];

/// A file of subtitles.
#[derive(Debug, Clone)]
pub(crate) struct Subtitles {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    /// Bytes that stay.
    Kept(Range<usize>),
    Lines(Box<Lines>),
}

/// A text of one or more lines.
#[derive(Debug, Clone)]
struct Lines {
    passage: Passage,
    n_lines: usize,
    /// Letters of the longest line.
    width: usize,
    line_end: &'static str,
}

impl Subtitles {
    pub(crate) fn read(source: &str) -> Result<Self> {
        let lines = lines(source);
        let is_timing: Vec<bool> = lines.iter().map(|line| is_timing(&source[line.text.clone()])).collect();
        let is_blank =
            |line: &Line| source[line.text.clone()].trim_matches(['\u{feff}', ' ', '\t']).is_empty();
        let Some(first) = is_timing.iter().position(|is_timing| *is_timing) else {
            return match lines.iter().position(|line| !is_blank(line)) {
                None => Ok(Self { source: source.to_owned(), pieces: vec![Piece::Kept(0..source.len())] }),
                Some(line) => Err(unreadable(
                    line + 1,
                    "no times, expected some such as 00:00:01,000 --> 00:00:02,500",
                    "subtitles have a number, a line of times and their text; is the format right?",
                )),
            };
        };
        let mut reader = Reader { source, lines: &lines, pieces: Vec::new(), group: 0..0 };
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
        Ok(Self { source: source.to_owned(), pieces: reader.pieces })
    }

    pub(crate) fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Kept(_) => None,
            Piece::Lines(lines) => Some(&lines.passage),
        })
    }

    pub(crate) fn write(&self, translated: &[Filled<'_>]) -> String {
        let mut written = String::with_capacity(self.source.len());
        let mut translated = translated.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Kept(range) => written.push_str(&self.source[range.clone()]),
                Piece::Lines(lines) => {
                    let chunks = lines.passage.write(&self.source, translated.next());
                    written.push_str(&lines.broken(&chunks));
                }
            }
        }
        written
    }
}

/// A line of a file.
struct Line {
    /// Its bytes, without its end.
    text: Range<usize>,
    end: &'static str,
}

fn lines(source: &str) -> Vec<Line> {
    let mut start = 0;
    let line = |line: &str| {
        let text = line.strip_suffix('\n').unwrap_or(line);
        let (text, end) = match text.strip_suffix('\r') {
            Some(text) => (text, "\r\n"),
            None => (text, "\n"),
        };
        let range = start..start + text.len();
        start += line.len();
        Line { text: range, end }
    };
    source.split_inclusive('\n').map(line).collect()
}

struct Reader<'a> {
    source: &'a str,
    lines: &'a [Line],
    pieces: Vec<Piece>,
    /// The lines that are one text.
    group: Range<usize>,
}

impl Reader<'_> {
    fn add(&mut self, index: usize) {
        self.group = if self.group.is_empty() { index..index + 1 } else { self.group.start..index + 1 };
    }

    /// Whether the lines read last end a sentence.
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
        // The dash and what stands around it stay.
        let spoken = first_line.trim_start().trim_start_matches(DASHES).trim_start();
        let start = self.lines[first].text.end - spoken.len();
        let bytes = start..self.lines[last].text.end;
        let mut builder = Builder::default();
        let mut at = start;
        for (tag, mark) in tags(&self.source[bytes.clone()]) {
            let tag = start + tag.start..start + tag.end;
            builder.text(&self.source[at..tag.start]);
            at = tag.end;
            builder.mark(mark, tag);
        }
        builder.text(&self.source[at..bytes.end]);
        let Some(passage) = builder.finish(self.source, bytes.clone()) else { return };
        let widths = group.clone().map(|line| width(&self.source[self.lines[line].text.clone()]));
        let width = widths.max().unwrap_or(0);
        self.keep_up_to(bytes.start);
        let n_lines = 1 + self.source[passage.bytes()].matches('\n').count();
        let line_end = self.lines[first].end;
        self.pieces.push(Piece::Lines(Box::new(Lines { passage, n_lines, width, line_end })));
        self.pieces.push(Piece::Kept(bytes.end..bytes.end));
    }

    /// Everything up to a byte that was not read yet stays.
    fn keep_up_to(&mut self, end: usize) {
        match self.pieces.last_mut() {
            Some(Piece::Kept(last)) => last.end = end,
            _ => self.pieces.push(Piece::Kept(0..end)),
        }
    }
}

impl Lines {
    /// What was written, in lines.
    fn broken(&self, chunks: &[Chunk<'_>]) -> String {
        // Words with their tags, and how many letters can be seen.
        let mut words: Vec<(String, usize)> = vec![Default::default()];
        for chunk in chunks {
            match chunk {
                Chunk::Mark(mark) => {
                    if let Some((word, _)) = words.last_mut() {
                        word.push_str(mark);
                    }
                }
                Chunk::Text(text) => {
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
        // The narrowest lines that are not too many.
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

/// How many lines words take that are no longer than this, but for single words.
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

/// Whether a line begins with a dash, perhaps behind tags.
fn begins_speech(line: &str) -> bool {
    let mut text = line.trim_start();
    while let Some((end, _)) = tag(text) {
        text = text[end..].trim_start();
    }
    text.starts_with(DASHES)
}

/// Letters that can be seen.
fn width(line: &str) -> usize {
    let hidden: usize = tags(line).iter().map(|(tag, _)| line[tag.clone()].chars().count()).sum();
    line.chars().count() - hidden
}

fn tags(text: &str) -> Vec<(Range<usize>, Mark)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['<', '{']) {
        at += offset;
        match tag(&text[at..]) {
            Some((length, mark)) => {
                found.push((at..at + length, mark));
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// A tag that a text begins with, and its length.
fn tag(text: &str) -> Option<(usize, Mark)> {
    let end = |closing: char, opening: char| {
        let found =
            text.char_indices().skip(1).take(LONGEST_TAG).find(|(_, c)| *c == closing || *c == opening)?;
        (found.1 == closing).then_some(found.0 + 1)
    };
    if text.starts_with("{\\") {
        return Some((end('}', '{')?, Mark::Single));
    }
    let inside = &text.strip_prefix('<')?[..end('>', '<')? - 2];
    let name = inside.trim_start_matches('/');
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len())];
    let name = name.to_ascii_lowercase();
    let mark = match inside.starts_with('/') {
        _ if !ELEMENTS.contains(&name.as_str()) => return None,
        true => Mark::Close(name),
        false => Mark::Open(name),
    };
    Some((inside.len() + 2, mark))
}

/// A text without the tag that it ends with.
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

    fn filled(translated: &[&str]) -> String {
        let layout = Subtitles::read(FILE).unwrap();
        let translated: Vec<_> = translated.iter().map(|text| Filled { text, alignment: &[] }).collect();
        layout.write(&translated)
    }

    #[test]
    fn sentences_and_speeches_are_texts() {
        let layout = Subtitles::read(FILE).unwrap();
        let texts: Vec<&str> = layout.passages().map(Passage::text).collect();
        let expected = ["I have never seen such a cat.", "Who is there?", "Me & you.", "One.", "Two, three"];
        assert_eq!(texts, expected);
        assert_eq!(layout.write(&[]), FILE.replace("seen\r\nsuch", "\r\nseen such").replace(" \r", "\r"));
    }

    #[test]
    fn lines_come_back_balanced() {
        let written =
            filled(&["Ich habe eine solche Katze noch nie gesehen.", "Wer da?", "Ich < du.", "Eins."]);
        let expected = FILE
            .replace("I have never seen\r\nsuch a cat.", "Ich habe eine solche\r\nKatze noch nie gesehen.")
            .replace("Who is there?", "Wer da?")
            .replace("Me & you.", "Ich < du.")
            .replace("One.", "Eins.");
        assert_eq!(written, expected);
        assert!(filled(&["Nie!"]).contains("<i>Nie!</i>\r\n\r\n2"));
    }

    #[test]
    fn no_subtitles_are_refused_with_their_line() {
        let error = Subtitles::read("\n\nHello\n").unwrap_err();
        assert!(error.to_string().starts_with("line 3: no times, expected some such as"), "{error}");
        assert_eq!(Subtitles::read(" \n").unwrap().write(&[]), " \n");
    }
}
