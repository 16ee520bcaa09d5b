//! Byte-pair encoding with the codes files of subword-nmt (Sennrich et al. 2016).
//!
//! Each line of the file is a merge `left right`, in order of priority. A word starts as its characters with `</w>` at
//! the end; the pair that comes first in the file is merged wherever it occurs, from left to right, until no pair is in
//! the file. Subwords that do not end a word get `@@`. In version 0.1 of the file `</w>` is a symbol of its own, in
//! version 0.2 (`#version: 0.2` in the first line) it is part of the last character.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use crate::lines::Lines;
use crate::{Error, Result};

/// Suffix of a subword that does not end its word.
pub const SEPARATOR: &str = "@@";

const WORD_END: &str = "</w>";
const NO_SYMBOL: u32 = u32::MAX;

/// The merges of a codes file.
///
/// ```
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("codes");
/// std::fs::write(&path, "#version: 0.2\nl o\nlo w</w>\n")?;
/// let codes = polyhead_text::tokenizer::subword_nmt::SubwordNmt::load(&path)?;
/// let pieces: Vec<String> = codes.segment("low lower").into_iter().map(|subword| subword.piece).collect();
/// assert_eq!(pieces, ["low", "lo@@", "w@@", "e@@", "r"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SubwordNmt {
    version: Version,
    symbols: HashMap<String, u32>,
    merges: HashMap<(u32, u32), Merge>,
    /// Merged symbol → length of its left part in bytes.
    splits: HashMap<String, usize>,
    vocabulary: Option<HashSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    EndIsSymbol,
    EndIsSuffix,
}

/// Line of a pair in the file, and the merged symbol.
#[derive(Debug, Clone, Copy)]
struct Merge {
    rank: u32,
    symbol: u32,
}

/// A subword as spelled in the vocabulary, and the span of the text that it covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subword {
    /// The subword, with `@@` unless it ends its word.
    pub piece: String,
    /// Byte range of the text.
    pub offsets: Range<usize>,
}

/// A symbol of a word being merged.
#[derive(Clone, Copy)]
struct WordSymbol {
    symbol: u32,
    start: usize,
    end: usize,
}

