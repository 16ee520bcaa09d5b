//! Co-occurrence counts within a bounded memory.
//!
//! Words at distance d count 1/d, as in GloVe, in fixed point, so that sums do not depend on order and any number of threads
//! gives the same counts. Pairs of frequent words are counted in a dense triangle, all others in buffers that are sorted and
//! written to disk when they are full. At the end the sorted runs are merged, and each count goes to the file of its part: part
//! (a, b) holds the pairs whose words are a and b modulo [`PARTS`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::super::corpus::{Corpus, LINE_END};
use crate::{Error, Result};

/// Parts of the rows, and of the columns, that are trained together.
pub(crate) const PARTS: usize = 8;
/// One count in fixed point.
const ONE: u64 = 1 << 24;
/// Words of the text that a thread takes at a time.
const CHUNK: usize = 1 << 16;
/// Least memory, in bytes: buffers of the threads and of the files.
const MIN_MEMORY: usize = 16 << 20;

/// Counts of word pairs, on disk.
#[derive(Debug)]
pub struct Cooccurrences {
    parts: Vec<(File, u64)>,
    folder: PathBuf,
    n_words: usize,
    /// Sorted runs that were written to disk.
    runs: usize,
}

/// One count: a word, a word of its context, and how often they meet.
pub(crate) type Count = (u32, u32, f32);

impl Cooccurrences {
    /// Counts the pairs of words at most `window` apart, in both directions, within about `memory` bytes.
    ///
    /// # Errors
    /// If the memory is too small, or temporary files cannot be written.
    pub fn count(
        corpus: &Corpus,
        window: usize,
        memory: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Self> {
        if memory < MIN_MEMORY {
            return Err(Error::request(
                format!("--memory of {memory} bytes, expected at least {} MiB", MIN_MEMORY >> 20),
                "use --memory 1GiB",
            ));
        }
        let folder = std::env::temp_dir();
        let n_words = corpus.vocabulary().len();
        let counting = Counting::new(n_words, memory, folder.clone());
        let ids = corpus.ids();
        let n_chunks = ids.len().div_ceil(CHUNK);
        (0..n_chunks).into_par_iter().try_for_each(|chunk| {
            progress((chunk * CHUNK) as u64);
            counting.take(ids, chunk * CHUNK..ids.len().min((chunk + 1) * CHUNK), window)
        })?;
        counting.finish()
    }

    /// Number of counts, both directions.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|(_, n)| n).sum()
    }

    /// True if no two words meet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sorted runs that did not fit into memory.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Words of the vocabulary.
    pub(crate) fn n_words(&self) -> usize {
        self.n_words
    }

    /// Counts of the words of part `row` with those of part `column`.
    pub(crate) fn part(&self, row: usize, column: usize) -> Result<Vec<Count>> {
        let (file, n) = &self.parts[row * PARTS + column];
        let failed = |error| Error::io(&self.folder, "read", error);
        let mut file = file.try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        let mut bytes = vec![0; *n as usize * 12];
        file.read_exact(&mut bytes).map_err(failed)?;
        let number = |bytes: &[u8; 12], at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let count = |bytes: &[u8; 12]| {
            let [i, j] = [0, 4].map(|at| u32::from_le_bytes(number(bytes, at)));
            (i, j, f32::from_le_bytes(number(bytes, 8)))
        };
        Ok(bytes.as_chunks::<12>().0.iter().map(count).collect())
    }

    /// The matrix of conditional probabilities P(column | row) = X(row, column) / Σ X(row, ·) of some words.
    pub fn probabilities(&self, rows: &[u32], columns: &[u32]) -> Result<Vec<Vec<f64>>> {
        let mut totals = vec![0.0; rows.len()];
        let mut counts = vec![vec![0.0; columns.len()]; rows.len()];
        for part in 0..PARTS * PARTS {
            for (i, j, x) in self.part(part / PARTS, part % PARTS)? {
                for row in (0..rows.len()).filter(|&row| rows[row] == i) {
                    totals[row] += f64::from(x);
                    for column in (0..columns.len()).filter(|&column| columns[column] == j) {
                        counts[row][column] += f64::from(x);
                    }
                }
            }
        }
        for (row, total) in counts.iter_mut().zip(totals) {
            for count in row {
                *count /= total;
            }
        }
        Ok(counts)
    }
}

