//! n-grams as small numbers, so that counting them is indexing a vector.
//!
//! An n-gram is its first n − 1 symbols and one more; numbering the pairs (number of the (n − 1)-gram, next symbol)
//! order by order gives equal n-grams equal numbers without ever building them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The n-grams of one order in several sequences.
pub(crate) struct Order {
    /// Per sequence, its n-grams from left to right.
    pub(crate) ids: Vec<Vec<u32>>,
    /// Ids are below this.
    distinct: usize,
}

impl Order {
    /// How often each n-gram stands in sequence `index`.
    pub(crate) fn counts(&self, index: usize) -> Vec<u32> {
        let mut counts = vec![0; self.distinct];
        for &id in &self.ids[index] {
            counts[id as usize] += 1;
        }
        counts
    }
}

/// The n-grams of `sequences` for n = 1 to `max_order`.
pub(crate) fn orders(sequences: &[Vec<u32>], max_order: usize) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::with_capacity(max_order);
    let mut numbers: HashMap<u64, u32, BuildHasherDefault<Mix>> = HashMap::default();
    for n in 1..=max_order {
        numbers.clear();
        let ids = sequences
            .iter()
            .enumerate()
            .map(|(index, symbols)| {
                let ends = symbols.get(n - 1..).unwrap_or_default();
                ends.iter()
                    .enumerate()
                    .map(|(start, &last)| {
                        let head = orders.last().map_or(0, |shorter| shorter.ids[index][start]);
                        let next = numbers.len() as u32;
                        *numbers.entry(u64::from(head) << 32 | u64::from(last)).or_insert(next)
                    })
                    .collect()
            })
            .collect();
        orders.push(Order { ids, distinct: numbers.len() });
    }
    orders
}

/// Σ min(a, b) over all n-grams: matches, each counted as often as both sides hold it.
pub(crate) fn matches(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).map(|(a, b)| a.min(b)).sum()
}

/// Numbers words: equal words, in whichever sequence, get equal ids.
pub(crate) fn word_ids(sequences: &[Vec<&str>]) -> Vec<Vec<u32>> {
    let mut numbers = HashMap::new();
    let mut number = |word| {
        let next = numbers.len() as u32;
        *numbers.entry(word).or_insert(next)
    };
    sequences.iter().map(|words| words.iter().map(|&word| number(word)).collect()).collect()
}

/// A multiplicative hash; the keys are ours, so nobody can aim for collisions.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        // The table takes its bucket from the low bits, where a product mixes least.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_n_grams_share_a_number() {
        let words = word_ids(&[vec!["a", "b", "a", "b"], vec!["b", "a", "c"], vec![]]);
        assert_eq!(words, [vec![0, 1, 0, 1], vec![1, 0, 2], vec![]]);
        let orders = orders(&words, 3);
        // ab ba ab | ba ac
        assert_eq!(orders[1].ids, [vec![0, 1, 0], vec![1, 2], vec![]]);
        assert_eq!(orders[1].counts(0), [2, 1, 0]);
        assert_eq!(matches(&orders[1].counts(0), &orders[1].counts(1)), 1);
        assert!(orders[2].ids[2].is_empty());
    }
}