impl SubwordNmt {
    /// Reads a codes file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut version = Version::EndIsSymbol;
        let mut blank = None;
        while let Some(text) = lines.next_text()?.map(str::to_owned) {
            if lines.line() == 1 && text.starts_with("#version:") {
                version = self::version(&lines, &text)?;
                continue;
            }
            let text = text.trim_matches(['\r', ' ']);
            match text.split_once(' ') {
                _ if text.is_empty() => blank = blank.or(Some(lines.line())),
                Some((left, right)) if blank.is_none() && !right.contains(' ') => {
                    pairs.push((left.to_owned(), right.to_owned()));
                }
                _ => return Err(bad_line(&lines, blank, text)),
            }
        }
        if pairs.is_empty() {
            return Err(malformed(
                &lines,
                None,
                "no merges".into(),
                "lines of two symbols",
                "subword-nmt learn-bpe writes such a file",
            ));
        }
        Ok(Self::from_pairs(version, &pairs))
    }

    fn from_pairs(version: Version, pairs: &[(String, String)]) -> Self {
        let mut symbols: HashMap<String, u32> = HashMap::new();
        let mut number = |symbol: String| {
            let next = symbols.len() as u32;
            *symbols.entry(symbol).or_insert(next)
        };
        let mut merges = HashMap::with_capacity(pairs.len());
        for ((left, right), rank) in pairs.iter().zip(0..) {
            let pair = (number(left.clone()), number(right.clone()));
            let symbol = number(format!("{left}{right}"));
            merges.entry(pair).or_insert(Merge { rank, symbol });
        }
        // Of two pairs with the same concatenation, the split is the one whose last occurrence comes first in the file.
        let mut seen = HashSet::with_capacity(pairs.len());
        let mut splits = HashMap::with_capacity(pairs.len());
        for pair in pairs.iter().rev() {
            if seen.insert(pair) {
                splits.insert(format!("{}{}", pair.0, pair.1), pair.0.len());
            }
        }
        Self { version, symbols, merges, splits, vocabulary: None }
    }

    /// Restricts subwords to those in the vocabulary at `path` (lines `subword count`) with a count of at least
    /// `threshold`; others are split into the pair from which they were merged.
    pub fn with_vocabulary(mut self, path: impl AsRef<Path>, threshold: i64) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let mut vocabulary = HashSet::new();
        while let Some(text) = lines.next_text()?.map(str::to_owned) {
            let entry = text.trim_matches(['\r', ' ']).split_once(' ');
            match entry.map(|(piece, count)| (piece, count.parse::<i64>())) {
                Some((piece, Ok(count))) if count >= threshold => drop(vocabulary.insert(piece.to_owned())),
                Some((_, Ok(_))) => {}
                _ => {
                    let hint = "subword-nmt get-vocab writes such a file";
                    return Err(malformed(
                        &lines,
                        Some(lines.line()),
                        quoted(&text),
                        "a subword and its count",
                        hint,
                    ));
                }
            }
        }
        self.vocabulary = Some(vocabulary);
        Ok(self)
    }

    /// The subwords of `text`, whose words are separated by spaces.
    pub fn segment(&self, text: &str) -> Vec<Subword> {
        let mut subwords = Vec::new();
        let stripped = text.trim_start_matches(['\r', '\n', ' ']);
        let mut at = text.len() - stripped.len();
        for word in stripped.trim_end_matches(['\r', '\n', ' ']).split(' ') {
            let ends = self.word(word);
            let mut start = 0;
            for (index, &end) in ends.iter().enumerate() {
                let separator = if index + 1 < ends.len() { SEPARATOR } else { "" };
                let piece = format!("{}{separator}", &word[start..end]);
                subwords.push(Subword { piece, offsets: at + start..at + end });
                start = end;
            }
            at += word.len() + 1;
        }
        subwords
    }

    /// Ends of the subwords of `word`, in bytes.
    fn word(&self, word: &str) -> Vec<usize> {
        let mut parts = self.characters(word);
        if parts.len() < 2 {
            return parts.iter().map(|part| part.end).collect();
        }
        while let Some((best, symbol)) = self.best(&parts) {
            let mut merged: Vec<WordSymbol> = Vec::with_capacity(parts.len());
            let mut index = 0;
            while index < parts.len() {
                let part = parts[index];
                match parts.get(index + 1) {
                    Some(next) if (part.symbol, next.symbol) == best => {
                        merged.push(WordSymbol { symbol, start: part.start, end: next.end });
                        index += 2;
                    }
                    _ => {
                        merged.push(part);
                        index += 1;
                    }
                }
            }
            parts = merged;
        }
        // An unmerged end of a word is not a subword.
        parts.retain(|part| part.start < part.end);
        match &self.vocabulary {
            Some(vocabulary) => self.split(word, &parts, vocabulary),
            None => parts.iter().map(|part| part.end).collect(),
        }
    }

    /// The characters of `word` as symbols, the last with the end of the word unless there is only one.
    fn characters(&self, word: &str) -> Vec<WordSymbol> {
        let mut parts: Vec<WordSymbol> = Vec::with_capacity(word.len() + 1);
        for (start, character) in word.char_indices() {
            let end = start + character.len_utf8();
            parts.push(WordSymbol { symbol: self.symbol(&word[start..end]), start, end });
        }
        if parts.len() > 1 {
            match (self.version, parts.last_mut()) {
                (Version::EndIsSuffix, Some(last)) => {
                    last.symbol = self.symbol(&format!("{}{WORD_END}", &word[last.start..]));
                }
                _ => parts.push(WordSymbol {
                    symbol: self.symbol(WORD_END),
                    start: word.len(),
                    end: word.len(),
                }),
            }
        }
        parts
    }

    fn symbol(&self, text: &str) -> u32 {
        self.symbols.get(text).copied().unwrap_or(NO_SYMBOL)
    }

    /// The adjacent pair that comes first in the file, and its merged symbol.
    fn best(&self, parts: &[WordSymbol]) -> Option<((u32, u32), u32)> {
        parts
            .windows(2)
            .filter_map(|pair| {
                let pair = (pair[0].symbol, pair[1].symbol);
                self.merges.get(&pair).map(|merge| (merge.rank, pair, merge.symbol))
            })
            .min()
            .map(|(_, pair, symbol)| (pair, symbol))
    }

    /// Splits subwords until all are in the vocabulary or cannot be split further; returns their ends.
    fn split(&self, word: &str, parts: &[WordSymbol], vocabulary: &HashSet<String>) -> Vec<usize> {
        let mut ends = Vec::with_capacity(parts.len());
        let mut pending: Vec<Range<usize>> = parts.iter().rev().map(|part| part.start..part.end).collect();
        while let Some(part) = pending.pop() {
            let text = &word[part.clone()];
            let last = part.end == word.len();
            let known =
                vocabulary.contains(&if last { text.to_owned() } else { format!("{text}{SEPARATOR}") });
            let merged = if last { format!("{text}{WORD_END}") } else { text.to_owned() };
            let mut left = self.splits.get(&merged);
            if left == Some(&text.len()) {
                left = self.splits.get(text);
            }
            match left {
                Some(left) if !known => {
                    pending.push(part.start + left..part.end);
                    pending.push(part.start..part.start + left);
                }
                _ => ends.push(part.end),
            }
        }
        ends
    }
}

/// Joins subwords to words: `lo@@ wer` becomes `lower`.
pub fn join(text: &str) -> String {
    let mut joined = format!("{text} ").replace("@@ ", "");
    joined.truncate(joined.trim_end().len());
    joined
}

fn version(lines: &Lines, text: &str) -> Result<Version> {
    match text.split_whitespace().last().map(|number| number.trim_start_matches("#version:")) {
        Some("0.1") => Ok(Version::EndIsSymbol),
        Some("0.2") => Ok(Version::EndIsSuffix),
        _ => Err(malformed(
            lines,
            Some(1),
            quoted(text),
            "#version: 0.1 or 0.2",
            "only these versions are supported",
        )),
    }
}

fn bad_line(lines: &Lines, blank: Option<u64>, text: &str) -> Error {
    let hint = if text.split(' ').nth(2).is_some_and(|count| count.parse::<u64>().is_ok()) {
        "fastBPE writes a third column; remove it, for instance: cut -d' ' -f1,2"
    } else {
        "subword-nmt learn-bpe writes such a file"
    };
    let found = if blank.is_some() { "an empty line".into() } else { quoted(text) };
    malformed(lines, blank.or(Some(lines.line())), found, "two symbols with one space between", hint)
}

fn malformed(lines: &Lines, line: Option<u64>, found: String, expected: &str, hint: &str) -> Error {
    Error::Format { path: lines.path().to_owned(), line, found, expected: expected.into(), hint: hint.into() }
}

/// The first 40 characters of a line in quotes, for error messages.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
