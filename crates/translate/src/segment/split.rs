//! Sentence splitting; every character is preserved.
//!
//! A sentence ends at `.`, `!`, `?` or `…` with the quotes and brackets that close after them, if white space follows
//! and the next word does not begin in lower case. A full stop ends no sentence after an abbreviation, an initial, or a number
//! of one or two digits (*Mr. Smith*, *J. S. Bach*, *am 3. Oktober*). The marks of Chinese and Japanese need no space
//! after them. Tabs and line breaks always separate, and so do bars and bullets with white space around them. In doubt
//! the text stays together: a model reads two short sentences better than two halves of one.
//!
//! ```
//! use polyhead_translate::segment::split;
//! let found = split("  Dr. Ada left at 3.15 p.m. “Why?” he asked.\n好。再见。");
//! let sentences: Vec<&str> = found.sentences.iter().map(|sentence| sentence.text).collect();
//! assert_eq!(sentences, ["Dr. Ada left at 3.15 p.m. “Why?” he asked.", "好。", "再见。"]);
//! assert_eq!((found.lead, found.sentences[0].separator, found.sentences[1].separator), ("  ", "\n", ""));
//! ```

use super::abbreviations::{Follower, abbreviation};
use super::{Sentence, Split};

/// Splits a text into sentences.
pub fn split(text: &str) -> Split<'_> {
    let body = text.trim_start();
    let lead = &text[..text.len() - body.len()];
    let mut sentences = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let end = first_end(rest);
        let after = &rest[end..];
        let next = after.trim_start();
        sentences.push(Sentence { text: &rest[..end], separator: &after[..after.len() - next.len()] });
        rest = next;
    }
    Split { lead, sentences }
}

/// The byte where the first sentence of `text` ends; `text` does not begin with white space.
fn first_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let next = at + character.len_utf8();
        if is_break(character) {
            return text[..at].trim_end().len();
        }
        if is_bar(text, at, next) {
            return if at == 0 { next } else { text[..at].trim_end().len() };
        }
        if is_full_width_end(character) {
            let end = after_closing(text, next);
            // Within quotes or before a further mark the sentence continues: 「好。」と言った。
            if end == next || !text[end..].starts_with(is_text) {
                return end;
            }
            at = end;
        } else if is_end(character) {
            let end = after_closing(text, next);
            if ends_here(text, at, end) {
                return end;
            }
            at = end;
        } else {
            at = next;
        }
    }
    text.trim_end().len()
}

/// The byte after further end marks, closing quotes and brackets from `at` on.
fn after_closing(text: &str, at: usize) -> usize {
    let rest =
        text[at..].trim_start_matches(|mark| is_end(mark) || is_full_width_end(mark) || is_closing(mark));
    // French sets a space before its closing quote.
    let spaced = [" »", "\u{a0}»", "\u{202f}»"].iter().find_map(|quote| rest.strip_prefix(quote));
    let rest = spaced.filter(|after| !after.starts_with(is_text)).unwrap_or(rest);
    text.len() - rest.len()
}

/// True if the mark at `mark`, with closing quotes and brackets up to `end`, ends a sentence.
fn ends_here(text: &str, mark: usize, end: usize) -> bool {
    let rest = &text[end..];
    let next = rest.trim_start();
    if next.is_empty() {
        return true;
    }
    if next.len() == rest.len() {
        return false;
    }
    let first = next.trim_start_matches(is_opening).chars().next();
    if first.is_some_and(char::is_lowercase) {
        return false;
    }
    !(text[mark..].starts_with('.') && end == mark + 1 && is_part_of_word(&text[..mark], first))
}

/// True if a full stop after `before` belongs to its last word; `next` is the first character of the next word.
fn is_part_of_word(before: &str, next: Option<char>) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|mark: char| is_opening(mark) || mark == '-');
    let mut characters = word.chars();
    match (characters.next(), characters.next()) {
        (None, _) => true,
        (Some(only), None) => only.is_alphanumeric(),
        _ if word.chars().all(|digit| digit.is_ascii_digit()) => word.len() <= 2,
        // z.B., U.S., Ph.D; but not a web address or a number.
        _ if word.contains('.') => word.split('.').all(|part| part.chars().count() <= 2 && is_letters(part)),
        _ => match abbreviation(word) {
            Some(Follower::Anything) => true,
            Some(Follower::Number) => next.is_some_and(char::is_numeric),
            None => false,
        },
    }
}

