//! Index of the pairs so far, for duplicates, in at most 22 bytes per pair.
//!
//! Open-addressing tables of 64-bit hashes and line numbers. The slot is the high half of hash × capacity (no power of
//! two needed), so a table grows by half at a time: 12 × 1.5 / 0.85 bytes per pair just after growing. There are 64
//! tables, chosen by the first bits of the hash, so that only one small table is in memory twice while it grows. The
//! probability that two of n different pairs share a hash is n² / 2⁶⁵: one in 37 million for a million pairs.

use ahash::RandomState;

const MAX_LOAD: f64 = 0.85;
const TABLE_BITS: u32 = 6;

/// Hash function of lines and pairs, with fixed keys so that reports are the same in every run.
pub(crate) fn hasher() -> RandomState {
    RandomState::with_seeds(0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344)
}

/// First line of each pair, by the hash of the pair.
#[derive(Debug)]
pub(crate) struct PairIndex {
    tables: Vec<Table>,
}

impl Default for PairIndex {
    fn default() -> Self {
        Self { tables: (0..1 << TABLE_BITS).map(|_| Table::with_capacity(64)).collect() }
    }
}

impl PairIndex {
    /// Inserts `hash` at `line`; returns its first line if it is already there.
    pub(crate) fn insert(&mut self, hash: u64, line: u64) -> Option<u64> {
        let table = &mut self.tables[(hash >> (u64::BITS - TABLE_BITS)) as usize];
        table.insert((hash << TABLE_BITS).max(1), u32::try_from(line).unwrap_or(u32::MAX))
    }
}

#[derive(Debug)]
struct Table {
    /// 0 marks a free slot.
    hashes: Vec<u64>,
    lines: Vec<u32>,
    used: usize,
}

impl Table {
    fn with_capacity(capacity: usize) -> Self {
        Self { hashes: vec![0; capacity], lines: vec![0; capacity], used: 0 }
    }

    fn insert(&mut self, hash: u64, line: u32) -> Option<u64> {
        if (self.used + 1) as f64 > self.hashes.len() as f64 * MAX_LOAD {
            self.grow();
        }
        let slot = self.slot(hash);
        if self.hashes[slot] == hash {
            return Some(u64::from(self.lines[slot]));
        }
        self.hashes[slot] = hash;
        self.lines[slot] = line;
        self.used += 1;
        None
    }

    /// The slot of `hash`, or the free slot where it belongs.
    fn slot(&self, hash: u64) -> usize {
        let capacity = self.hashes.len();
        let mut slot = ((u128::from(hash) * capacity as u128) >> 64) as usize;
        while self.hashes[slot] != 0 && self.hashes[slot] != hash {
            slot += 1;
            if slot == capacity {
                slot = 0;
            }
        }
        slot
    }

    fn grow(&mut self) {
        let mut larger = Self::with_capacity(self.hashes.len() * 3 / 2);
        for (&hash, &line) in self.hashes.iter().zip(&self.lines).filter(|&(&hash, _)| hash != 0) {
            let slot = larger.slot(hash);
            larger.hashes[slot] = hash;
            larger.lines[slot] = line;
        }
        larger.used = self.used;
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::Random;

    #[test]
    fn agrees_with_a_map_over_many_growths() {
        let mut index = PairIndex::default();
        let mut map = std::collections::HashMap::new();
        for line in 1..60_000 {
            let hash = Random::new(Random::new(1).below(40_000, line) as u64).u64(0);
            let expected = map.get(&hash).copied();
            map.entry(hash).or_insert(line);
            assert_eq!(index.insert(hash, line), expected);
        }
    }
}
