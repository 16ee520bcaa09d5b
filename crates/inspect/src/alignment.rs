//! Word alignment from attention: every target word goes to the source word that it looks at most.
//!
//! a(j) = argmax_i w_ji over word weights w, which come best from the cross-attention of one late layer, averaged over its heads
//! (Garg et al. 2019), each piece of a target word counted by its length. Written in Pharaoh form: `0-0 1-2`, source word first,
//! both from 0.

use crate::matrix::Matrix;

/// Pairs of a source word and a target word, by target words; of equals the first, and nothing for a word that looks at
/// none.
pub fn alignment(weights: &Matrix) -> Vec<(usize, usize)> {
    let strongest = |row: &[f32]| {
        let found = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
        found.filter(|(_, weight)| **weight > 0.0).map(|(source, _)| source)
    };
    let rows = weights.rows().enumerate();
    rows.filter_map(|(target, row)| Some((strongest(row)?, target))).collect()
}

/// The Pharaoh form.
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
