//! `--lexical` and `--lexical-file`: words or phrases that translations must contain.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::lines::Lines;

use crate::input::shown;
use crate::report::Failure;

/// Lexical constraints.
#[derive(Debug, Args)]
pub(super) struct LexicalOptions {
    /// Word or phrase that each translation must contain; repeatable. Each text is one sentence then
    #[arg(long, value_name = "TEXT", help_heading = "Decoding")]
    lexical: Vec<String>,
    /// Words or phrases for each text: line N for text N, separated by tabs; an empty line for none
    #[arg(long, value_name = "FILE", help_heading = "Decoding")]
    lexical_file: Option<PathBuf>,
}

impl LexicalOptions {
    /// True if there are constraints.
    pub(super) fn is_given(&self) -> bool {
        !self.lexical.is_empty() || self.lexical_file.is_some()
    }

    /// The constraints; reads the file.
    pub(super) fn read(&self) -> Result<LexicalConstraints> {
        let lines = match &self.lexical_file {
            Some(path) => Some((shown(path).to_owned(), Lines::read_all(path)?)),
            None => None,
        };
        Ok(LexicalConstraints { all: self.lexical.clone(), lines })
    }
}

/// The constraints of every text, and those of single texts.
pub(super) struct LexicalConstraints {
    all: Vec<String>,
    lines: Option<(PathBuf, Vec<String>)>,
}

impl LexicalConstraints {
    /// Texts `first` to `first + len` in groups of equal constraints: ranges from 0, in order.
    pub(super) fn groups(&self, first: usize, len: usize) -> Result<Vec<(Range<usize>, Vec<String>)>> {
        let mut groups: Vec<(Range<usize>, Vec<String>)> = Vec::new();
        for index in 0..len {
            let own = self.of(first + index)?;
            match groups.last_mut() {
                Some((range, lexical)) if *lexical == own => range.end += 1,
                _ => groups.push((index..index + 1, own)),
            }
        }
        Ok(groups)
    }

    fn of(&self, index: usize) -> Result<Vec<String>> {
        let Some((path, lines)) = &self.lines else { return Ok(self.all.clone()) };
        let line = lines.get(index).ok_or_else(|| Failure {
            message: format!(
                "{}: {} lines, but there is a text {}: expected a line for each text",
                path.display(),
                lines.len(),
                index + 1
            ),
            hint: "add an empty line for each text without words that its translation must contain".into(),
        })?;
        let own = line.split('\t').map(str::trim).filter(|phrase| !phrase.is_empty()).map(str::to_owned);
        Ok(self.all.iter().cloned().chain(own).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_equal_constraints_are_one_group() {
        let lines = ["", "", "a\tb c", "a \t b c", "d"].map(str::to_owned).to_vec();
        let constraints = LexicalConstraints { all: vec!["x".into()], lines: Some(("file".into(), lines)) };
        let text = |own: &[&str]| own.iter().map(|own| (*own).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            constraints.groups(1, 4).unwrap(),
            [(0..1, text(&["x"])), (1..3, text(&["x", "a", "b c"])), (3..4, text(&["x", "d"]))]
        );
        let error = constraints.groups(4, 2).unwrap_err().to_string();
        assert_eq!(error, "file: 5 lines, but there is a text 6: expected a line for each text");
    }
}
