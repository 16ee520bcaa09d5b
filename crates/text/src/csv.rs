//! CSV files with a header (RFC 4180): fields between commas; a field in quotes may hold commas, line breaks and doubled quotes.
//!
//! As in Python's `csv`, empty lines are skipped, and a quote inside a field that does not begin with one is text. Every record has
//! as many fields as the header.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::lines::{Lines, MAX_LINE_BYTES};
use crate::spelling::nearest;
use crate::{Error, Result};

/// A column of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected the number of a column, or its name")]
pub enum Column {
    /// Its number, from 1.
    Number(usize),
    /// Its name in the header.
    Name(String),
}

impl std::fmt::Display for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// Reader of the records of a CSV file.
///
/// ```
/// use polyhead_text::csv::{Column, Records};
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("a.csv");
/// std::fs::write(&path, "label,text\ngood,\"a \"\"fine\"\" film,\nagain\"\n")?;
/// let mut records = Records::open(&path)?;
/// let text = records.column(&Column::Name("text".into()))?;
/// assert!(records.advance()?);
/// assert_eq!((records.line(), records.field(text)), (2, &b"a \"fine\" film,\nagain"[..]));
/// assert!(!records.advance()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Records {
    lines: Lines,
    header: Vec<String>,
    record: Record,
    /// Line on which the record begins.
    line: u64,
}

/// A record: its bytes as they are in the file, and its fields without quotes.
#[derive(Debug, Default)]
struct Record {
    whole: Vec<u8>,
    bytes: Vec<u8>,
    fields: Vec<Range<usize>>,
}

/// The position of a parser in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Start,
    Plain,
    Quoted,
    /// After a quote inside quotes, which ends the field or is doubled.
    Quote,
}

impl Records {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read or has no header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let lines = Lines::open(path)?;
        let mut records = Self { lines, header: Vec::new(), record: Record::default(), line: 0 };
        if !records.next_record()? {
            return Err(records.wrong("an empty file", "a header with the names of the columns"));
        }
        let Record { bytes, fields, .. } = &records.record;
        let name = |field: &Range<usize>| String::from_utf8_lossy(&bytes[field.clone()]).trim().to_owned();
        records.header = fields.iter().map(name).collect();
        Ok(records)
    }

    /// The index of a column.
    ///
    /// # Errors
    /// If the header lacks it, or has its name twice.
    pub fn column(&self, column: &Column) -> Result<usize> {
        let n_columns = self.header.len();
        let found: Vec<usize> = match column {
            Column::Number(number) => {
                (1..=n_columns).filter(|own| own == number).map(|own| own - 1).collect()
            }
            Column::Name(name) => (0..n_columns).filter(|&index| self.header[index] == *name).collect(),
        };
        let error = |found: String, hint: String| Error::Format {
            path: self.lines.path().to_owned(),
            line: Some(1),
            found,
            expected: format!("one column {column}"),
            hint,
        };
        match (found.as_slice(), column) {
            (&[index], _) => Ok(index),
            ([], Column::Number(_)) => {
                Err(error(format!("{n_columns} columns"), "columns are counted from 1".into()))
            }
            ([], Column::Name(name)) => {
                let nearest = nearest(name, self.header.iter().map(String::as_str)).unwrap_or_default();
                Err(error(
                    format!("the columns {}", self.header.join(", ")),
                    format!("did you mean {nearest:?}? a column may be named by its number too"),
                ))
            }
            (several, _) => Err(error(
                format!("{} columns of this name", several.len()),
                "name the column by its number".into(),
            )),
        }
    }

    /// Reads the next record; false at the end.
    ///
    /// # Errors
    /// If it has more or fewer fields than the header, or its quotes do not match.
    pub fn advance(&mut self) -> Result<bool> {
        if !self.next_record()? {
            return Ok(false);
        }
        let (found, expected) = (self.record.fields.len(), self.header.len());
        if found == expected {
            return Ok(true);
        }
        let found = format!("{found} field{}", if found == 1 { "" } else { "s" });
        Err(self.wrong(&found, &format!("{expected}, as in the header")))
    }

    /// The field of the current record with this index.
    pub fn field(&self, index: usize) -> &[u8] {
        self.record.fields.get(index).map_or(&[], |field| &self.record.bytes[field.clone()])
    }

    /// The line on which the current record begins, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The path as passed.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The current record as it is in the file, without its last line end.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.record.whole
    }

    fn next_record(&mut self) -> Result<bool> {
        loop {
            let Some(line) = self.lines.next_bytes()? else { return Ok(false) };
            if !line.is_empty() {
                break;
            }
        }
        self.line = self.lines.line();
        self.record.clear();
        let mut position = Position::Start;
        loop {
            position = match self.record.read(self.lines.bytes(), position) {
                Some(position) => position,
                None => {
                    return Err(self.wrong("text after a closing quote", "a comma or the end of the line"));
                }
            };
            if position != Position::Quoted {
                return Ok(true);
            }
            let line_end: &[u8] = if self.lines.ends_with_crlf() { b"\r\n" } else { b"\n" };
            self.record.add(line_end);
            if self.record.whole.len() > MAX_LINE_BYTES {
                let found = format!("a field in quotes of more than {} MiB", MAX_LINE_BYTES >> 20);
                return Err(self.wrong(&found, "a closing quote"));
            }
            if self.lines.next_bytes()?.is_none() {
                return Err(self.wrong("a field in quotes without an end", "a closing quote"));
            }
        }
    }

    /// An error at the line on which the record begins.
    fn wrong(&self, found: &str, expected: &str) -> Error {
        Error::Format {
            path: self.lines.path().to_owned(),
            line: Some(self.line.max(1)),
            found: found.to_owned(),
            expected: expected.to_owned(),
            hint: "fields with commas, quotes or line breaks are in quotes; a quote inside is doubled: \"a \"\"b\"\"\""
                .into(),
        }
    }
}

