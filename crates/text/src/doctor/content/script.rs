//! Script: a side of a Latin-script language whose letters are mostly of another script.

use unicode_categories::UnicodeCategories as _;

/// Fewest letters of another script; `α` alone is a sign.
const MIN_LETTERS: usize = 2;

/// Letters of `text` that are not Latin, and all its letters, if the former are more than half. Words that `other` has too
/// do not count: examples and names stay as they are.
pub(super) fn foreign(text: &str, other: &str) -> Option<[usize; 2]> {
    if text.is_ascii() || !is_mostly_foreign(count(text)) {
        return None;
    }
    let own = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !other.contains(word));
    let letters = own.map(count).fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    is_mostly_foreign(letters).then_some(letters)
}

fn is_mostly_foreign([n_foreign, n_letters]: [usize; 2]) -> bool {
    n_foreign >= MIN_LETTERS && 2 * n_foreign > n_letters
}

/// Letters that are not Latin, and all letters.
fn count(text: &str) -> [usize; 2] {
    let letters = text.chars().filter(|c| c.is_letter());
    letters.fold([0, 0], |[n_foreign, n_letters], c| [n_foreign + usize::from(!is_latin(c)), n_letters + 1])
}

/// True for the letters of the blocks of Latin, and for signs among letters (ª, º, K for Kelvin, ℓ, ﬁ).
fn is_latin(c: char) -> bool {
    matches!(c,
        '\0'..='\u{2ff}' | '\u{1d00}'..='\u{1dbf}' | '\u{1e00}'..='\u{1eff}' | '\u{2070}'..='\u{218f}'
        | '\u{2c60}'..='\u{2c7f}' | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{ab6f}' | '\u{fb00}'..='\u{fb06}'
        | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d6a3}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted_by_script() {
        assert_eq!(foreign("Привет, Tom", "Hello, Thomas"), Some([6, 9]));
        assert_eq!(foreign("漢字", "kanji"), Some([2, 2]));
        assert_eq!(foreign("مرحبا", "hello"), Some([5, 5]));
        assert_eq!(foreign("А, Б, …, Аа, Бб (Rusça)", "А, Б, …, Аа, Бб (Russian)"), None);
        for latin in ["İğdır", "α = β", "Œuvre à 5 µm", "— 12 €", "🙂", "ﬁn", "Tom said “Привет” once"]
        {
            assert_eq!(foreign(latin, "alpha = β"), None, "{latin}");
        }
    }
}
