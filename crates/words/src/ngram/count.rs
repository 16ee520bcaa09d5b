//! Counts of n-grams: positions of a text as records, sorted and counted in memory, or in runs on disk that are merged.
//!
//! A record holds a word, the word before it, and so on, up to the order or the beginning of the sentence. Ids are one
//! higher in records, and 0 fills the rest, so that sorted records are the depth-first order of the trie.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use polyhead_text::lines::Lines;
use rayon::prelude::*;

use super::vocabulary::Words;
use super::{BEGIN, END, SPECIAL};
use crate::{Error, Result};

/// The least number of records in memory.
const MIN_RECORDS: usize = 1 << 12;
/// Runs that are merged at once: as many files are open.
const MAX_RUNS: usize = 128;
/// Lines between two reports.
const REPORT_LINES: u64 = 1 << 16;

/// The unit that a model predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextUnit {
    /// Words between white space.
    #[default]
    Word,
    /// Characters; a space is `▁`.
    Character,
}

impl TextUnit {
    /// Calls `each` with the units of a line.
    pub(crate) fn split(self, line: &str, mut each: impl FnMut(&[u8])) {
        match self {
            Self::Word => {
                let is_space = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
                line.as_bytes().split(is_space).filter(|word| !word.is_empty()).for_each(each);
            }
            Self::Character => {
                let mut buffer = [0; 4];
                for letter in line.chars() {
                    let letter = if letter.is_whitespace() { '▁' } else { letter };
                    each(letter.encode_utf8(&mut buffer).as_bytes());
                }
            }
        }
    }
}

/// Progress of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Lines read so far.
    Read(u64),
    /// All lines are read: lines, units without line ends, distinct words, and runs on disk.
    Counted {
        /// Lines.
        lines: u64,
        /// Words or characters.
        units: u64,
        /// Distinct ones.
        distinct: usize,
        /// Sorted runs that were written to disk, as memory was short.
        runs: usize,
    },
    /// n-grams of all orders are in memory, and probabilities are computed.
    Estimating {
        /// n-grams.
        ngrams: u64,
    },
}

/// What is counted, and within which limits.
#[derive(Debug)]
pub(crate) struct CountOptions<'a> {
    pub(crate) texts: &'a [PathBuf],
    pub(crate) unit: TextUnit,
    /// Bytes of records in memory.
    pub(crate) memory: usize,
    /// Where runs are written.
    pub(crate) folder: &'a Path,
}

/// Reads all texts and calls `each` with every distinct record of `N` words and its count, in ascending order.
pub(crate) fn count<const N: usize>(
    options: &CountOptions<'_>,
    words: &mut Words,
    progress: &mut dyn FnMut(Progress),
    each: &mut dyn FnMut(&[u32], u64),
) -> Result<()> {
    let capacity = (options.memory / size_of::<[u32; N]>()).max(MIN_RECORDS);
    let mut counter =
        Counter::<N> { records: Vec::new(), capacity, runs: Vec::new(), folder: options.folder, spilled: 0 };
    let (mut n_lines, mut units, mut ids) = (0, 0, Vec::new());
    for path in options.texts {
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next_text()? {
            ids.clear();
            ids.push(BEGIN);
            let mut reserved = None;
            options.unit.split(line, |word| {
                let id = words.add(word);
                if (id as usize) < SPECIAL.len() {
                    reserved = Some(SPECIAL[id as usize]);
                }
                ids.push(id);
            });
            if let Some(word) = reserved {
                return Err(Error::line(
                    path,
                    lines.line(),
                    format!("the word {word}, which is reserved"),
                    "remove it from the text: sentences are marked by their lines",
                ));
            }
            ids.push(END);
            units += ids.len() as u64 - 2;
            n_lines += 1;
            counter.add_sentence(&ids)?;
            if n_lines % REPORT_LINES == 0 {
                progress(Progress::Read(n_lines));
            }
        }
    }
    let distinct = words.len() - SPECIAL.len();
    progress(Progress::Counted { lines: n_lines, units, distinct, runs: counter.spilled });
    if units == 0 {
        return Err(polyhead_text::Error::Empty { what: "training text".into() }.into());
    }
    counter.finish(each)
}

struct Counter<'a, const N: usize> {
    records: Vec<[u32; N]>,
    capacity: usize,
    /// Sorted runs.
    runs: Vec<File>,
    folder: &'a Path,
    /// Runs written in all.
    spilled: usize,
}

