//! Weights between words from weights between tokens.
//!
//! Rows (queries) of a word's tokens are averaged, columns (keys) are summed (Clark et al. 2019), so that rows keep their sum
//! less the weight of tokens without text. A word is a run without white space; a token belongs to the word that it ends in.

use crate::matrix::Matrix;

/// The words of one side's tokens.
#[derive(Debug, Clone, Copy)]
pub struct WordGrouping<'a> {
    /// Word index of each token; `None` for tokens without text, which are left out.
    pub word_of: &'a [Option<usize>],
    /// Number of words.
    pub n_words: usize,
}

/// Converts token weights to word weights: mean over a query word's tokens, sum over a key word's. `None` if a side has no
/// words.
pub fn word_weights(tokens: &Matrix, queries: WordGrouping<'_>, keys: WordGrouping<'_>) -> Option<Matrix> {
    if queries.n_words == 0 || keys.n_words == 0 {
        return None;
    }
    let mut found = Matrix::zeros(queries.n_words, keys.n_words);
    let mut counts = vec![0_u32; queries.n_words];
    for (row, query) in tokens.rows().zip(queries.word_of) {
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
    fn query_words_are_means_and_key_words_are_sums() {
        let pieces = Matrix::new(4, vec![0.1, 0.2, 0.3, 0.4, 0.3, 0.4, 0.1, 0.2, 0.0, 0.0, 0.5, 0.5]);
        let queries = WordGrouping { word_of: &[Some(0), Some(0), None], n_words: 1 };
        let keys = WordGrouping { word_of: &[Some(0), Some(0), Some(1), None], n_words: 2 };
        let found = word_weights(&pieces, queries, keys).unwrap();
        assert!((found.row(0)[0] - 0.5).abs() < 1e-6 && (found.row(0)[1] - 0.2).abs() < 1e-6, "{found:?}");
        assert_eq!(word_weights(&pieces, WordGrouping { word_of: &[], n_words: 0 }, keys), None);
    }
}
