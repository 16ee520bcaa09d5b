//! Word alignment from attention: every target word is aligned with the source word that it attends to most.
//!
//! a(j) = argmax_i w_ji over word weights w, best taken from the cross-attention of one late layer, averaged over its heads
//! (Garg et al. 2019), each token of a target word weighted by its length. Written in Pharaoh format: `0-0 1-2`, source word
//! first, both counted from 0.

use crate::matrix::Matrix;

/// Pairs (source word, target word) by target word. Of equal weights the first wins; a word without weights has no pair.
pub fn alignment(weights: &Matrix) -> Vec<(usize, usize)> {
    let strongest = |row: &[f32]| {
        let found = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
        found.filter(|(_, weight)| **weight > 0.0).map(|(source, _)| source)
    };
    let rows = weights.rows().enumerate();
    rows.filter_map(|(target, row)| Some((strongest(row)?, target))).collect()
}

/// Pairs in Pharaoh format.
pub fn pharaoh(pairs: &[(usize, usize)]) -> String {
    pairs.iter().map(|(source, target)| format!("{source}-{target}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_source_word_wins() {
        let weights = Matrix::new(3, vec![0.2, 0.5, 0.3, 0.0, 0.0, 0.0, 0.4, 0.1, 0.4]);
        let pairs = alignment(&weights);
        assert_eq!(pairs, [(1, 0), (0, 2)]);
        assert_eq!(pharaoh(&pairs), "1-0 0-2");
    }
}