fn is_letters(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphabetic)
}

/// True for characters that always separate: line breaks and tabs.
fn is_break(character: char) -> bool {
    matches!(character, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// True for a bar or bullet with white space around it (*Home | About us*); it is a sentence of its own.
fn is_bar(text: &str, at: usize, next: usize) -> bool {
    let is_white = |character: Option<char>| character.is_none_or(char::is_whitespace);
    matches!(&text[at..next], "|" | "•")
        && is_white(text[..at].chars().next_back())
        && is_white(text[next..].chars().next())
}

/// True for marks that end a sentence if white space follows.
fn is_end(character: char) -> bool {
    matches!(character, '.' | '!' | '?' | '…' | '؟' | '۔' | '।' | '॥')
}

/// True for marks that end a sentence without white space after them.
pub(super) fn is_full_width_end(character: char) -> bool {
    matches!(character, '。' | '！' | '？' | '｡' | '．')
}

fn is_closing(character: char) -> bool {
    matches!(
        character,
        ')' | ']' | '}' | '"' | '\'' | '”' | '’' | '»' | '›' | '“' | '」' | '』' | '）' | '】' | '》'
    )
}

fn is_opening(character: char) -> bool {
    matches!(
        character,
        '(' | '['
            | '{'
            | '"'
            | '\''
            | '“'
            | '‘'
            | '„'
            | '‚'
            | '«'
            | '‹'
            | '»'
            | '¿'
            | '¡'
            | '「'
            | '『'
            | '（'
    )
}

fn is_text(character: char) -> bool {
    !character.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        split(text).sentences.iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn sentences_end_at_end_marks() {
        assert_eq!(sentences("One. Two! Three? Four… Five"), ["One.", "Two!", "Three?", "Four…", "Five"]);
        assert_eq!(sentences("Really?! Yes... No."), ["Really?!", "Yes...", "No."]);
        assert_eq!(
            sentences("He said “Go.” She went. (It rained.) End"),
            ["He said “Go.”", "She went.", "(It rained.)", "End"]
        );
        assert_eq!(sentences("Gut. „Wirklich?“ Ja."), ["Gut.", "„Wirklich?“", "Ja."]);
        assert_eq!(sentences("« Oui. » Non. ¿Qué? Nada."), ["« Oui. »", "Non.", "¿Qué?", "Nada."]);
        assert_eq!(sentences("Geldim. İyi misin? Şimdi."), ["Geldim.", "İyi misin?", "Şimdi."]);
        assert_eq!(sentences("In 1987. Then"), ["In 1987.", "Then"]);
        assert_eq!(sentences("He said no. Then he left."), ["He said no.", "Then he left."]);
        assert_eq!(sentences("one\ttwo\nthree\r\n\nfour"), ["one", "two", "three", "four"]);
        assert_eq!(
            sentences("你好。再见！好？「好。」他说。"),
            ["你好。", "再见！", "好？", "「好。」他说。"]
        );
    }

    #[test]
    fn abbreviations_initials_and_numbers_end_no_sentence() {
        for text in [
            "Mr. Çelik paid 3.50 to Dr. J. S. Bach at 10 a.m. today.",
            "Am 3. Oktober kam z.B. Frau Prof. Meier.",
            "M. Dupont et Mme. Curie",
            "örn. Ankara ve vb. şeyler",
            "see www.example.com or v1.2.3 now",
            "“Why?” he asked. “no”",
            "Yahoo! is… fine",
            "1. First point",
            "U.S. Army",
            "See No. 5 and Fig. 3 of Jan. 2020",
            "...and so on",
        ] {
            assert_eq!(sentences(text), [text]);
        }
    }

    proptest::proptest! {
        #[test]
        fn joined_sentences_are_the_text(text in "[a-zA-Z0-9 .!?…\"'“”()\t\n\r。！「」,;\u{a0}\u{2028}\u{0}éÇ-]{0,60}|\\PC{0,40}") {
            let Split { lead, sentences } = split(&text);
            let parts = sentences.iter().flat_map(|sentence| [sentence.text, sentence.separator]);
            let joined: String = std::iter::once(lead).chain(parts).collect();
            proptest::prop_assert_eq!(&joined, &text);
            for sentence in sentences {
                proptest::prop_assert!(!sentence.text.is_empty());
                proptest::prop_assert_eq!(sentence.text.trim(), sentence.text);
                proptest::prop_assert_eq!(sentence.separator.trim(), "");
            }
        }
    }
}
