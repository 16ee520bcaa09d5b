//! Sentences in capitals: read in sentence case, written in capitals again, by the rules of their languages.
//!
//! The spelling of a word in sentence case (*Mary*, *NATO*, *Hund*) does not follow from its capitals, but from the
//! vocabulary: of *mary*, *Mary* and *MARY* the spelling with the fewest tokens is the usual one.

/// Minimum number of letters of a single word; shorter ones are as likely an abbreviation (*NATO*).
const MIN_LETTERS_OF_ONE_WORD: usize = 5;
/// Minimum number of letters of several words together.
const MIN_LETTERS: usize = 5;
/// Minimum number of letters of the longest of several words.
const MIN_LETTERS_OF_LONGEST: usize = 3;

/// True if `text` is all in capitals and more than an abbreviation.
pub(super) fn is_in_capitals(text: &str) -> bool {
    if text.contains(char::is_lowercase) {
        return false;
    }
    let words = text.split(|letter: char| !letter.is_alphabetic());
    let lengths: Vec<usize> = words
        .map(|word| word.chars().filter(|letter| letter.is_uppercase()).count())
        .filter(|n| *n > 0)
        .collect();
    match lengths.as_slice() {
        [] => false,
        [only] => *only >= MIN_LETTERS_OF_ONE_WORD,
        many => {
            many.iter().sum::<usize>() >= MIN_LETTERS && many.iter().any(|n| *n >= MIN_LETTERS_OF_LONGEST)
        }
    }
}

/// A word in small letters; Turkish has *ı* for *I* and *i* for *İ*.
pub(super) fn lower(word: &str, language: &str) -> String {
    let dotted = has_two_i(language);
    word.chars().fold(String::new(), |mut lower, letter| {
        match letter {
            'I' if dotted => lower.push('ı'),
            'İ' => lower.push('i'),
            _ => lower.extend(letter.to_lowercase()),
        }
        lower
    })
}

/// A letter in capitals; Turkish has *İ* for *i*, German *SS* for *ß*.
pub(super) fn upper(letter: char, language: &str) -> String {
    match letter {
        'i' if has_two_i(language) => "İ".into(),
        _ => letter.to_uppercase().collect(),
    }
}

/// The usual spelling of a word of a sentence in capitals; `n_tokens` counts the tokens of a spelling.
pub(super) fn usual(word: &str, language: &str, n_tokens: &dyn Fn(&str) -> usize) -> String {
    if word == "I" && language == "en" {
        return word.into();
    }
    let small = lower(word, language);
    // Ties go to small letters: short words in capitals may be single tokens too.
    [capitalised(&small, language), word.to_owned()]
        .into_iter()
        .fold(small, |best, spelling| if n_tokens(&spelling) < n_tokens(&best) { spelling } else { best })
}

/// A word with its first letter in capitals.
pub(super) fn capitalised(word: &str, language: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| upper(first, language) + letters.as_str())
}

fn has_two_i(language: &str) -> bool {
    matches!(language, "tr" | "az" | "tt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_not_sentences_in_capitals() {
        for text in [
            "THE CAT ATE THE MOUSE.",
            "HELLO",
            "NO WAY!",
            "I AM HERE",
            "BUGÜN HAVA GÜZEL",
            "ÖĞRETMEN",
            "GROẞE 3",
        ] {
            assert!(is_in_capitals(text), "{text}");
        }
        for text in [
            "NATO",
            "USA",
            "I",
            "A B C D",
            "McDONALD",
            "12 34",
            "",
            "OK, OK",
            "The USA",
            "漢字漢字漢字",
            "U.S.A.",
        ] {
            assert!(!is_in_capitals(text), "{text}");
        }
    }

    #[test]
    fn case_follows_the_language() {
        assert_eq!([lower("ISI", "tr"), lower("İYİ", "tr"), lower("IS", "en")], ["ısı", "iyi", "is"]);
        let upper = |text: &str, language: &str| {
            text.chars().map(|letter| upper(letter, language)).collect::<String>()
        };
        assert_eq!(
            [upper("iyi ısı", "tr"), upper("straße", "de"), upper("été", "fr")],
            ["İYİ ISI", "STRASSE", "ÉTÉ"]
        );
        assert_eq!(capitalised("istanbul", "tr"), "İstanbul");
    }

    #[test]
    fn the_spelling_with_the_fewest_tokens_is_usual() {
        let n_tokens =
            |word: &str| if ["Mary", "NATO", "cat", "CAT"].contains(&word) { 1 } else { word.len() };
        let usual = |word: &str| usual(word, "en", &n_tokens);
        assert_eq!(["MARY", "NATO", "CAT", "XYLO", "I"].map(usual), ["Mary", "NATO", "cat", "xylo", "I"]);
    }
}
