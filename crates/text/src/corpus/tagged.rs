//! Sentences of words with a tag each, as for finding names.
//!
//! ```text
//! EU NNP B-ORG          {"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}
//! rejects VBZ O
//! ```
//!
//! A file as of CoNLL's tasks has a word on each line, with its columns separated by a tab or spaces, and an empty line after each
//! sentence. `-DOCSTART-` marks documents and is left out. A line that begins with `#` before the first word of a sentence is
//! a comment, unless it has a tab or ends with a tag.

use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::lines::Lines;
use crate::spans::is_tag;
use crate::{Error, Result};

/// Begins each document in the files of CoNLL's tasks.
const DOCUMENT: &str = "-DOCSTART-";

/// The words of a sentence and their tags.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaggedWords {
    /// Bytes of each word in the sentence.
    pub ranges: Vec<Range<usize>>,
    /// The tag of each word.
    pub tags: Vec<String>,
}

/// Reader of such sentences.
#[derive(Debug)]
pub(super) struct TaggedReader {
    lines: Lines,
    layout: Layout,
    words: TaggedWords,
    text: String,
    tags: String,
    /// Line of the first word of the sentence, or of an error.
    line: u64,
}

#[derive(Debug)]
enum Layout {
    /// Columns of words and tags, counted from 0; default: the first and the last.
    Conll([Option<usize>; 2]),
    /// Names of the fields.
    Jsonl([String; 2]),
}

impl TaggedReader {
    pub(super) fn conll(path: &Path, columns: [Option<usize>; 2]) -> Result<Self> {
        Self::open(path, Layout::Conll(columns))
    }

    pub(super) fn jsonl(path: &Path, fields: [String; 2]) -> Result<Self> {
        Self::open(path, Layout::Jsonl(fields))
    }

