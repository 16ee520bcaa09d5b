//! A corpus as ids on disk: the text is read once, each epoch reads the ids.
//!
//! Words get provisional ids in order of appearance while the text streams into a temporary file; when all counts are known,
//! the file is renumbered in place, without the words that are too rare. Memory holds the vocabulary only; the ids are mapped,
//! so the system keeps as much of them in memory as it can spare.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ahash::AHashMap;
use memmap2::MmapMut;
use polyhead_text::lines::Lines;

use super::phrases::{self, PhraseOptions};
use super::{Tokenization, Vocabulary};
use crate::{Error, Result};

/// The id that ends a line.
pub(crate) const LINE_END: u32 = u32::MAX;

/// How text becomes ids.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusOptions {
    /// How a line becomes words. Default: `Words`.
    pub tokenization: Tokenization,
    /// Rarer words are dropped before windows are formed. Default: 5.
    pub min_count: u64,
    /// At most so many words, the most frequent; `None`: all. Default: `None`.
    pub max_words: Option<usize>,
    /// Frequent word pairs become one word; `None`: no phrases. Default: `None`.
    pub phrases: Option<PhraseOptions>,
    /// Folder of the temporary file; `None`: the system's. Default: `None`.
    pub temporary: Option<PathBuf>,
}

impl Default for CorpusOptions {
    fn default() -> Self {
        Self {
            tokenization: Tokenization::Words,
            min_count: 5,
            max_words: None,
            phrases: None,
            temporary: None,
        }
    }
}

/// A text as ids of its vocabulary.
#[derive(Debug)]
pub struct Corpus {
    ids: MmapMut,
    n_ids: usize,
    vocabulary: Vocabulary,
    /// Words of the text, rare ones included.
    n_words: u64,
}

impl Corpus {
    /// Reads text files, plain or gzip, line by line. `progress` hears of the words read so far.
    ///
    /// # Errors
    /// If a file cannot be read, or no word is frequent enough.
    pub fn read(paths: &[PathBuf], options: &CorpusOptions, progress: &mut dyn FnMut(u64)) -> Result<Self> {
        let mut reading = Reading::new(options)?;
        for path in paths {
            let mut lines = Lines::open(path)?;
            while let Some(line) = lines.next_text()? {
                reading.take(line)?;
                if lines.line() % 10_000 == 0 {
                    progress(reading.n_words);
                }
            }
        }
        reading.finish(options)
    }

    /// The corpus of lines in memory, for small texts.
    pub fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>, options: &CorpusOptions) -> Result<Self> {
        let mut reading = Reading::new(options)?;
        for line in lines {
            reading.take(line)?;
        }
        reading.finish(options)
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Words of the text, with those that are too rare for the vocabulary.
    pub fn n_words(&self) -> u64 {
        self.n_words
    }

    /// Ids of the words in the vocabulary, each line followed by [`LINE_END`].
    pub(crate) fn ids(&self) -> &[u32] {
        &as_ids(&self.ids)[..self.n_ids]
    }
}

/// The state of reading.
struct Reading {
    tokenization: Tokenization,
    file: BufWriter<File>,
    path: PathBuf,
    index: AHashMap<Box<str>, u32>,
    counts: Vec<u64>,
    n_words: u64,
    n_ids: usize,
}

impl Reading {
    fn new(options: &CorpusOptions) -> Result<Self> {
        let path = options.temporary.clone().unwrap_or_else(std::env::temp_dir);
        let file = tempfile::tempfile_in(&path).map_err(|error| Error::io(&path, "write", error))?;
        Ok(Self {
            tokenization: options.tokenization,
            file: BufWriter::with_capacity(1 << 18, file),
            path,
            index: AHashMap::new(),
            counts: Vec::new(),
            n_words: 0,
            n_ids: 0,
        })
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let Self { index, counts, file, n_words, n_ids, .. } = self;
        let mut written = Ok(());
        let mut any = false;
        self.tokenization.split(line, |word| {
            let id = index.get(word).copied().unwrap_or_else(|| {
                let id = counts.len() as u32;
                index.insert(word.into(), id);
                counts.push(0);
                id
            });
            counts[id as usize] += 1;
            any = true;
            *n_words += 1;
            *n_ids += 1;
            if written.is_ok() {
                written = file.write_all(&id.to_ne_bytes());
            }
        });
        if any && written.is_ok() {
            *n_ids += 1;
            written = file.write_all(&LINE_END.to_ne_bytes());
        }
        written.map_err(|error| Error::io(&self.path, "write", error))
    }

