//! Spelling suggestions: the known word that was probably meant.

/// Longest part of a word that is compared, in characters: the cost is the product of both lengths.
const MAX_CHARS: usize = 100;

/// The word of `known` with the smallest edit distance to `word`, the first on ties. Words that contain `word` come
/// before all others.
///
/// ```
/// use polyhead_text::spelling::nearest;
/// assert_eq!(nearest("warmup", ["peak", "warmup_steps"]), Some("warmup_steps"));
/// assert_eq!(nearest("d_modle", ["n_heads", "d_model"]), Some("d_model"));
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(MAX_CHARS).collect();
    known.into_iter().min_by_key(|known| (!known.contains(&word), strsim::levenshtein(known, &word)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn distances_by_hand() {
        assert_eq!(strsim::levenshtein("kitten", "sitting"), 3);
        assert_eq!(strsim::levenshtein("", "abc"), 3);
        assert_eq!(strsim::levenshtein("d_model", "d_model"), 0);
    }
}