    fn open(path: &Path, layout: Layout) -> Result<Self> {
        let words = TaggedWords::default();
        Ok(Self {
            lines: Lines::open(path)?,
            layout,
            words,
            text: String::new(),
            tags: String::new(),
            line: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.lines.path()
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn words(&self) -> &TaggedWords {
        &self.words
    }

    /// The sentence: its words with a space between.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The tags with a space between.
    pub(super) fn tags(&self) -> &str {
        &self.tags
    }

    /// Reads the next sentence; false at the end. After an error, the next sentence follows.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.words = TaggedWords::default();
        self.text.clear();
        self.tags.clear();
        match &self.layout {
            &Layout::Conll(columns) => self.read_lines(columns),
            Layout::Jsonl(fields) => {
                let fields = fields.clone();
                self.read_object(&fields)
            }
        }
    }

    /// Reads lines up to an empty one.
    fn read_lines(&mut self, columns: [Option<usize>; 2]) -> Result<bool> {
        loop {
            let found = match self.lines.next_text() {
                Ok(found) => found.map(str::to_owned),
                Err(error) => {
                    self.line = self.lines.line();
                    return Err(error);
                }
            };
            let Some(line) = found else { return Ok(!self.words.tags.is_empty()) };
            let line = line.trim_end();
            match (line.is_empty(), self.words.tags.is_empty()) {
                (true, true) => continue,
                (true, false) => return Ok(true),
                (false, true) if is_comment(line) || line.starts_with(DOCUMENT) => continue,
                (false, true) => self.line = self.lines.line(),
                (false, false) => {}
            }
            match word_and_tag(line, columns) {
                Ok((word, tag)) => self.add(word, tag),
                Err((found, expected)) => {
                    self.line = self.lines.line();
                    while self.lines.next_text()?.is_some_and(|line| !line.trim().is_empty()) {}
                    let hint = "a word and its tag on each line, an empty line after each sentence";
                    return Err(self.wrong(found, expected, hint));
                }
            }
        }
    }

    /// Reads the object on the next line.
    fn read_object(&mut self, fields: &[String; 2]) -> Result<bool> {
        let found = match self.lines.next_text() {
            Ok(Some(json)) => Some(lists(json, fields)),
            Ok(None) => None,
            Err(error) => {
                self.line = self.lines.line();
                return Err(error);
            }
        };
        self.line = self.lines.line();
        match found {
            None => Ok(false),
            Some(Ok([words, tags])) => {
                words.iter().zip(&tags).for_each(|(word, tag)| self.add(word, tag));
                Ok(true)
            }
            Some(Err(found)) => {
                let [words, tags] = fields;
                let expected = format!("lists of strings of one length in the fields {words:?} and {tags:?}");
                Err(self.wrong(
                    found,
                    expected,
                    "name the fields with source_field and target_field; tags are names, no numbers",
                ))
            }
        }
    }

    fn add(&mut self, word: &str, tag: &str) {
        if !self.words.tags.is_empty() {
            self.text.push(' ');
            self.tags.push(' ');
        }
        let start = self.text.len();
        self.text.push_str(word);
        self.tags.push_str(tag);
        self.words.ranges.push(start..self.text.len());
        self.words.tags.push(tag.to_owned());
    }

    fn wrong(&self, found: String, expected: String, hint: &str) -> Error {
        Error::Format {
            path: self.lines.path().to_owned(),
            line: Some(self.line),
            found,
            expected,
            hint: hint.to_owned(),
        }
    }
}

/// True for a comment, as CoNLL-U has them before a sentence.
fn is_comment(line: &str) -> bool {
    line.starts_with('#') && !line.contains('\t') && !line.split_whitespace().next_back().is_some_and(is_tag)
}

/// Word and tag of a line; otherwise what was found and what was expected.
fn word_and_tag(
    line: &str,
    [word, tag]: [Option<usize>; 2],
) -> std::result::Result<(&str, &str), (String, String)> {
    let columns: Vec<&str> =
        if line.contains('\t') { line.split('\t').collect() } else { line.split_whitespace().collect() };
    let last = columns.len() - 1;
    let [word, tag] = [word.unwrap_or(0), tag.unwrap_or(last)];
    if last == 0 || word > last || tag > last {
        let found = format!("{} column{}", last + 1, if last == 0 { "" } else { "s" });
        let expected = match word.max(tag) {
            0 | 1 => "a word and its tag".to_owned(),
            most => format!("a column {}", most + 1),
        };
        return Err((found, expected));
    }
    match columns[tag].trim() {
        "" => Err(("an empty tag".into(), "a word and its tag".into())),
        tag => Ok((columns[word].trim(), tag)),
    }
}

/// The two lists of an object; otherwise what was found.
fn lists(json: &str, fields: &[String; 2]) -> std::result::Result<[Vec<String>; 2], String> {
    let object: Value = serde_json::from_str(json).map_err(|error| format!("invalid JSON ({error})"))?;
    let list = |field: &String| {
        let texts = object.get(field).and_then(Value::as_array).map(|list| {
            list.iter()
                .map(|value| value.as_str().map(|text| text.trim().to_owned()))
                .collect::<Option<Vec<String>>>()
        });
        texts.flatten().ok_or_else(|| format!("no list of strings in the field {field:?}"))
    };
    let [words, tags] = [list(&fields[0])?, list(&fields[1])?];
    if words.len() != tags.len() {
        return Err(format!("{} words and {} tags", words.len(), tags.len()));
    }
    match tags.iter().position(String::is_empty) {
        None => Ok([words, tags]),
        Some(index) => Err(format!("an empty tag of word {}", index + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Corpus;

    type Sentence = (u64, Vec<(String, String)>);

    fn read(name: &str, text: &str) -> Vec<std::result::Result<Sentence, String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let corpus = if name.ends_with("jsonl") {
            Corpus::TokensJsonl { path, words_field: "tokens".into(), tags_field: "tags".into() }
        } else {
            Corpus::Conll { path, word_column: None, tag_column: None }
        };
        let mut pairs = corpus.pairs().unwrap();
        let mut all = Vec::new();
        loop {
            match pairs.next_raw() {
                Ok(None) => return all,
                Err(error) => all.push(Err(error.to_string().split_once(name).unwrap().1.to_owned())),
                Ok(Some(pair)) => {
                    let text = String::from_utf8(pair.source.unwrap().to_vec()).unwrap();
                    let line = pair.line;
                    let TaggedWords { ranges, tags } = pairs.words().unwrap();
                    let words = ranges.iter().map(|range| text[range.clone()].to_owned());
                    all.push(Ok((line, words.zip(tags.iter().cloned()).collect())));
                }
            }
        }
    }

    fn sentence(line: u64, words: &[(&str, &str)]) -> Sentence {
        (line, words.iter().map(|(word, tag)| ((*word).to_owned(), (*tag).to_owned())).collect())
    }

    #[test]
    fn columns_documents_and_comments() {
        let text = "-DOCSTART- -X- -X- O\n\n# id = 1\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n \n\n# O\nNew York\tB-LOC\r\n#x\tO\n";
        let expected = [
            Ok(sentence(4, &[("EU", "B-ORG"), ("rejects", "O")])),
            Ok(sentence(8, &[("#", "O"), ("New York", "B-LOC"), ("#x", "O")])),
        ];
        assert_eq!(read("a.txt", text), expected);
    }

    #[test]
    fn errors_name_the_line_and_the_next_sentence_follows() {
        let found = read("a.txt", "a O\nb\nc O\n\nd O\n");
        assert_eq!(
            found,
            [Err(":2: 1 column, expected a word and its tag".into()), Ok(sentence(5, &[("d", "O")]))]
        );
        let lines = [
            r#"{"tokens": ["a b", "c"], "tags": ["O", "B-X"]}"#,
            r#"{"tokens": ["a"], "tags": [1]}"#,
            r#"{"tokens": ["a"], "tags": []}"#,
            r#"{"tokens": [], "tags": []}"#,
        ];
        let expected = "expected lists of strings of one length in the fields \"tokens\" and \"tags\"";
        let wrong = |line: u64, found: &str| Err(format!(":{line}: {found}, {expected}"));
        assert_eq!(
            read("a.jsonl", &lines.join("\n")),
            [
                Ok(sentence(1, &[("a b", "O"), ("c", "B-X")])),
                wrong(2, "no list of strings in the field \"tags\""),
                wrong(3, "1 words and 0 tags"),
                Ok(sentence(4, &[])),
            ]
        );
    }
}