/// The state of counting.
struct Counting {
    /// Words below this id are counted in the triangle.
    n_dense: usize,
    triangle: Vec<AtomicU64>,
    /// Buffers that wait for a thread; each thread takes one.
    buffers: Mutex<Vec<Buffer>>,
    capacity: usize,
    folder: PathBuf,
    n_words: usize,
}

/// Sparse counts of one thread: keys (smaller id, larger id) and weights.
#[derive(Default)]
struct Buffer {
    counts: Vec<(u64, u64)>,
    runs: Vec<File>,
}

impl Counting {
    fn new(n_words: usize, memory: usize, folder: PathBuf) -> Self {
        // Half of the memory for the triangle, half for the buffers.
        let n_dense = ((memory / 8) as f64).sqrt() as usize;
        let n_dense = n_dense.min(n_words);
        let triangle = (0..n_dense * (n_dense + 1) / 2).map(|_| AtomicU64::new(0)).collect();
        let capacity = (memory / 2 / 16 / (rayon::current_num_threads() + 1)).max(1 << 12);
        Self { n_dense, triangle, buffers: Mutex::default(), capacity, folder, n_words }
    }

    /// Counts the words of `range` with those before them on their line.
    fn take(&self, ids: &[u32], range: std::ops::Range<usize>, window: usize) -> Result<()> {
        let mut buffer = self.buffers.lock().expect("no thread panics").pop().unwrap_or_default();
        for at in range {
            let word = ids[at];
            if word == LINE_END {
                continue;
            }
            let before = ids[at.saturating_sub(window)..at].iter().rev().take_while(|&&id| id != LINE_END);
            for (distance, &other) in before.enumerate() {
                let weight = ONE / (distance as u64 + 1);
                let (low, high) = (word.min(other) as usize, word.max(other) as usize);
                if high < self.n_dense {
                    self.triangle[high * (high + 1) / 2 + low].fetch_add(weight, Ordering::Relaxed);
                } else {
                    buffer.counts.push(((low as u64) << 32 | high as u64, weight));
                }
            }
            if buffer.counts.len() + window > self.capacity {
                buffer.shrink(self.capacity, &self.folder)?;
            }
        }
        self.buffers.lock().expect("no thread panics").push(buffer);
        Ok(())
    }

    /// Merges triangle, buffers and runs into parts.
    fn finish(self) -> Result<Cooccurrences> {
        let failed = |error| Error::io(&self.folder, "write", error);
        let mut writers = Vec::new();
        for _ in 0..PARTS * PARTS {
            let file = tempfile::tempfile_in(&self.folder).map_err(failed)?;
            writers.push((BufWriter::with_capacity(1 << 15, file), 0));
        }
        let mut emit = |low: usize, high: usize, weight: u64| -> std::io::Result<()> {
            let x = (weight as f64 / ONE as f64) as f32;
            let both = if low == high { &[(low, high)][..] } else { &[(low, high), (high, low)] };
            for &(i, j) in both {
                let (writer, n) = &mut writers[i % PARTS * PARTS + j % PARTS];
                let mut record = [0; 12];
                record[..4].copy_from_slice(&(i as u32).to_le_bytes());
                record[4..8].copy_from_slice(&(j as u32).to_le_bytes());
                record[8..].copy_from_slice(&x.to_le_bytes());
                writer.write_all(&record)?;
                *n += 1;
            }
            Ok(())
        };
        for high in 0..self.n_dense {
            for low in 0..=high {
                // A word beside itself counts in both directions.
                let weight = self.triangle[high * (high + 1) / 2 + low].load(Ordering::Relaxed);
                if weight > 0 {
                    emit(low, high, if low == high { 2 * weight } else { weight }).map_err(failed)?;
                }
            }
        }
        drop(self.triangle);
        let buffers = self.buffers.into_inner().expect("no thread panics");
        let n_runs = buffers.iter().map(|buffer| buffer.runs.len()).sum();
        merge(buffers, &self.folder, |key, weight| {
            let (low, high) = ((key >> 32) as usize, key as u32 as usize);
            emit(low, high, if low == high { 2 * weight } else { weight }).map_err(failed)
        })?;
        let mut parts = Vec::new();
        for (writer, n) in writers {
            parts.push((writer.into_inner().map_err(|error| failed(error.into_error()))?, n));
        }
        Ok(Cooccurrences { parts, folder: self.folder.clone(), n_words: self.n_words, runs: n_runs })
    }
}

