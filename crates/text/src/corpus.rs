//! Parallel text: pairs of a source and a target line, streamed, so that a file may be larger than memory.
//!
//! Four formats, each plain or gzip: two files line by line, one TSV or CSV file, one JSONL file with an object per line. Plain text
//! without targets is a fifth, for models of one text. Words with a tag each are in files as of CoNLL's tasks, or in lists in
//! JSONL; their source is the sentence, their target the tags with spaces between. A source of several texts is these with a tab
//! between.

mod several;
mod tagged;
mod writer;

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::several::SeveralReader;
use self::tagged::TaggedReader;
pub use self::tagged::TaggedWords;
pub use self::writer::PairWriter;
use crate::csv::{Column, Records};
use crate::lines::Lines;
use crate::{Error, Result};

/// Paths and format of a parallel corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Corpus {
    /// Two files: line n of one corresponds to line n of the other.
    LineFiles {
        /// Source lines.
        source: PathBuf,
        /// Target lines.
        target: PathBuf,
    },
    /// Columns of a tab-separated file, without quoting; counted from 0.
    Tsv {
        /// The file.
        path: PathBuf,
        /// Column of the source text.
        source_column: usize,
        /// Column of the target text.
        target_column: usize,
    },
    /// Files line by line, several for the source.
    SeveralFiles {
        /// Lines of each text of the source.
        sources: Vec<PathBuf>,
        /// Target lines.
        target: PathBuf,
    },
    /// Columns of a tab-separated file, several for the source; counted from 0.
    SeveralColumns {
        /// The file.
        path: PathBuf,
        /// Columns of the texts of the source.
        source_columns: Vec<usize>,
        /// Column of the target text.
        target_column: usize,
    },
    /// Columns of a CSV file with a header.
    Csv {
        /// The file.
        path: PathBuf,
        /// Column of the source text.
        source_column: Column,
        /// Column of the target text.
        target_column: Column,
    },
    /// A word with its tag on each line, and an empty line after each sentence. Columns are separated by tabs or spaces.
    Conll {
        /// The file.
        path: PathBuf,
        /// Column of the words, counted from 0; default: the first.
        word_column: Option<usize>,
        /// Column of the tags; default: the last.
        tag_column: Option<usize>,
    },
    /// Lists of words and of their tags in the object on each line.
    TokensJsonl {
        /// The file.
        path: PathBuf,
        /// Name of the field with the words.
        words_field: String,
        /// Name of the field with the tags.
        tags_field: String,
    },
    /// String fields of the object on each line.
    Jsonl {
        /// The file.
        path: PathBuf,
        /// Name of the source field.
        source_field: String,
        /// Name of the target field.
        target_field: String,
    },
    /// The lines of a text file, without targets: every target is empty.
    Text {
        /// The file.
        path: PathBuf,
    },
}

/// The bytes of one pair; a side is `None` after the end of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawPair<'a> {
    /// Line number, from 1.
    pub line: u64,
    /// The source line without its end.
    pub source: Option<&'a [u8]>,
    /// The target line without its end.
    pub target: Option<&'a [u8]>,
}

/// One pair of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Line number, from 1.
    pub line: u64,
    /// The source text.
    pub source: &'a str,
    /// The target text.
    pub target: &'a str,
}

/// Reader of the pairs of a corpus, in order.
#[derive(Debug)]
pub struct Pairs {
    files: PairFiles,
    line: u64,
}

/// Open files of each format, and the place of the current pair in their line buffers.
#[derive(Debug)]
enum PairFiles {
    LineFiles { source: Lines, target: Lines, has: [bool; 2] },
    Tsv { lines: Lines, columns: [usize; 2], spans: [Range<usize>; 2] },
    Csv { records: Records, columns: [usize; 2] },
    Tagged(TaggedReader),
    Several(SeveralReader),
    Jsonl { lines: Lines, fields: [String; 2], texts: [String; 2] },
    Text { lines: Lines },
}

