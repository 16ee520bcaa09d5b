//! The word that was probably meant.

/// So many letters of a word are looked at: comparing costs the product of both lengths.
const MOST_LETTERS: usize = 100;

/// The word of `known` that differs least from `word`, the first of several; one that holds the whole of it comes before.
///
/// ```
/// use polyhead_text::spelling::nearest;
/// assert_eq!(nearest("warmup", ["peak", "warmup_steps"]), Some("warmup_steps"));
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(MOST_LETTERS).collect();
    known.into_iter().min_by_key(|known| (!known.contains(&word), distance(known, &word)))
}

/// How many letters must be put in, taken out or changed to make `b` of `a` (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("d_model", "d_model"), 0);
    }
}
