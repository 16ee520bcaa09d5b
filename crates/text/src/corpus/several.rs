//! Pairs whose source consists of several texts, such as a German and a French sentence with their English translation.
//!
//! The source of a pair is its texts with a tab between, as they stand in a TSV file. So everything that handles pairs handles
//! such pairs too; a tokeniser takes the texts apart again.

use std::path::Path;

use super::{column_span, missing_column};
use crate::lines::Lines;
use crate::{Error, Result};

/// Reader of such pairs.
#[derive(Debug)]
pub(super) struct SeveralReader {
    input: Input,
    source: Vec<u8>,
    target: Vec<u8>,
    line: u64,
}

#[derive(Debug)]
enum Input {
    /// A file for each text of the source, and the target.
    Files(Vec<Lines>, Lines),
    /// Columns of a TSV file.
    Columns(Lines, Vec<usize>, usize),
}

impl SeveralReader {
    pub(super) fn files(sources: &[impl AsRef<Path>], target: &Path) -> Result<Self> {
        let sources = sources.iter().map(Lines::open).collect::<Result<_>>()?;
        Ok(Self::new(Input::Files(sources, Lines::open(target)?)))
    }

    pub(super) fn columns(path: &Path, sources: &[usize], target: usize) -> Result<Self> {
        Ok(Self::new(Input::Columns(Lines::open(path)?, sources.to_vec(), target)))
    }

    fn new(input: Input) -> Self {
        Self { input, source: Vec::new(), target: Vec::new(), line: 0 }
    }

    /// The file of the first text.
    pub(super) fn path(&self) -> &Path {
        match &self.input {
            Input::Files(sources, target) => sources.first().unwrap_or(target).path(),
            Input::Columns(lines, ..) => lines.path(),
        }
    }

    /// The texts of the source with a tab between.
    pub(super) fn source(&self) -> &[u8] {
        &self.source
    }

    pub(super) fn target(&self) -> &[u8] {
        &self.target
    }

    /// Reads the next pair; false at the end of all files.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.line += 1;
        self.source.clear();
        self.target.clear();
        match &mut self.input {
            Input::Files(sources, target) => {
                let mut n_left = usize::from(target.next_bytes()?.is_some());
                for (index, lines) in sources.iter_mut().enumerate() {
                    n_left += usize::from(lines.next_bytes()?.is_some());
                    if lines.bytes().contains(&b'\t') {
                        return Err(Error::Format {
                            path: lines.path().to_owned(),
                            line: Some(self.line),
                            found: "a tab inside a text".into(),
                            expected: "one text on each line".into(),
                            hint: "a TSV file is read with tsv and source_columns".into(),
                        });
                    }
                    if index > 0 {
                        self.source.push(b'\t');
                    }
                    self.source.extend_from_slice(lines.bytes());
                }
                if n_left > 0 && n_left <= sources.len() {
                    return Err(unequal(sources, target));
                }
                self.target.extend_from_slice(target.bytes());
                Ok(n_left > 0)
            }
            Input::Columns(lines, sources, target) => {
                if lines.next_bytes()?.is_none() {
                    return Ok(false);
                }
                let column = |column: usize| match column_span(lines.bytes(), column) {
                    Some(span) => Ok(&lines.bytes()[span]),
                    None => Err(missing_column(lines.path(), self.line, lines.bytes(), column)),
                };
                for (index, &source) in sources.iter().enumerate() {
                    if index > 0 {
                        self.source.push(b'\t');
                    }
                    self.source.extend_from_slice(column(source)?);
                }
                self.target.extend_from_slice(column(*target)?);
                Ok(true)
            }
        }
    }

    /// The current line of a TSV file with all columns; empty for several files.
    pub(super) fn whole(&self) -> &[u8] {
        match &self.input {
            Input::Files(..) => &[],
            Input::Columns(lines, ..) => lines.bytes(),
        }
    }
}

/// The error about the line counts of the first file that differs from the target.
fn unequal(sources: &mut [Lines], target: &mut Lines) -> Error {
    let mut count = |lines: &mut Lines| {
        while let Ok(Some(_)) = lines.next_bytes() {}
        lines.line()
    };
    let target_lines = count(target);
    let counts: Vec<u64> = sources.iter_mut().map(&mut count).collect();
    let differs = counts.iter().position(|lines| *lines != target_lines).unwrap_or(0);
    Error::LineCounts {
        source_path: sources[differs].path().to_owned(),
        target_path: target.path().to_owned(),
        source_lines: counts[differs],
        target_lines,
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::Corpus;

    fn read(corpus: &Corpus) -> Result<Vec<(String, String)>, String> {
        let mut pairs = corpus.pairs().unwrap();
        let mut all = Vec::new();
        while let Some(pair) = pairs.next_pair().map_err(|error| error.to_string())? {
            all.push((pair.source.to_owned(), pair.target.to_owned()));
        }
        Ok(all)
    }

    #[test]
    fn columns_and_files_give_the_same_pairs_and_name_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let tsv = path("a.tsv", "house\tHaus\tmaison\nyes\t\toui\n");
        let [de, fr, en] = [("a.de", "Haus\n\n"), ("a.fr", "maison\noui\n"), ("a.en", "house\nyes\n")]
            .map(|(name, text)| path(name, text));
        let columns =
            Corpus::SeveralColumns { path: tsv.clone(), source_columns: vec![1, 2], target_column: 0 };
        let files = Corpus::SeveralFiles { sources: vec![de.clone(), fr], target: en.clone() };
        let expected = [("Haus\tmaison", "house"), ("\toui", "yes")];
        let expected: Vec<_> = expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!((read(&columns).unwrap(), read(&files).unwrap()), (expected.clone(), expected));
        let wrong = |corpus: &Corpus, message: &str| {
            let found = read(corpus).unwrap_err();
            assert!(found.contains(message), "{found}");
        };
        wrong(
            &Corpus::SeveralColumns { path: tsv, source_columns: vec![1, 3], target_column: 0 },
            "a.tsv:1: 3 tab-separated columns, expected a column 4",
        );
        let short = path("b.fr", "maison\n");
        wrong(&Corpus::SeveralFiles { sources: vec![de.clone(), short], target: en.clone() }, "b.fr");
        let tabs = path("c.fr", "maison\noui\tnon\n");
        wrong(&Corpus::SeveralFiles { sources: vec![de, tabs], target: en }, "c.fr:2: a tab inside a text");
    }
}