impl Corpus {
    /// Opens the corpus.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?; let path = folder.path().join("pairs.tsv");
    /// std::fs::write(&path, "I am a student\tJe suis étudiant\nthanks\tmerci\n")?;
    /// let corpus = polyhead_text::corpus::Corpus::Tsv { path, source_column: 0, target_column: 1 };
    /// let mut pairs = corpus.pairs()?;
    /// while let Some(pair) = pairs.next_pair()? {
    ///     println!("{}: {} → {}", pair.line, pair.source, pair.target);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pairs(&self) -> Result<Pairs> {
        let files = match self {
            Self::LineFiles { source, target } => PairFiles::LineFiles {
                source: Lines::open(source)?,
                target: Lines::open(target)?,
                has: [false; 2],
            },
            Self::Tsv { path, source_column, target_column } => {
                let columns = [*source_column, *target_column];
                PairFiles::Tsv { lines: Lines::open(path)?, columns, spans: [0..0, 0..0] }
            }
            Self::SeveralFiles { sources, target } => {
                PairFiles::Several(SeveralReader::files(sources, target)?)
            }
            Self::SeveralColumns { path, source_columns, target_column } => {
                PairFiles::Several(SeveralReader::columns(path, source_columns, *target_column)?)
            }
            Self::Csv { path, source_column, target_column } => {
                let records = Records::open(path)?;
                let columns = [records.column(source_column)?, records.column(target_column)?];
                PairFiles::Csv { records, columns }
            }
            Self::Conll { path, word_column, tag_column } => {
                PairFiles::Tagged(TaggedReader::conll(path, [*word_column, *tag_column])?)
            }
            Self::TokensJsonl { path, words_field, tags_field } => {
                PairFiles::Tagged(TaggedReader::jsonl(path, [words_field.clone(), tags_field.clone()])?)
            }
            Self::Jsonl { path, source_field, target_field } => {
                let fields = [source_field.clone(), target_field.clone()];
                PairFiles::Jsonl { lines: Lines::open(path)?, fields, texts: [String::new(), String::new()] }
            }
            Self::Text { path } => PairFiles::Text { lines: Lines::open(path)? },
        };
        Ok(Pairs { files, line: 0 })
    }

    /// True if the corpus is in regular files; a pipe can be read only once.
    pub fn can_be_read_twice(&self) -> bool {
        self.paths().iter().all(|path| path.is_file())
    }

    /// All files.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::LineFiles { source, target } => vec![source, target],
            Self::SeveralFiles { sources, target } => {
                sources.iter().chain([target]).map(PathBuf::as_path).collect()
            }
            other => vec![other.single_path()],
        }
    }

    /// The path that holds the source side, or the first text of it.
    pub fn source_path(&self) -> &Path {
        match self {
            Self::LineFiles { source, .. } => source,
            Self::SeveralFiles { sources, target } => sources.first().unwrap_or(target),
            other => other.single_path(),
        }
    }

    /// The path that holds the target side.
    pub fn target_path(&self) -> &Path {
        match self {
            Self::LineFiles { target, .. } | Self::SeveralFiles { target, .. } => target,
            other => other.single_path(),
        }
    }

    /// The path of a corpus in one file.
    fn single_path(&self) -> &Path {
        match self {
            Self::LineFiles { source: path, .. }
            | Self::SeveralFiles { target: path, .. }
            | Self::SeveralColumns { path, .. }
            | Self::Tsv { path, .. }
            | Self::Csv { path, .. }
            | Self::Conll { path, .. }
            | Self::TokensJsonl { path, .. }
            | Self::Jsonl { path, .. }
            | Self::Text { path } => path,
        }
    }

    /// True if it has words with a tag each.
    pub fn is_tagged(&self) -> bool {
        matches!(self, Self::Conll { .. } | Self::TokensJsonl { .. })
    }
}

