//! N-grams as consecutive ids, so that they are counted in a vector.
//!
//! An n-gram is an (n − 1)-gram and one more symbol; numbering the pairs (id of the (n − 1)-gram, next symbol) order by
//! order gives equal n-grams equal ids without building the n-grams.

use ahash::AHashMap;

/// The n-grams of one order in several sequences.
pub(crate) struct NgramOrder {
    /// Per sequence, the ids of its n-grams from left to right.
    pub(crate) ids: Vec<Vec<u32>>,
    /// Number of distinct n-grams; ids are below it.
    distinct: usize,
}

impl NgramOrder {
    /// Count of each n-gram in sequence `index`.
    pub(crate) fn counts(&self, index: usize) -> Vec<u32> {
        let mut counts = vec![0; self.distinct];
        for &id in &self.ids[index] {
            counts[id as usize] += 1;
        }
        counts
    }
}

/// The n-grams of `sequences` for n = 1 to `max_order`.
pub(crate) fn orders(sequences: &[Vec<u32>], max_order: usize) -> Vec<NgramOrder> {
    let mut orders: Vec<NgramOrder> = Vec::with_capacity(max_order);
    let mut ids_of: AHashMap<u64, u32> = AHashMap::new();
    for n in 1..=max_order {
        ids_of.clear();
        let ids = sequences
            .iter()
            .enumerate()
            .map(|(index, symbols)| {
                let ends = symbols.get(n - 1..).unwrap_or_default();
                ends.iter()
                    .enumerate()
                    .map(|(start, &last)| {
                        let head = orders.last().map_or(0, |shorter| shorter.ids[index][start]);
                        let next = ids_of.len() as u32;
                        *ids_of.entry(u64::from(head) << 32 | u64::from(last)).or_insert(next)
                    })
                    .collect()
            })
            .collect();
        orders.push(NgramOrder { ids, distinct: ids_of.len() });
    }
    orders
}

/// Clipped matches: Σ min(a, b) over the counts of all n-grams.
pub(crate) fn matches(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).map(|(a, b)| a.min(b)).sum()
}

/// Ids of words: equal words, in any sequence, have equal ids.
pub(crate) fn word_ids(sequences: &[Vec<&str>]) -> Vec<Vec<u32>> {
    let mut ids_of = AHashMap::new();
    let mut id = |word| {
        let next = ids_of.len() as u32;
        *ids_of.entry(word).or_insert(next)
    };
    sequences.iter().map(|words| words.iter().map(|&word| id(word)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_n_grams_share_an_id() {
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
