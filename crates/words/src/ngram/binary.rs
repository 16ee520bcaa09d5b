//! The binary format: the arrays of a model, mapped into memory.
//!
//! ```text
//! magic (16 bytes) · header: order, unit, lengths of text, starts and slots, numbers of n-grams (u64 each) · a checksum of these ·
//! starts · slots · words and nodes of each order below the highest, 4 and 12 bytes an n-gram · words and probabilities of the
//! highest order, 4 and 4 bytes · text
//! ```
//!
//! Everything is little-endian and at a multiple of 16 bytes. Loading reads the header and the words; n-grams are read from
//! the file when they are looked up.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use polyhead_text::output::Output;

use super::MAX_ORDER;
use super::count::TextUnit;
use super::model::{Inner, Leaves, Level, NgramModel, Node};
use super::table::Table;
use super::vocabulary::Words;
use crate::{Error, Result};

const MAGIC: [u8; 16] = *b"polyhead-ngram-1";
/// Arrays begin at multiples of this.
const ALIGNMENT: usize = 16;
/// Numbers of the header: order, unit, three lengths of the words, the lengths of all levels, and the checksum.
const HEADER: usize = 5 + MAX_ORDER + 1;

/// True if a file begins as one of this format.
pub(super) fn is_binary(path: &Path) -> Result<bool> {
    let mut magic = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    Ok(file.read_exact(&mut magic).is_ok() && magic == MAGIC)
}

fn damaged(path: &Path, message: &str) -> Error {
    Error::file(
        path,
        format!("{message}, expected an n-gram model"),
        "the file is damaged: convert or train it again",
    )
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// A sum over the numbers of the header by which a damaged one is found.
fn checksum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x706F_6C79, |sum: u64, number| {
        (sum ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
    })
}

/// Maps a file into memory.
pub(super) fn load(path: &Path) -> Result<NgramModel> {
    if cfg!(target_endian = "big") {
        return Err(Error::file(
            path,
            "a binary model on a big-endian machine",
            "read the ARPA file instead",
        ));
    }
    let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    // SAFETY: Polyhead writes such a file under another name and renames it, so it does not change while it is mapped.
    // Whatever it holds, every index is checked when it is used.
    let file = unsafe { Mmap::map(&file) }.map_err(|error| Error::io(path, "map", error))?;
    let file = Arc::new(file);
    let short = || damaged(path, "a file that ends early");
    let header = file.get(MAGIC.len()..MAGIC.len() + 8 * HEADER).ok_or_else(short)?;
    let numbers: Vec<u64> = header
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
        .collect();
    let (numbers, sum) = numbers.split_at(HEADER - 1);
    let order = numbers[0] as usize;
    if checksum(numbers) != sum[0] || !(1..=MAX_ORDER).contains(&order) || numbers[1] > 1 {
        return Err(damaged(path, "an invalid header"));
    }
    let unit = if numbers[1] == 1 { TextUnit::Character } else { TextUnit::Word };
    let lengths: Vec<usize> = numbers[2..].iter().map(|number| *number as usize).collect();
    let mut at = aligned(MAGIC.len() + 8 * HEADER);
    let mut next = |len: usize, size: usize| {
        let start = at;
        at = aligned(at.checked_add(len.checked_mul(size)?)?);
        Some((start, len))
    };
    let starts = next(lengths[1], 4).ok_or_else(short)?;
    let slots = next(lengths[2], 4).ok_or_else(short)?;
    let mut levels = Vec::new();
    let (mut leaves, below) = (None, if order > 1 { order - 1 } else { 1 });
    for (at, &len) in lengths[3..3 + order].iter().enumerate() {
        let (start, len) = next(len, 4).ok_or_else(short)?;
        let words = Table::mapped(&file, start, len).ok_or_else(short)?;
        if at < below {
            let (start, len) = next(len.saturating_add(1), size_of::<Node>()).ok_or_else(short)?;
            levels.push(Level { words, nodes: Table::mapped(&file, start, len).ok_or_else(short)? });
        } else {
            let (start, len) = next(len, 4).ok_or_else(short)?;
            leaves = Some(Leaves { words, probs: Table::mapped(&file, start, len).ok_or_else(short)? });
        }
    }
    let text = next(lengths[0], 1).ok_or_else(short)?;
    let words =
        Words::mapped(&file, text, starts, slots).ok_or_else(|| damaged(path, "an invalid list of words"))?;
    if levels[0].words.len() != words.len() {
        return Err(damaged(path, "a list of words that does not match its n-grams"));
    }
    Ok(NgramModel { inner: Arc::new(Inner { words, levels, leaves, unit }) })
}

/// Writes a model.
pub(super) fn save(model: &NgramModel, path: &Path) -> Result<()> {
    if cfg!(target_endian = "big") {
        return Err(Error::file(
            path,
            "a binary model on a big-endian machine",
            "write an .arpa file instead",
        ));
    }
    let inner = &model.inner;
    let [text, starts, slots] = inner.words.arrays();
    let mut numbers = vec![model.order() as u64, u64::from(inner.unit == TextUnit::Character)];
    numbers.extend([text.len(), starts.len() / 4, slots.len() / 4].map(|len| len as u64));
    numbers.extend(model.counts().iter().map(|count| *count as u64));
    numbers.resize(HEADER - 1, 0);
    numbers.push(checksum(&numbers));
    let mut out = Output::create(path)?;
    out.write(&MAGIC)?;
    let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    out.write(&header)?;
    let mut at = MAGIC.len() + header.len();
    let below = inner.levels.iter().flat_map(|level| [level.words.bytes(), level.nodes.bytes()]);
    let highest = inner.leaves.iter().flat_map(|leaves| [leaves.words.bytes(), leaves.probs.bytes()]);
    let arrays = [starts, slots].into_iter().chain(below).chain(highest).chain([text]);
    for bytes in arrays {
        out.write(&[0; ALIGNMENT][..aligned(at) - at])?;
        out.write(bytes)?;
        at = aligned(at) + bytes.len();
    }
    Ok(out.finish()?)
}