impl<const N: usize> Counter<'_, N> {
    /// Adds a record for every word of a sentence except its beginning.
    fn add_sentence(&mut self, ids: &[u32]) -> Result<()> {
        for end in 1..ids.len() {
            let mut record = [0; N];
            for (slot, id) in record.iter_mut().zip(ids[..=end].iter().rev()) {
                *slot = id + 1;
            }
            if self.records.len() == self.capacity {
                self.spill()?;
            }
            self.records.push(record);
        }
        Ok(())
    }

    /// Writes the records in memory to disk as a sorted run.
    fn spill(&mut self) -> Result<()> {
        self.records.par_sort_unstable();
        let run = self.write(|each| {
            distinct(&self.records, each);
            Ok(())
        })?;
        self.runs.push(run);
        self.spilled += 1;
        self.records.clear();
        if self.runs.len() == MAX_RUNS {
            let runs = std::mem::take(&mut self.runs);
            let merged = self.write(|each| merge::<N>(runs, self.folder, each))?;
            self.runs.push(merged);
        }
        Ok(())
    }

    /// A temporary file with the records that `fill` passes on, read from its beginning.
    fn write(&self, fill: impl FnOnce(&mut dyn FnMut(&[u32], u64)) -> Result<()>) -> Result<File> {
        use std::io::Seek as _;
        let failed = |error| Error::io(self.folder, "write n-grams to", error);
        let mut out = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(self.folder).map_err(failed)?);
        let mut result = Ok(());
        fill(&mut |record, count| {
            let bytes = record.iter().flat_map(|id| id.to_le_bytes()).chain(count.to_le_bytes());
            let bytes: Vec<u8> = bytes.collect();
            if result.is_ok() {
                result = out.write_all(&bytes);
            }
        })?;
        result.map_err(failed)?;
        let mut file = out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        Ok(file)
    }

    /// Calls `each` with every distinct record and its count, in order.
    fn finish(mut self, each: &mut dyn FnMut(&[u32], u64)) -> Result<()> {
        if self.runs.is_empty() {
            self.records.par_sort_unstable();
            distinct(&self.records, each);
            return Ok(());
        }
        self.spill()?;
        self.records = Vec::new();
        merge::<N>(std::mem::take(&mut self.runs), self.folder, each)
    }
}

/// Every distinct record of a sorted list with its count.
fn distinct<const N: usize>(records: &[[u32; N]], each: &mut dyn FnMut(&[u32], u64)) {
    for equal in records.chunk_by(|a, b| a == b) {
        each(&equal[0], equal.len() as u64);
    }
}

/// Every distinct record of several runs with the sum of its counts.
fn merge<const N: usize>(runs: Vec<File>, folder: &Path, each: &mut dyn FnMut(&[u32], u64)) -> Result<()> {
    let failed = |error| Error::io(folder, "read n-grams from", error);
    let mut readers: Vec<_> = runs.into_iter().map(|run| BufReader::with_capacity(1 << 18, run)).collect();
    let mut next: BinaryHeap<Reverse<([u32; N], usize, u64)>> = BinaryHeap::new();
    for (index, reader) in readers.iter_mut().enumerate() {
        next.extend(
            read::<N>(reader).map_err(failed)?.map(|(record, count)| Reverse((record, index, count))),
        );
    }
    let mut current: Option<([u32; N], u64)> = None;
    while let Some(Reverse((record, index, count))) = next.pop() {
        next.extend(
            read::<N>(&mut readers[index])
                .map_err(failed)?
                .map(|(record, count)| Reverse((record, index, count))),
        );
        match &mut current {
            Some((same, sum)) if *same == record => *sum += count,
            _ => {
                if let Some((record, sum)) = current.replace((record, count)) {
                    each(&record, sum);
                }
            }
        }
    }
    if let Some((record, sum)) = current {
        each(&record, sum);
    }
    Ok(())
}

/// The next record of a run, if there is one.
fn read<const N: usize>(reader: &mut impl Read) -> std::io::Result<Option<([u32; N], u64)>> {
    let mut record = [0; N];
    for (index, id) in record.iter_mut().enumerate() {
        let mut bytes = [0; 4];
        match reader.read_exact(&mut bytes) {
            Err(error) if index == 0 && error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        *id = u32::from_le_bytes(bytes);
    }
    let mut bytes = [0; 8];
    reader.read_exact(&mut bytes)?;
    Ok(Some((record, u64::from_le_bytes(bytes))))
}