impl Pairs {
    /// The next pair as bytes, or `None` at the end of both sides.
    pub fn next_raw(&mut self) -> Result<Option<RawPair<'_>>> {
        Ok(if self.advance()? { Some(self.current()) } else { None })
    }

    /// The next pair as text, or `None` at the end. Unequal line counts and invalid UTF-8 are errors.
    pub fn next_pair(&mut self) -> Result<Option<Pair<'_>>> {
        if !self.advance()? {
            return Ok(None);
        }
        if matches!(&self.files, PairFiles::LineFiles { has, .. } if *has != [true; 2]) {
            while self.advance()? {}
            return Err(self.unequal_counts());
        }
        let RawPair { line, source, target } = self.current();
        let [source, target] = [source, target].map(|bytes| std::str::from_utf8(bytes.unwrap_or_default()));
        match (source, target) {
            (Ok(source), Ok(target)) => Ok(Some(Pair { line, source, target })),
            (Err(error), _) => Err(self.invalid(0, error)),
            (_, Err(error)) => Err(self.invalid(1, error)),
        }
    }

    /// The words of the current pair and their tags; `None` if the corpus has none.
    pub fn words(&self) -> Option<&TaggedWords> {
        if let PairFiles::Tagged(reader) = &self.files { Some(reader.words()) } else { None }
    }

    /// Line on which the current pair begins, or where it could not be read.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The current line of a TSV or JSONL file with all columns and fields; empty for line files.
    pub(crate) fn whole_line(&self) -> &[u8] {
        match &self.files {
            PairFiles::LineFiles { .. } => &[],
            PairFiles::Csv { records, .. } => records.whole(),
            PairFiles::Tagged(reader) => reader.text().as_bytes(),
            PairFiles::Several(reader) => reader.whole(),
            PairFiles::Tsv { lines, .. } | PairFiles::Jsonl { lines, .. } | PairFiles::Text { lines } => {
                lines.bytes()
            }
        }
    }

    /// Reads the next line; false at the end of both sides.
    fn advance(&mut self) -> Result<bool> {
        self.line += 1;
        let line = self.line;
        match &mut self.files {
            PairFiles::LineFiles { source, target, has } => {
                *has = [source.next_bytes()?.is_some(), target.next_bytes()?.is_some()];
                Ok(*has != [false; 2])
            }
            PairFiles::Tsv { lines, columns, spans } => {
                if lines.next_bytes()?.is_none() {
                    return Ok(false);
                }
                for (span, &mut column) in spans.iter_mut().zip(columns) {
                    *span = column_span(lines.bytes(), column)
                        .ok_or_else(|| missing_column(lines.path(), line, lines.bytes(), column))?;
                }
                Ok(true)
            }
            PairFiles::Csv { records, .. } => {
                let found = records.advance();
                self.line = records.line();
                found
            }
            PairFiles::Tagged(reader) => {
                let found = reader.advance();
                self.line = reader.line();
                found
            }
            PairFiles::Several(reader) => reader.advance(),
            PairFiles::Jsonl { lines, fields, texts } => {
                let Some(json) = lines.next_text()? else { return Ok(false) };
                let object =
                    serde_json::from_str::<Value>(json).map_err(|error| format!("invalid JSON ({error})"));
                let taken = object.and_then(|object| {
                    for (field, text) in fields.iter().zip(texts) {
                        let Some(Value::String(found)) = object.get(field.as_str()) else {
                            return Err(format!("no string in the field {field:?}"));
                        };
                        text.clone_from(found);
                    }
                    Ok(())
                });
                taken.map_err(|found| bad_json(lines.path(), line, found, fields)).map(|()| true)
            }
            PairFiles::Text { lines } => Ok(lines.next_bytes()?.is_some()),
        }
    }

    /// The current pair.
    pub(crate) fn current(&self) -> RawPair<'_> {
        let [source, target] = match &self.files {
            PairFiles::LineFiles { source, target, has } => {
                [has[0].then(|| source.bytes()), has[1].then(|| target.bytes())]
            }
            PairFiles::Tsv { lines, spans, .. } => spans.clone().map(|span| Some(&lines.bytes()[span])),
            PairFiles::Csv { records, columns } => columns.map(|column| Some(records.field(column))),
            PairFiles::Tagged(reader) => [Some(reader.text().as_bytes()), Some(reader.tags().as_bytes())],
            PairFiles::Several(reader) => [Some(reader.source()), Some(reader.target())],
            PairFiles::Jsonl { texts: [source, target], .. } => {
                [Some(source.as_bytes()), Some(target.as_bytes())]
            }
            PairFiles::Text { lines } => [Some(lines.bytes()), Some(&[][..])],
        };
        RawPair { line: self.line, source, target }
    }

    fn invalid(&self, side: usize, error: std::str::Utf8Error) -> Error {
        let (path, start) = match &self.files {
            PairFiles::LineFiles { source, target, .. } => ([source, target][side].path(), 0),
            PairFiles::Tsv { lines, spans, .. } => (lines.path(), spans[side].start),
            PairFiles::Csv { records, .. } => (records.path(), 0),
            PairFiles::Tagged(reader) => (reader.path(), 0),
            PairFiles::Several(reader) => (reader.path(), 0),
            PairFiles::Jsonl { lines, .. } | PairFiles::Text { lines } => (lines.path(), 0),
        };
        Error::Utf8 { path: path.to_owned(), line: self.line, byte: start + error.valid_up_to() + 1 }
    }

    /// The error about the line counts of both sides, once they have been read to the end.
    pub(crate) fn unequal_counts(&self) -> Error {
        let PairFiles::LineFiles { source, target, .. } = &self.files else {
            unreachable!("a single file has a single line count")
        };
        Error::LineCounts {
            source_path: source.path().to_owned(),
            target_path: target.path().to_owned(),
            source_lines: source.line(),
            target_lines: target.line(),
        }
    }
}

