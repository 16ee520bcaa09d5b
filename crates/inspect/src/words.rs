//! From pieces to words: weights of a word's pieces taken together.
//!
//! A word looks with the mean of its pieces and is looked at with their sum (Clark et al. 2019), so that rows still sum
//! to what they summed to, less what goes to tokens without text. A word is a run without white space; a piece belongs to the word that it ends in.

use crate::matrix::Matrix;

/// The pieces of one side: the word of each, and how many words there are.
#[derive(Debug, Clone, Copy)]
pub struct Grouping<'a> {
    /// The word of each piece; none for those that stand for no text, which are left out.
    pub word_of: &'a [Option<usize>],
    /// Words.
    pub n_words: usize,
}

/// Weights between pieces as weights between words: mean over a query word's pieces, sum over a key word's. None if a
/// side has no words.
pub fn word_weights(pieces: &Matrix, queries: Grouping<'_>, keys: Grouping<'_>) -> Option<Matrix> {
    if queries.n_words == 0 || keys.n_words == 0 {
        return None;
    }
    let mut found = Matrix::zeros(queries.n_words, keys.n_words);
    let mut counts = vec![0_u32; queries.n_words];
    for (row, query) in pieces.rows().zip(queries.word_of) {
        let Some(query) = *query else { continue };
        counts[query] += 1;
        let out = found.row_mut(query);
        for (weight, key) in row.iter().zip(keys.word_of) {
            if let Some(key) = *key {
                out[key] += weight;
            }
        }
    }
    for (query, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 1) {
        found.row_mut(query).iter_mut().for_each(|sum| *sum /= count as f32);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_look_with_their_mean_and_are_looked_at_with_their_sum() {
        let pieces = Matrix::new(4, vec![0.1, 0.2, 0.3, 0.4, 0.3, 0.4, 0.1, 0.2, 0.0, 0.0, 0.5, 0.5]);
        let queries = Grouping { word_of: &[Some(0), Some(0), None], n_words: 1 };
        let keys = Grouping { word_of: &[Some(0), Some(0), Some(1), None], n_words: 2 };
        let found = word_weights(&pieces, queries, keys).unwrap();
        assert!((found.row(0)[0] - 0.5).abs() < 1e-6 && (found.row(0)[1] - 0.2).abs() < 1e-6, "{found:?}");
        assert_eq!(word_weights(&pieces, Grouping { word_of: &[], n_words: 0 }, keys), None);
    }
}
