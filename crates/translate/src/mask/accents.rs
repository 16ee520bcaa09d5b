//! Text that was typed without accents: *bugun hava cok guzel* is read as *bugün hava çok güzel*.
//!
//! Without its accents a word is another token sequence, which models have hardly seen. A table per language has the
//! frequent words with accents, each for its plain spelling (`assets/make_accents.py`). It is used only where a sentence
//! has no accent at all, and words that need one are as frequent as in such a text. Measured before that last condition
//! was added: of clean sentences (Tatoeba, FLORES, NTREX, Common Voice, LibreOffice, web pages) 0 to 0.3 % are changed; of
//! the words of plain ones 96 to 98 % (German), 93 to 96 % (French) and 70 to 88 % (Turkish) are spelled right.

use std::sync::OnceLock;

use super::capitals::{capitalised, upper};

/// The words with accents of a language.
#[derive(Debug)]
pub(super) struct Accents {
    language: &'static str,
    /// A sentence without accents has at least one known word in this many.
    words_per_hit: usize,
    /// Lines of the table, sorted by plain spelling.
    lines: Vec<&'static str>,
}

/// A word of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AccentedWord {
    word: &'static str,
    /// False if its plain spelling is a word too.
    is_sure: bool,
}

impl Accents {
    /// The table of a language; none for most.
    pub(super) fn of(language: &str) -> Option<&'static Self> {
        static TABLES: [OnceLock<Accents>; 3] = [const { OnceLock::new() }; 3];
        let (index, language, text, words_per_hit) = match language {
            "de" => (0, "de", include_str!("../../assets/accents.de"), 16),
            "fr" => (1, "fr", include_str!("../../assets/accents.fr"), 16),
            "tr" => (2, "tr", include_str!("../../assets/accents.tr"), 5),
            _ => return None,
        };
        let table = || Self { language, words_per_hit, lines: text.lines().collect() };
        Some(TABLES[index].get_or_init(table))
    }

    /// True if a sentence in this language was typed without accents.
    pub(super) fn are_missing_in(&self, sentence: &str) -> bool {
        if sentence.contains(|letter: char| letter.is_alphabetic() && !letter.is_ascii()) {
            return false;
        }
        let words = || sentence.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
        let mut hits = words().filter_map(|word| self.find(word)).peekable();
        if hits.peek().is_none() {
            return false;
        }
        let (n_hits, is_sure) = hits.fold((0, false), |(n, is_sure), hit| (n + 1, is_sure || hit.is_sure));
        is_sure && n_hits * self.words_per_hit >= words().count()
    }

    /// A word with its accents, in the case of the plain one; none if it is not in the table.
    pub(super) fn restored(&self, word: &str) -> Option<String> {
        let AccentedWord { word: found, .. } = self.find(word)?;
        let is_upper = |letter: char| letter.is_ascii_uppercase();
        Some(match (word.starts_with(is_upper), word[1..].chars().all(is_upper)) {
            (true, true) => found.chars().map(|letter| upper(letter, self.language)).collect(),
            (true, false) => capitalised(found, self.language),
            (false, _) => found.to_owned(),
        })
    }

    /// The word of a plain spelling. German is also typed with *ae*, *oe* and *ue*.
    fn find(&self, word: &str) -> Option<AccentedWord> {
        if !word.is_ascii() {
            return None;
        }
        let plain_word = word.to_ascii_lowercase();
        let found = self.find_plain(&plain_word);
        if found.is_some() || self.language != "de" {
            return found;
        }
        let without_e = plain_word.replace("ae", "a").replace("oe", "o").replace("ue", "u");
        let found = self.find_plain(&without_e).filter(|_| without_e != plain_word)?;
        let spelled = found.word.replace('ä', "ae").replace('ö', "oe").replace('ü', "ue").replace('ß', "ss");
        (spelled == plain_word).then_some(AccentedWord { is_sure: true, ..found })
    }

    fn find_plain(&self, plain_word: &str) -> Option<AccentedWord> {
        let index = self.lines.binary_search_by(|line| plain(entry(line).word).as_str().cmp(plain_word));
        index.ok().map(|index| entry(self.lines[index]))
    }
}

/// A line of a table.
fn entry(line: &'static str) -> AccentedWord {
    match line.strip_prefix('?') {
        Some(word) => AccentedWord { word, is_sure: false },
        None => AccentedWord { word: line, is_sure: true },
    }
}

/// A word in small letters without the accents of German, French and Turkish.
pub(super) fn plain(word: &str) -> String {
    word.chars().fold(String::with_capacity(word.len()), |mut plain, letter| {
        match letter {
            'à' | 'â' | 'ä' | 'á' | 'ã' => plain.push('a'),
            'ç' => plain.push('c'),
            'é' | 'è' | 'ê' | 'ë' => plain.push('e'),
            'ğ' => plain.push('g'),
            'ı' | 'î' | 'ï' | 'í' => plain.push('i'),
            'ñ' => plain.push('n'),
            'ô' | 'ö' | 'ó' => plain.push('o'),
            'ş' => plain.push('s'),
            'ù' | 'û' | 'ü' | 'ú' => plain.push('u'),
            'œ' => plain.push_str("oe"),
            'æ' => plain.push_str("ae"),
            'ß' => plain.push_str("ss"),
            _ => plain.push(letter),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sentence: &str, language: &str) -> String {
        let accents = Accents::of(language).unwrap();
        if !accents.are_missing_in(sentence) {
            return sentence.to_owned();
        }
        let words = sentence.split_inclusive(|letter: char| !letter.is_alphabetic());
        words
            .map(|word| {
                let end = word.trim_end_matches(|letter: char| !letter.is_alphabetic()).len();
                accents.restored(&word[..end]).map_or_else(|| word.to_owned(), |found| found + &word[end..])
            })
            .collect()
    }

    #[test]
    fn tables_are_sorted_by_their_plain_spelling() {
        for language in ["de", "fr", "tr"] {
            let table = Accents::of(language).unwrap();
            let keys: Vec<String> = table.lines.iter().map(|line| plain(entry(line).word)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{language}");
            assert!(keys.iter().all(|key| key.is_ascii()), "{language}");
            assert!(table.lines.len() > 4000, "{language}");
        }
    }

    #[test]
    fn accents_come_back_where_none_was_typed() {
        assert_eq!(read("bugun hava cok guzel", "tr"), "bugün hava çok güzel");
        assert_eq!(read("COK GUZEL, Tesekkurler", "tr"), "ÇOK GÜZEL, Teşekkürler");
        assert_eq!(read("je suis tres fatigue, meme apres l'ete", "fr").split(' ').nth(2), Some("très"));
        assert_eq!(
            read("Ich moechte heute fuer dich uebersetzen", "de").replace("uebersetzen", "übersetzen"),
            "Ich möchte heute für dich übersetzen"
        );
        assert_eq!(read("das ist nicht moglich", "de"), "das ist nicht möglich");
    }

    #[test]
    fn a_sentence_with_accents_or_few_of_their_words_stays() {
        for (sentence, language) in [
            ("Ich mag für heute nicht moglich", "de"),
            ("Das mochte ich nicht.", "de"),
            ("neue Bauern aus Israel", "de"),
            ("Is it the one that is open to all of us here", "tr"),
            ("", "fr"),
        ] {
            assert_eq!(read(sentence, language), sentence);
        }
        assert!(Accents::of("en").is_none());
    }
}
