//! Corpora of plain text as documents, which are read in parts of limited size.
//!
//! A model that was trained here reads lines, whose end token stands for the line break. Another model, which a run starts from,
//! reads documents, in which line breaks are text; the end token ends them.

use polyhead_engine::generate::TextUnits;
use polyhead_text::corpus::Corpus;

use crate::Result;
use crate::config::TextRows;
use crate::run_corpus::RunCorpus;

/// Bytes after which a long document is divided.
const PART: usize = 1 << 20;

/// A part of a text, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A line, or a piece of a document, which has its line breaks.
    Text(String),
    /// The end of a document.
    End,
}

/// Divides corpora into documents.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) rows: TextRows,
    pub(crate) units: TextUnits,
}

/// The document that is being read.
struct Open<'a> {
    units: TextUnits,
    /// Lines of a document that is read as a whole.
    text: String,
    has_lines: bool,
    /// Bytes after which `text` is a part.
    part: usize,
    sink: &'a mut dyn FnMut(Part) -> Result<()>,
}

impl Documents {
    /// Hands over the parts of all corpora, each as often as it is repeated.
    pub(crate) fn read(&self, corpora: &[RunCorpus], sink: &mut dyn FnMut(Part) -> Result<()>) -> Result<()> {
        self.read_parts(corpora, PART, sink)
    }

    fn read_parts(
        &self,
        corpora: &[RunCorpus],
        part: usize,
        sink: &mut dyn FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut open = Open { units: self.units, text: String::new(), has_lines: false, part, sink };
        for run_corpus in corpora {
            for _ in 0..run_corpus.repeat {
                let has_records = matches!(run_corpus.corpus, Corpus::Jsonl { .. });
                let mut all = run_corpus.corpus.pairs()?;
                while let Some(text) = all.next_pair()? {
                    if has_records {
                        for line in text.source.lines() {
                            self.line(&mut open, line)?;
                        }
                        open.end()?;
                    } else {
                        self.line(&mut open, text.source)?;
                    }
                }
                open.end()?;
            }
        }
        Ok(())
    }

    fn line(&self, open: &mut Open<'_>, line: &str) -> Result<()> {
        match self.rows {
            TextRows::Documents if line.trim().is_empty() => open.end(),
            TextRows::Packed | TextRows::Documents => open.line(line),
            TextRows::Lines => {
                open.line(line)?;
                open.end()
            }
        }
    }
}

impl Open<'_> {
    fn line(&mut self, line: &str) -> Result<()> {
        if self.units == TextUnits::Lines {
            self.has_lines = true;
            return (self.sink)(Part::Text(line.to_owned()));
        }
        // Tokens do not cross a line break between two words, so here a text may be divided.
        let can_divide = self.text.ends_with(|last: char| !last.is_whitespace())
            && line.starts_with(|first: char| !first.is_whitespace());
        if self.has_lines {
            self.text.push('\n');
        }
        if can_divide && self.text.len() >= self.part {
            (self.sink)(Part::Text(std::mem::take(&mut self.text)))?;
        }
        self.has_lines = true;
        self.text.push_str(line);
        Ok(())
    }

    /// Ends the document, if one has begun.
    fn end(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.has_lines) {
            return Ok(());
        }
        if self.units == TextUnits::Documents {
            (self.sink)(Part::Text(std::mem::take(&mut self.text)))?;
        }
        (self.sink)(Part::End)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    fn parts(name: &str, text: &str, rows: TextRows, units: TextUnits) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let field = || "text".to_owned();
        let corpus = match name {
            "a.jsonl" => Corpus::Jsonl { path, source_field: field(), target_field: field() },
            _ => Corpus::Text { path },
        };
        let mut found = Vec::new();
        let documents = Documents { rows, units };
        documents
            .read_parts(&[corpus.into()], 6, &mut |part| {
                found.push(match part {
                    Part::Text(text) => text,
                    Part::End => "END".into(),
                });
                Ok(())
            })
            .unwrap();
        found
    }

    #[test]
    fn lines_are_grouped_into_documents() {
        use TextRows::{Documents, Lines, Packed};
        let text = "one\ntwo\n\n\nthree\n";
        let lines = |rows| parts("a.txt", text, rows, TextUnits::Lines);
        assert_eq!(lines(Packed), ["one", "two", "", "", "three", "END"]);
        assert_eq!(lines(Documents), ["one", "two", "END", "three", "END"]);
        assert_eq!(lines(Lines), ["one", "END", "two", "END", "", "END", "", "END", "three", "END"]);
        let whole = |rows| parts("a.txt", text, rows, TextUnits::Documents);
        assert_eq!(whole(Packed), ["one\ntwo\n\n\nthree", "END"]);
        assert_eq!(whole(Documents), ["one\ntwo", "END", "three", "END"]);
        assert_eq!(whole(Lines), ["one", "END", "two", "END", "", "END", "", "END", "three", "END"]);
    }

    #[test]
    fn a_record_is_a_document() {
        let text = "{\"text\": \"one\\ntwo\"}\n{\"text\": \"three\"}\n";
        let found = |units| parts("a.jsonl", text, TextRows::Packed, units);
        assert_eq!(found(TextUnits::Documents), ["one\ntwo", "END", "three", "END"]);
        assert_eq!(found(TextUnits::Lines), ["one", "two", "END", "three", "END"]);
    }

    #[test]
    fn a_long_document_is_divided_between_words_at_a_line_break() {
        let found = parts(
            "a.txt",
            "first line\n\nsecond\nthird\nfourth \nfifth\n",
            TextRows::Packed,
            TextUnits::Documents,
        );
        assert_eq!(found, ["first line\n\nsecond\n", "third\n", "fourth \nfifth", "END"]);
        assert_eq!(parts("a.txt", "", TextRows::Packed, TextUnits::Documents), [""; 0]);
    }
}