fn column_span(bytes: &[u8], column: usize) -> Option<Range<usize>> {
    let mut start = 0;
    for (index, part) in bytes.split(|&byte| byte == b'\t').enumerate() {
        if index == column {
            return Some(start..start + part.len());
        }
        start += part.len() + 1;
    }
    None
}

fn missing_column(path: &Path, line: u64, bytes: &[u8], column: usize) -> Error {
    let n_columns = memchr::memchr_iter(b'\t', bytes).count() + 1;
    Error::Format {
        path: path.to_owned(),
        line: Some(line),
        found: format!("{n_columns} tab-separated column{}", if n_columns == 1 { "" } else { "s" }),
        expected: format!("a column {}", column + 1),
        hint: "name the columns with --columns 1,2, or give two files with --source and --target".into(),
    }
}

fn bad_json(path: &Path, line: u64, found: String, fields: &[String; 2]) -> Error {
    Error::Format {
        path: path.to_owned(),
        line: Some(line),
        found,
        expected: format!("an object with the string fields {:?} and {:?}", fields[0], fields[1]),
        hint: "name the fields with --fields source,target".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(corpus: &Corpus) -> Result<Vec<(String, String)>> {
        let mut pairs = corpus.pairs()?;
        let mut out = Vec::new();
        while let Some(pair) = pairs.next_pair()? {
            assert_eq!(pair.line, out.len() as u64 + 1);
            out.push((pair.source.to_owned(), pair.target.to_owned()));
        }
        Ok(out)
    }

    fn with_files(files: &[(&str, &str)], test: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        test(folder.path());
    }

    #[test]
    fn three_formats_give_the_same_pairs() {
        let files = [
            ("a.en", "I\u{2028}am\r\nthanks"),
            ("a.fr", "je suis\nmerci\n"),
            ("a.tsv", "x\tje suis\tI\u{2028}am\ny\tmerci\tthanks\n"),
            (
                "a.jsonl",
                "{\"en\":\"I\u{2028}am\",\"fr\":\"je suis\"}\n{\"fr\":\"merci\",\"en\":\"thanks\"}\n",
            ),
        ];
        with_files(&files, |folder| {
            let lines = Corpus::LineFiles { source: folder.join("a.en"), target: folder.join("a.fr") };
            let tsv = Corpus::Tsv { path: folder.join("a.tsv"), source_column: 2, target_column: 1 };
            let jsonl = Corpus::Jsonl {
                path: folder.join("a.jsonl"),
                source_field: "en".into(),
                target_field: "fr".into(),
            };
            let expected = [("I\u{2028}am", "je suis"), ("thanks", "merci")];
            for corpus in [lines, tsv, jsonl] {
                let found = all(&corpus).unwrap();
                assert!(
                    found.iter().map(|(s, t)| (s.as_str(), t.as_str())).eq(expected),
                    "{corpus:?}: {found:?}"
                );
            }
        });
    }

    #[test]
    fn errors_name_file_and_line() {
        let files = [
            ("short", "a\n"),
            ("long", "a\nb\nc\n"),
            ("one.tsv", "a\tb\nc\n"),
            ("no.jsonl", "{\"source\":\"a\",\"target\":1}\n"),
        ];
        with_files(&files, |folder| {
            let message = |corpus: Corpus| {
                let message = all(&corpus).unwrap_err().to_string();
                message.replace(&format!("{}/", folder.display()), "")
            };
            let (short, long) = (folder.join("short"), folder.join("long"));
            assert_eq!(
                message(Corpus::LineFiles { source: short.clone(), target: long.clone() }),
                "short has 1 lines, long has 3: expected the same number"
            );
            assert_eq!(
                message(Corpus::LineFiles { source: long, target: short }),
                "long has 3 lines, short has 1: expected the same number"
            );
            assert_eq!(
                message(Corpus::Tsv { path: folder.join("one.tsv"), source_column: 0, target_column: 1 }),
                "one.tsv:2: 1 tab-separated column, expected a column 2"
            );
            let jsonl = Corpus::Jsonl {
                path: folder.join("no.jsonl"),
                source_field: "source".into(),
                target_field: "target".into(),
            };
            assert_eq!(
                message(jsonl),
                "no.jsonl:1: no string in the field \"target\", expected an object with the string fields \"source\" and \"target\""
            );
        });
    }
}
