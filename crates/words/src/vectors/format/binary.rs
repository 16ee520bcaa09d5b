//! word2vec binary: a line "count dimensions", then for each word its spelling, a space and its numbers as little-endian f32.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use polyhead_text::output::Output;

use super::super::{Vocabulary, WordVectors};
use super::text::header_of;
use crate::{Error, Result};

/// Longest first line and longest word that are looked at, in bytes.
const MAX_WORD: u64 = 4096;

/// True if a line "count dimensions" is followed by something that no text has.
pub(super) fn is_binary(path: &Path) -> Result<bool> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let failed = |error| Error::io(path, "read", error);
    let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    let mut start = Vec::new();
    BufReader::new(file).take(MAX_WORD).read_to_end(&mut start).map_err(failed)?;
    let Some(end) = start.iter().position(|&byte| byte == b'\n') else { return Ok(false) };
    let header = std::str::from_utf8(&start[..end]).ok().and_then(header_of);
    let after_word = start[end + 1..].iter().position(|&byte| byte == b' ');
    let (Some((_, dimensions)), Some(space)) = (header, after_word) else { return Ok(false) };
    let numbers = &start[end + 1 + space..];
    let mut line = numbers.iter().take_while(|&&byte| byte != b'\n');
    // The bytes of a binary number may be those of a line's end: all numbers of the word are looked at.
    let mut row = numbers.iter().take(dimensions.saturating_mul(4).saturating_add(1));
    Ok(line.any(|byte| !(byte.is_ascii_digit() || b" +-.eE\r\tinfINFaA".contains(byte)))
        || row.any(|byte| byte.is_ascii_control() && !b"\n\r\t".contains(byte)))
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<WordVectors> {
    let failed = |error| Error::io(path, "read", error);
    let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    let size = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut header = Vec::new();
    reader.by_ref().take(MAX_WORD).read_until(b'\n', &mut header).map_err(failed)?;
    let (count, dimensions) =
        std::str::from_utf8(&header).ok().and_then(header_of).expect("checked by is_binary");
    let least = count as u64 * (dimensions as u64 * 4 + 1);
    if least > size {
        return Err(Error::file(
            path,
            format!(
                "the first line promises {count} words of {dimensions} numbers, which take {least} bytes or more, the file has {size}"
            ),
            "the file may be cut short: copy it again",
        ));
    }
    let (mut words, mut numbers) = (Vec::with_capacity(count), Vec::with_capacity(count * dimensions));
    let mut row = vec![0; dimensions * 4];
    for number in 1..=count {
        let mut word = Vec::new();
        reader.by_ref().take(MAX_WORD).read_until(b' ', &mut word).map_err(failed)?;
        let read = reader.read_exact(&mut row);
        if word.pop() != Some(b' ') || read.is_err() {
            return Err(Error::file(
                path,
                format!("ends in word {number}, expected {count} words"),
                "the file may be cut short: copy it again",
            ));
        }
        let word = String::from_utf8_lossy(&word);
        words.push(word.trim_start_matches('\n').to_owned());
        numbers.extend(row.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }
    Ok(WordVectors::new(Vocabulary::new(words.into_iter().map(|word| (word, 0))), dimensions, numbers))
}

/// Writes a file as word2vec does, with a line end after each word.
pub(super) fn write(vectors: &WordVectors, output: &mut Output) -> Result<()> {
    output.write_line(&format!("{} {}", vectors.len(), vectors.dimensions()))?;
    for (id, word) in vectors.vocabulary().words().iter().enumerate() {
        output.write(format!("{word} ").as_bytes())?;
        let row: Vec<u8> = vectors.row(id as u32).iter().flat_map(|number| number.to_le_bytes()).collect();
        output.write(&row)?;
        output.write(b"\n")?;
    }
    Ok(())
}