impl Record {
    fn clear(&mut self) {
        self.whole.clear();
        self.bytes.clear();
        self.fields.clear();
    }

    /// Adds a line end inside quotes.
    fn add(&mut self, line_end: &[u8]) {
        self.whole.extend_from_slice(line_end);
        self.bytes.extend_from_slice(line_end);
    }

    /// Reads a line, or the next line of a field in quotes; `None` if text follows a closing quote.
    fn read(&mut self, line: &[u8], mut position: Position) -> Option<Position> {
        self.whole.extend_from_slice(line);
        for &byte in line {
            position = match (position, byte) {
                (Position::Start, b'"') => Position::Quoted,
                (Position::Quoted, b'"') => Position::Quote,
                (Position::Start | Position::Plain | Position::Quote, b',') => {
                    self.end_field();
                    Position::Start
                }
                (Position::Quoted, _) | (Position::Quote, b'"') => {
                    self.bytes.push(byte);
                    Position::Quoted
                }
                (Position::Start | Position::Plain, _) => {
                    self.bytes.push(byte);
                    Position::Plain
                }
                (Position::Quote, _) => return None,
            };
        }
        if position != Position::Quoted {
            self.end_field();
        }
        Some(position)
    }

    fn end_field(&mut self) {
        let start = self.fields.last().map_or(0, |last| last.end);
        self.fields.push(start..self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<(u64, Vec<String>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        let mut records = Records::open(path)?;
        let mut all = Vec::new();
        while records.advance()? {
            let field = |index| String::from_utf8(records.field(index).to_vec()).unwrap();
            all.push((records.line(), (0..records.header.len()).map(field).collect()));
        }
        Ok(all)
    }

    fn message(text: &str) -> String {
        let error = read(text).unwrap_err().to_string();
        error.split_once("a.csv").unwrap().1.to_owned()
    }

    #[test]
    fn quotes_line_breaks_and_empty_lines() {
        let text =
            "\u{feff}a,b\r\n\r\n\"x, \"\"y\"\"\r\nz\",\r\n5\" screen,\"\"\n,\"a\nb\n\nc\"\n\" d \", e \n\n";
        let expected = [
            (3, ["x, \"y\"\r\nz", ""]),
            (5, ["5\" screen", ""]),
            (6, ["", "a\nb\n\nc"]),
            (10, [" d ", " e "]),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(line, fields)| (line, fields.map(str::to_owned).to_vec())).collect();
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn errors_name_the_line_on_which_a_record_begins() {
        assert_eq!(message(""), ":1: an empty file, expected a header with the names of the columns");
        assert_eq!(message("a,b\n1,2\n1,2,3\n"), ":3: 3 fields, expected 2, as in the header");
        assert_eq!(
            message("a,b\n\"1\n2\",\"3\" 4\n"),
            ":2: text after a closing quote, expected a comma or the end of the line"
        );
        assert_eq!(
            message("a,b\n1,\"2\n3,4\n"),
            ":2: a field in quotes without an end, expected a closing quote"
        );
    }

    #[test]
    fn columns_have_names_and_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "id,text,label,text\n").unwrap();
        let records = Records::open(&path).unwrap();
        let index = |column| records.column(&column).map_err(|error| (error.to_string(), error.hint()));
        assert_eq!(index(Column::Number(3)), Ok(2));
        assert_eq!(index(Column::Name("label".into())), Ok(2));
        let (error, _) = index(Column::Number(5)).unwrap_err();
        assert!(error.ends_with("a.csv:1: 4 columns, expected one column 5"), "{error}");
        let (_, hint) = index(Column::Name("labels".into())).unwrap_err();
        assert!(hint.starts_with("did you mean \"label\"?"), "{hint}");
        let (error, _) = index(Column::Name("text".into())).unwrap_err();
        assert!(error.contains("2 columns of this name"), "{error}");
    }

    proptest! {
        #[test]
        fn written_records_read_back(rows in prop::collection::vec(prop::collection::vec("[ab,\" \r\n]{0,6}", 2), 1..6)) {
            let quoted = |row: &Vec<String>| {
                let fields: Vec<String> = row.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
                fields.join(",") + "\n"
            };
            let text: String = rows.iter().map(quoted).collect();
            let found: Vec<Vec<String>> = read(&format!("a,b\n{text}")).unwrap().into_iter().map(|(_, row)| row).collect();
            prop_assert_eq!(found, rows);
        }
    }
}