impl Buffer {
    /// Adds up equal keys; writes a run if that does not make the buffer half empty.
    fn shrink(&mut self, capacity: usize, folder: &Path) -> Result<()> {
        self.combine();
        if self.counts.len() <= capacity / 2 {
            return Ok(());
        }
        let failed = |error| Error::io(folder, "write", error);
        let mut file = BufWriter::new(tempfile::tempfile_in(folder).map_err(failed)?);
        for (key, weight) in self.counts.drain(..) {
            file.write_all(&key.to_le_bytes()).map_err(failed)?;
            file.write_all(&weight.to_le_bytes()).map_err(failed)?;
        }
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.rewind().map_err(failed)?;
        self.runs.push(file);
        Ok(())
    }

    fn combine(&mut self) {
        self.counts.sort_unstable_by_key(|&(key, _)| key);
        self.counts.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
    }
}

/// Passes the summed weight of each key, in order.
fn merge(buffers: Vec<Buffer>, folder: &Path, mut take: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
    type Run = Box<dyn Iterator<Item = std::io::Result<(u64, u64)>>>;
    let mut runs: Vec<Run> = Vec::new();
    for mut buffer in buffers {
        buffer.combine();
        runs.push(Box::new(buffer.counts.into_iter().map(Ok)));
        for file in buffer.runs {
            let mut reader = BufReader::with_capacity(1 << 16, file);
            runs.push(Box::new(std::iter::from_fn(move || {
                let mut bytes = [0; 16];
                match reader.read_exact(&mut bytes) {
                    Ok(()) => {
                        let number = u128::from_le_bytes(bytes);
                        Some(Ok((number as u64, (number >> 64) as u64)))
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
                    Err(error) => Some(Err(error)),
                }
            })));
        }
    }
    let n_runs = runs.len();
    let mut heap = BinaryHeap::new();
    let mut refill = |heap: &mut BinaryHeap<_>, run: usize| -> Result<()> {
        if let Some(next) = runs[run].next() {
            let (key, weight) = next.map_err(|error| Error::io(folder, "read", error))?;
            heap.push(Reverse((key, run, weight)));
        }
        Ok(())
    };
    for run in 0..n_runs {
        refill(&mut heap, run)?;
    }
    let mut sum: Option<(u64, u64)> = None;
    while let Some(Reverse((key, run, weight))) = heap.pop() {
        sum = match sum {
            Some((same, total)) if same == key => Some((key, total + weight)),
            Some((done, total)) => {
                take(done, total)?;
                Some((key, weight))
            }
            None => Some((key, weight)),
        };
        refill(&mut heap, run)?;
    }
    sum.map_or(Ok(()), |(key, total)| take(key, total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::CorpusOptions;

    /// Counts with little memory, which go through sorted runs on disk, equal those in memory.
    #[test]
    fn runs_on_disk_change_nothing() {
        let random = polyhead_random::Random::new(2);
        let line = |number: u64| {
            let words = (0..20).map(|at| format!("w{}", random.below(300, number * 20 + at)));
            words.collect::<Vec<_>>().join(" ")
        };
        let lines: Vec<String> = (0..800).map(line).collect();
        let options = CorpusOptions { min_count: 1, ..CorpusOptions::default() };
        let corpus = Corpus::from_lines(lines.iter().map(String::as_str), &options).expect("a corpus");
        let count = |memory: usize| {
            let counting = Counting::new(corpus.vocabulary().len(), memory, std::env::temp_dir());
            counting.take(corpus.ids(), 0..corpus.ids().len(), 8).expect("counts");
            counting.finish().expect("parts")
        };
        let (small, large) = (count(4096), count(64 << 20));
        assert!(small.runs() > 3 && large.runs() == 0, "{} and {} runs", small.runs(), large.runs());
        for part in 0..PARTS * PARTS {
            let sorted = |counts: &Cooccurrences| {
                let mut part = counts.part(part / PARTS, part % PARTS).expect("a part");
                part.sort_by_key(|&(i, j, _)| (i, j));
                part
            };
            assert_eq!(sorted(&small), sorted(&large));
        }
    }
}
