//! word2vec text and GloVe text: a word and its numbers on a line.

use std::fmt::Write as _;
use std::path::Path;

use polyhead_text::lines::Lines;
use polyhead_text::output::Output;

use super::super::{Vocabulary, WordVectors};
use super::Format;
use crate::{Error, Result};

/// Reads a file with or without a first line "count dimensions".
pub(super) fn read(path: &Path) -> Result<WordVectors> {
    let mut lines = Lines::open(path)?;
    let mut header = None;
    let mut dimensions = 0;
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    while let Some(line) = lines.next_text()? {
        let line = line.trim_end_matches([' ', '\t']);
        if words.is_empty() && header.is_none() {
            header = header_of(line);
            if let Some((_, found)) = header {
                dimensions = found;
                continue;
            }
        }
        if dimensions == 0 {
            dimensions = line.split([' ', '\t']).count().saturating_sub(1);
        }
        let word = parse_row(line, dimensions, &mut numbers)
            .map_err(|message| ragged(path, lines_before(&words, header.is_some()), message))?;
        words.push(word);
    }
    if let Some((count, _)) = header
        && count != words.len()
    {
        return Err(Error::line(
            path,
            1,
            format!("the first line promises {count} words, the file has {}", words.len()),
            "the file may be cut short: copy it again, or correct its first line",
        ));
    }
    if words.is_empty() || dimensions == 0 {
        return Err(Error::file(path, "no word vectors, expected a word and its numbers on each line", HINT));
    }
    Ok(WordVectors::new(Vocabulary::new(words.into_iter().map(|word| (word, 0))), dimensions, numbers))
}

const HINT: &str = "expected word2vec text or binary, GloVe text, or fastText .vec or .bin";

/// Number of the line after those of `words`, from 1.
fn lines_before(words: &[String], has_header: bool) -> u64 {
    words.len() as u64 + 1 + u64::from(has_header)
}

fn ragged(path: &Path, line: u64, message: String) -> Error {
    Error::line(path, line, message, HINT)
}

/// "count dimensions".
pub(super) fn header_of(line: &str) -> Option<(usize, usize)> {
    let (count, dimensions) = line.trim_end().split_once(' ')?;
    Some((count.parse().ok()?, dimensions.parse().ok()?))
}

/// Adds the numbers at the end of a line to `numbers`; returns the word before them, which may contain spaces.
fn parse_row(line: &str, dimensions: usize, numbers: &mut Vec<f32>) -> Result<String, String> {
    let n_fields = line.split([' ', '\t']).count();
    if n_fields < dimensions + 1 {
        return Err(format!("{} numbers, expected {dimensions}", n_fields.saturating_sub(1)));
    }
    let mut fields = line.rsplitn(dimensions + 1, [' ', '\t']);
    let from = numbers.len();
    for field in fields.by_ref().take(dimensions) {
        match field.parse::<f32>() {
            Ok(number) if number.is_finite() => numbers.push(number),
            _ => {
                return Err(format!("{field:?} is no number, expected a word and {dimensions} numbers"));
            }
        }
    }
    numbers[from..].reverse();
    let word = fields.next().unwrap_or_default();
    // More numbers than expected would become part of the word.
    if n_fields > dimensions + 1
        && word.rsplit([' ', '\t']).next().is_some_and(|last| last.parse::<f32>().is_ok())
    {
        return Err(format!("{} numbers, expected {dimensions}", n_fields - 1));
    }
    Ok(word.to_owned())
}

/// Writes a line for each word; numbers are the shortest that read back as the same f32.
pub(super) fn write(vectors: &WordVectors, output: &mut Output, format: Format) -> Result<()> {
    if format == Format::Word2vecText {
        output.write_line(&format!("{} {}", vectors.len(), vectors.dimensions()))?;
    }
    let mut line = String::new();
    for (id, word) in vectors.vocabulary().words().iter().enumerate() {
        line.clear();
        line.push_str(word);
        for number in vectors.row(id as u32) {
            let _ = write!(line, " {number}");
        }
        output.write_line(&line)?;
    }
    Ok(())
}
