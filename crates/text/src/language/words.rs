//! The words of a text, each in two spellings: plain, and original.
//!
//! Case carries no information about the language and is dropped; accents carry much, but are often omitted. So a word
//! has a `plain` spelling (étudiant → etudiant, IŞIK → isik, groß → gross) and a `marked` one (étudiant, işık, groß).
//! Turkish `I` is `ı` and English `I` is `i`: plain is `i` for both, and only a written `ı` or `İ` counts as a mark.
//!
//! Skipped: addresses, e-mails, file names, and words with digits.

use unicode_categories::UnicodeCategories as _;
use unicode_normalization_alignments::UnicodeNormalization as _;
use unicode_normalization_alignments::char::decompose_canonical;

/// Letters without a canonical decomposition, and their plain spellings.
const PLAIN: [(char, &str); 9] = [
    ('ß', "ss"),
    ('ı', "i"),
    ('æ', "ae"),
    ('œ', "oe"),
    ('ø', "o"),
    ('đ', "d"),
    ('ð', "d"),
    ('ł', "l"),
    ('þ', "th"),
];

/// A word in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Word {
    /// Without accents.
    pub(super) plain: Vec<char>,
    /// With accents, as in the text.
    pub(super) marked: Vec<char>,
}

/// Calls `found` with every word of `text`, in order.
pub(super) fn each_word(text: &str, mut found: impl FnMut(&Word)) {
    let mut word = Word::default();
    for token in text.split_whitespace() {
        if is_address(token) {
            continue;
        }
        if token.is_ascii() {
            words_of(token.chars(), &mut word, &mut found);
        } else {
            words_of(token.nfkc().map(|(c, _)| c), &mut word, &mut found);
        }
    }
}

fn words_of(letters: impl Iterator<Item = char>, word: &mut Word, found: &mut impl FnMut(&Word)) {
    let mut letters = letters.peekable();
    let mut has_digit = false;
    while let Some(c) = letters.next() {
        if c.is_alphabetic() || (c.is_mark() && !word.plain.is_empty()) {
            push(c, word);
        } else if c.is_numeric() {
            has_digit = true;
        } else if is_apostrophe(c)
            && !word.plain.is_empty()
            && letters.peek().is_some_and(|c| c.is_alphabetic())
        {
            word.plain.push('\'');
            word.marked.push('\'');
        } else {
            give(word, &mut has_digit, found);
        }
    }
    give(word, &mut has_digit, found);
}

fn give(word: &mut Word, has_digit: &mut bool, found: &mut impl FnMut(&Word)) {
    if !word.plain.is_empty() && !*has_digit {
        found(word);
    }
    word.plain.clear();
    word.marked.clear();
    *has_digit = false;
}

fn push(c: char, word: &mut Word) {
    if c.is_ascii() {
        let c = c.to_ascii_lowercase();
        word.plain.push(c);
        word.marked.push(c);
        return;
    }
    for small in c.to_lowercase() {
        word.marked.push(small);
        if let Some((_, plain)) = PLAIN.iter().find(|(c, _)| *c == small) {
            word.plain.extend(plain.chars());
        } else {
            decompose_canonical(small, |part| {
                if !part.is_mark_nonspacing() {
                    word.plain.push(part);
                }
            });
        }
    }
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | 'ʼ' | '‘')
}

/// True if a token is an address, an e-mail, or the name of a host or file (`example.com`, `notes.txt`).
fn is_address(token: &str) -> bool {
    let token = token.trim_matches(|c: char| !c.is_alphanumeric());
    if token.contains("://") || token.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www.")) {
        return true;
    }
    let is_inside = |at: usize| {
        let before = token[..at].chars().next_back();
        let after = token[at + 1..].chars().next();
        before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric)
    };
    // `end.Start` is two sentences without a space between them, `host.name` is one name.
    let is_name = |at: usize| {
        token.is_ascii() && is_inside(at) && token[at + 1..].starts_with(|c: char| c.is_ascii_lowercase())
    };
    token.match_indices('@').any(|(at, _)| is_inside(at))
        || token.match_indices('.').any(|(at, _)| is_name(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        each_word(text, |word| all.push((word.plain.iter().collect(), word.marked.iter().collect())));
        all
    }

    fn plain(text: &str) -> Vec<String> {
        words(text).into_iter().map(|(plain, _)| plain).collect()
    }

    #[test]
    fn words_have_a_plain_and_a_marked_spelling() {
        let pair = |plain: &str, marked: &str| (plain.to_owned(), marked.to_owned());
        assert_eq!(
            words("Je suis ÉTUDIANT."),
            [pair("je", "je"), pair("suis", "suis"), pair("etudiant", "étudiant")]
        );
        assert_eq!(words("Groß, GROSS"), [pair("gross", "groß"), pair("gross", "gross")]);
        assert_eq!(words("e\u{301}te\u{301}"), words("été"));
    }

    #[test]
    fn both_turkish_letters_i_are_plain_i() {
        assert_eq!(plain("ışık IŞIK İstanbul istanbul"), ["isik", "isik", "istanbul", "istanbul"]);
        // İ in lower case by the default Unicode mapping.
        assert_eq!(words("İzmir"), words("i\u{307}zmir"));
        assert_ne!(words("İzmir"), words("Izmir"));
    }

    #[test]
    fn addresses_digits_and_symbols_are_skipped() {
        let text = "see https://example.org/the/page?of=all, WWW.example.DE or mail me@the.example.com (notes.txt) mp3 2nd";
        assert_eq!(plain(text), ["see", "or", "mail"]);
        assert_eq!(plain("1234 5,6 — !? 🙂 \u{E000}"), Vec::<String>::new());
    }

    #[test]
    fn apostrophes_join_letters_only() {
        assert_eq!(
            plain("l’homme don't 'yes' 1980'lerde end.Start"),
            ["l'homme", "don't", "yes", "lerde", "end", "start"]
        );
    }
}
