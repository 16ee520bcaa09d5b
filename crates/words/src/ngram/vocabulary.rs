//! The words of a model, by id and by spelling.

use std::sync::Arc;

use memmap2::Mmap;

use super::table::Table;
use super::{SPECIAL, UNKNOWN};

/// Words by id and by spelling: all spellings one after the other, and a hash table of ids.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    text: Table<u8>,
    /// Start of each word in `text`, and the end of the last.
    starts: Table<u32>,
    /// Open addressing: id + 1, or 0 for a free place. Its size is a power of two.
    slots: Table<u32>,
}

/// A multiplicative hash of a word, the same on every machine: it is part of the file format.
fn hash(word: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = (word.len() as u64).wrapping_mul(FACTOR);
    let mut chunks = word.chunks_exact(8);
    for chunk in &mut chunks {
        let number = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        hash = (hash ^ number).wrapping_mul(FACTOR).rotate_left(29);
    }
    let mut rest = [0; 8];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash = (hash ^ u64::from_le_bytes(rest)).wrapping_mul(FACTOR);
    hash ^ (hash >> 32)
}

impl Words {
    /// The special words only.
    pub(crate) fn new() -> Self {
        let mut words = Self {
            text: Table::Owned(Vec::new()),
            starts: Table::Owned(vec![0]),
            slots: Table::Owned(vec![0; 16]),
        };
        for word in SPECIAL {
            words.add(word.as_bytes());
        }
        words
    }

    /// The arrays of a file; `None` if they do not fit together.
    pub(crate) fn mapped(
        file: &Arc<Mmap>,
        text: (usize, usize),
        starts: (usize, usize),
        slots: (usize, usize),
    ) -> Option<Self> {
        let words = Self {
            text: Table::mapped(file, text.0, text.1)?,
            starts: Table::mapped(file, starts.0, starts.1)?,
            slots: Table::mapped(file, slots.0, slots.1)?,
        };
        let is_sorted = words.starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let is_whole = words.starts.last().is_some_and(|end| *end as usize == words.text.len());
        let is_table = words.slots.len().is_power_of_two() && words.slots.contains(&0);
        let is_known = words.slots.iter().all(|slot| (*slot as usize) < words.starts.len());
        let is_text = std::str::from_utf8(&words.text).is_ok();
        (is_sorted && is_whole && is_table && is_known && is_text && words.len() >= SPECIAL.len())
            .then_some(words)
    }

    /// The arrays as they are in a file: text, starts, slots.
    pub(crate) fn arrays(&self) -> [&[u8]; 3] {
        [self.text.bytes(), self.starts.bytes(), self.slots.bytes()]
    }

    /// Number of words, special ones included.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The spelling of an id.
    pub(crate) fn word(&self, id: u32) -> &str {
        std::str::from_utf8(self.bytes(id)).unwrap_or(SPECIAL[UNKNOWN as usize])
    }

    fn bytes(&self, id: u32) -> &[u8] {
        let at = id as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&start), Some(&end)) => &self.text[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The id of a word, if it is known.
    pub(crate) fn find(&self, word: &[u8]) -> Option<u32> {
        self.slot(word).ok()
    }

    /// The id of a word, or the free place for it.
    fn slot(&self, word: &[u8]) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut place = hash(word) as usize & mask;
        loop {
            match self.slots[place] {
                0 => return Err(place),
                id if self.bytes(id - 1) == word => return Ok(id - 1),
                _ => place = (place + 1) & mask,
            }
        }
    }

    /// The id of a word, which is added if it is new.
    pub(crate) fn add(&mut self, word: &[u8]) -> u32 {
        let free = match self.slot(word) {
            Ok(id) => return id,
            Err(free) => free,
        };
        let id = self.len() as u32;
        let (Table::Owned(text), Table::Owned(starts), Table::Owned(slots)) =
            (&mut self.text, &mut self.starts, &mut self.slots)
        else {
            unreachable!("words are added to a table in memory")
        };
        text.extend_from_slice(word);
        starts.push(text.len() as u32);
        slots[free] = id + 1;
        if slots.len() < 2 * starts.len() {
            self.grow();
        }
        id
    }

    fn grow(&mut self) {
        self.slots = Table::Owned(vec![0; 2 * self.slots.len()]);
        for id in 0..self.len() as u32 {
            let Err(free) = self.slot(self.bytes(id)) else { continue };
            if let Table::Owned(slots) = &mut self.slots {
                slots[free] = id + 1;
            }
        }
    }
}