    fn finish(self, options: &CorpusOptions) -> Result<Corpus> {
        let Self { file, path, index, mut counts, n_words, mut n_ids, .. } = self;
        if n_ids == 0 {
            return Err(polyhead_text::Error::Empty { what: "training text".into() }.into());
        }
        let file = file.into_inner().map_err(|error| Error::io(&path, "write", error.into_error()))?;
        let mut ids = map(&file, &path)?;
        let mut words = vec![String::new(); counts.len()];
        for (word, id) in index {
            words[id as usize] = word.into();
        }
        if let Some(options) = &options.phrases {
            let all = &mut as_ids_mut(&mut ids)[..n_ids];
            n_ids = phrases::join(all, &mut words, &mut counts, options);
        }
        let mut order: Vec<u32> =
            (0..words.len() as u32).filter(|&id| counts[id as usize] >= options.min_count.max(1)).collect();
        order.sort_unstable_by(|&a, &b| {
            let key = |id: u32| (std::cmp::Reverse(counts[id as usize]), &words[id as usize]);
            key(a).cmp(&key(b))
        });
        order.truncate(options.max_words.unwrap_or(usize::MAX));
        check_size(&order, &counts, options)?;
        let mut renumbered = vec![LINE_END; words.len()];
        for (id, &old) in order.iter().enumerate() {
            renumbered[old as usize] = id as u32;
        }
        let n_ids = renumber(&mut as_ids_mut(&mut ids)[..n_ids], &renumbered);
        let entries = order.iter().map(|&id| (std::mem::take(&mut words[id as usize]), counts[id as usize]));
        let vocabulary = Vocabulary::new(entries.collect::<Vec<_>>());
        Ok(Corpus { ids, n_ids, vocabulary, n_words })
    }
}

/// Refuses a vocabulary that no vectors can be learnt for.
fn check_size(order: &[u32], counts: &[u64], options: &CorpusOptions) -> Result<()> {
    if order.len() >= 2 {
        return Ok(());
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    let hint = if most < 2 {
        "no word occurs twice: vectors need words in several contexts; use more text".to_owned()
    } else if most < options.min_count {
        format!("the most frequent word occurs {most} times: use --min-count {most} or less, or more text")
    } else {
        "a vector is learnt from other words: use --min-count 1, or more text".to_owned()
    };
    let found = match order.len() {
        0 => "no word".to_owned(),
        n => format!("only {n} word"),
    };
    Err(Error::request(
        format!(
            "{found} of {} occurs at least {} times, expected two words or more",
            counts.len(),
            options.min_count
        ),
        hint,
    ))
}

/// Replaces old ids by new ones, dropping words without a new id and empty lines. Returns the ids that are left.
fn renumber(ids: &mut [u32], renumbered: &[u32]) -> usize {
    let mut written = 0;
    for at in 0..ids.len() {
        let new = if ids[at] == LINE_END { LINE_END } else { renumbered[ids[at] as usize] };
        let is_empty_line = written == 0 || ids[written - 1] == LINE_END;
        if new == LINE_END && (ids[at] != LINE_END || is_empty_line) {
            continue;
        }
        ids[written] = new;
        written += 1;
    }
    written
}

fn map(file: &File, path: &Path) -> Result<MmapMut> {
    // SAFETY: the file has no name, so no other program changes it.
    unsafe { MmapMut::map_mut(file) }.map_err(|error| Error::io(path, "read", error))
}

fn as_ids(bytes: &MmapMut) -> &[u32] {
    // SAFETY: any four bytes are a u32; a mapping starts at a page, so it is aligned, and the file holds whole ids.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 4) }
}

fn as_ids_mut(bytes: &mut MmapMut) -> &mut [u32] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / 4) }
}
