//! Sentences in capitals: read in sentence case, written in capitals again, by the rules of their languages.
//!
//! How a word is spelled in sentence case (*Mary*, *NATO*, *Hund*) is not known from its capitals. The vocabulary knows:
//! of *mary*, *Mary* and *MARY* the spelling of the fewest pieces is the usual one.

/// Letters of a word that is a sentence by itself; shorter ones are as likely an abbreviation (*NATO*).
const LETTERS_OF_WORD: usize = 5;
/// Letters of several words together.
const LETTERS_OF_WORDS: usize = 5;
/// Letters that the longest of several words has at least.
const LETTERS_OF_LONGEST: usize = 3;

/// Whether `text` is written all in capitals, and not only an abbreviation.
pub(crate) fn is_in_capitals(text: &str) -> bool {
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
        [only] => *only >= LETTERS_OF_WORD,
        many => {
            many.iter().sum::<usize>() >= LETTERS_OF_WORDS && many.iter().any(|n| *n >= LETTERS_OF_LONGEST)
        }
    }
}

/// A word in small letters; Turkish has *ı* for *I* and *i* for *İ*.
pub(crate) fn lower(word: &str, language: &str) -> String {
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
pub(crate) fn upper(letter: char, language: &str) -> String {
    match letter {
        'i' if has_two_i(language) => "İ".into(),
        _ => letter.to_uppercase().collect(),
    }
}

/// A word of a sentence in capitals as it is usually spelled; `n_pieces` counts the pieces of a spelling.
pub(crate) fn usual(word: &str, language: &str, n_pieces: &dyn Fn(&str) -> usize) -> String {
    if word == "I" && language == "en" {
        return word.into();
    }
    let small = lower(word, language);
    // A word keeps its capitals only where that is by far the usual: small words in capitals may be pieces too.
    [capitalised(&small, language), word.to_owned()]
        .into_iter()
        .fold(small, |best, spelling| if n_pieces(&spelling) < n_pieces(&best) { spelling } else { best })
}

/// The first letter in capitals.
pub(crate) fn capitalised(word: &str, language: &str) -> String {
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
    fn abbreviations_are_no_sentences() {
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
    fn each_language_has_its_letters() {
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
    fn a_word_is_spelled_as_the_vocabulary_has_it() {
        let n_pieces =
            |word: &str| if ["Mary", "NATO", "cat", "CAT"].contains(&word) { 1 } else { word.len() };
        let usual = |word: &str| usual(word, "en", &n_pieces);
        assert_eq!(["MARY", "NATO", "CAT", "XYLO", "I"].map(usual), ["Mary", "NATO", "cat", "xylo", "I"]);
    }
}
