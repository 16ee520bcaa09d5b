//! Names of people and products that a translation must not lose: *Wozniak*, *Ayşe*, *Frau Kowalczyk*.
//!
//! A name is a capitalised word inside a sentence that the vocabulary has only in parts, in capitals and in small letters
//! alike; the first word of a sentence is one if it has a letter that the language lacks. German capitalises all nouns; there
//! only a word after a title, or with such a letter at the beginning, is one. Between a title and a rare capitalised word a
//! frequent one is a name too (*Frau Olympia Delacroix*), unless it is an office (*Herr Minister Wozniak*). The word after
//! it may be a last name or a noun; it is taken for a name where the translation has made a possession of it. Names that
//! differ between the languages (countries, cities, nationalities, months: `names.txt`) are left to the model.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;

use crate::words::words;

/// Minimum number of tokens of a rare word.
const MIN_TOKENS: usize = 2;
/// Minimum number of letters of a name.
const MIN_LETTERS: usize = 3;
/// German words before a name.
const TITLES: &[&str] = &["Herr", "Herrn", "Frau", "Dr.", "Prof.", "Familie"];
/// Ends of German words for academic titles, offices, ranks and professions, which stand between a title and a name.
const OFFICES: &str = "admiral amtmann anwalt arzt beauftragte bischof botschafter direktor doktor dozent general graf gräfin \
    hauptmann herzog ingenieur inspektor kanzler kapitän kardinal kollege kollegin kommissar konsul leiter \
    leutnant lehrer major meister minister oberst pastor pfarrer präsident prinz professor rat rektor richter \
    sekretär sprecher verwalter vorsitzende vorsitzender wachtmeister ärztin rätin anwältin";

/// Finds the names of a sentence in a language, from left to right; `n_tokens` counts the tokens of a word.
pub(crate) fn find(sentence: &str, language: &str, n_tokens: &dyn Fn(&str) -> usize) -> Vec<Range<usize>> {
    let words = words(sentence);
    let names: Vec<Option<Range<usize>>> = words.iter().map(|word| name(sentence, word)).collect();
    let is_capitalised = |word: &&Range<usize>| {
        let word = sentence[(*word).clone()].trim_start_matches(|mark: char| !mark.is_alphanumeric());
        word.starts_with(char::is_uppercase) && word != "I"
    };
    // In a title every word is capitalised; the first one always is.
    let n_capitalised = words.iter().skip(1).filter(is_capitalised).count();
    let is_title = language != "de" && 2 * n_capitalised >= words.len();
    if is_title || !matches!(language, "en" | "fr" | "tr" | "de") {
        return Vec::new();
    }
    let is_rare =
        |word: &str| [word, &in_small_letters(word)].iter().all(|word| n_tokens(word) >= MIN_TOKENS);
    // Words before a name: a title, and in German an office after it.
    let word_before = |index: usize| index.checked_sub(1).map(|before| &sentence[words[before].clone()]);
    let is_titled = |index: usize| word_before(index).is_some_and(|before| TITLES.contains(&before));
    let is_name = |index: usize, range: &Range<usize>| {
        let word = &sentence[range.clone()];
        let is_place = match word_before(index).filter(|before| language == "de" || !ends_sentence(before)) {
            Some(before) if language == "de" => {
                let is_after_office = is_office(before) && is_titled(index - 1);
                (is_titled(index) || is_after_office) && !is_office(word)
            }
            Some(_) => true,
            // The first word of a sentence is capitalised whatever it is.
            None => has_foreign_letter(word, language),
        };
        let is_first_name = || {
            let is_adjacent = |next: &&Range<usize>| &sentence[range.end..next.start] == " ";
            let next = names.get(index + 1).and_then(Option::as_ref).filter(is_adjacent);
            language == "de" && next.is_some_and(|next| is_rare(&sentence[next.clone()]))
        };
        // Whoever has a title is a person: Frau Olympia, Herr Schweizer.
        let is_person = language == "de" && index > 0;
        let is_same = is_person || !changes(&in_small_letters(word), language);
        is_place && is_same && (is_rare(word) || is_first_name())
    };
    let all = names.iter().enumerate();
    all.filter_map(|(index, range)| range.clone().filter(|range| is_name(index, range))).collect()
}

/// True if `target` has a word that begins with a name: *Ayşe'yi*, *Annas*.
pub(crate) fn is_written(name: &str, target: &str) -> bool {
    target.match_indices(name).any(|(at, _)| !target[..at].ends_with(char::is_alphanumeric))
}

/// A German name with the word after it, where the translation has a possession instead (*Mrs Bartholomew’s customs* for
/// *Frau Bartholomew Öztürkmen*): without a genitive the word is a last name, which the model took for a noun.
pub(crate) fn with_last_name(sentence: &str, first: Range<usize>, written: &str) -> Range<usize> {
    let (name_before, rest) = (&sentence[first.clone()], &sentence[first.end..]);
    let is_possession = ["'s", "’s"].iter().any(|end| is_written(&format!("{name_before}{end}"), written));
    let next =
        words(rest).first().and_then(|word| name(rest, word)).filter(|next| &rest[..next.start] == " ");
    match next {
        Some(next) if is_possession && !name_before.ends_with('s') => first.start..first.end + next.end,
        _ => first,
    }
}

/// Names with nothing but a space between them as one range.
pub(crate) fn joined(sentence: &str, names: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for name in names {
        match joined.last_mut() {
            Some(last) if &sentence[last.end..name.start] == " " => last.end = name.end,
            _ => joined.push(name),
        }
    }
    joined
}

/// The name that a word may be: capitalised, the other letters small, without marks and an ending after an apostrophe.
fn name(sentence: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let text = &sentence[word.clone()];
    let start = word.start + text.find(char::is_alphanumeric)?;
    let rest = &sentence[start..word.end];
    let end = rest.find(|letter: char| !letter.is_alphabetic()).unwrap_or(rest.len());
    let mut letters = rest[..end].chars();
    let is_capitalised =
        letters.next().is_some_and(char::is_uppercase) && letters.as_str().contains(char::is_lowercase);
    // Only marks and endings may follow: not Peter-Paul, not B2B.
    let is_whole = !rest[end..].starts_with(|next: char| next.is_alphanumeric() || "-_/@&".contains(next));
    let is_name = is_capitalised && is_whole && rest[..end].chars().count() >= MIN_LETTERS;
    is_name.then(|| start..start + end)
}

/// A word in small letters; that of İ has a dot of its own.
fn in_small_letters(word: &str) -> String {
    word.to_lowercase().replace('\u{307}', "")
}

/// True if a German word names an office, a rank or a profession: *Ministerpräsidentin*.
fn is_office(word: &str) -> bool {
    let small = word.to_lowercase();
    let masculine = small.strip_suffix("in").unwrap_or(&small);
    OFFICES.split(' ').any(|office| masculine.ends_with(office) || small.ends_with(office))
}

/// True if a word has a letter that is not in the alphabet of a language.
fn has_foreign_letter(word: &str, language: &str) -> bool {
    let own = match language {
        "de" => "äöüß",
        "fr" => "àâæçéèêëîïôœùûüÿ",
        "tr" => "çğıöşüâîû\u{307}",
        _ => "",
    };
    word.to_lowercase().contains(|letter: char| !letter.is_ascii() && !own.contains(letter))
}

/// True if the next word begins a sentence, a quotation or a list.
fn ends_sentence(word: &str) -> bool {
    word.ends_with(['.', '!', '?', ':', ';', '…', '"', '“', '„', '«', '(', '-', '–', '—'])
        && !matches!(word, "Mr." | "Mrs." | "Ms." | "Dr." | "Prof." | "M." | "Mme." | "St.")
}

/// True if a name differs between the languages.
fn changes(small: &str, language: &str) -> bool {
    static TABLE: OnceLock<HashSet<&str>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let lines = include_str!("names.txt").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace).collect()
    });
    // Turkish adds endings to nationalities without an apostrophe; English and French have plurals.
    let shortest = if language == "tr" { 4 } else { small.chars().count().saturating_sub(2).max(4) };
    let ends = small.char_indices().map(|(at, letter)| at + letter.len_utf8());
    table.contains(small) || ends.skip(shortest - 1).any(|end| table.contains(&small[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(sentence: &'a str, language: &str) -> Vec<&'a str> {
        // Words of up to four letters are frequent.
        let n_tokens = |word: &str| word.chars().count().div_ceil(4);
        let names = find(sentence, language, &n_tokens).into_iter();
        joined(sentence, names).into_iter().map(|range| &sentence[range]).collect()
    }

    #[test]
    fn rare_capitalised_words_are_names() {
        assert_eq!(found("Yesterday we met Wozniak and Tom in the old town.", "en"), ["Wozniak"]);
        assert_eq!(found("I saw Margaret Kowalski’s house near the river.", "en"), ["Margaret Kowalski"]);
        assert_eq!(found("Dün akşam Elmalı'da Zeynep'i gördüm ve konuştum.", "tr"), ["Elmalı", "Zeynep"]);
        assert_eq!(found("Hier, j'ai vu Delacroix dans le journal.", "fr"), ["Delacroix"]);
        assert_eq!(found("Ayşegül paid the bill in the old town.", "en"), ["Ayşegül"]);
        assert_eq!(found("It is over. Ayşegül paid the bill for us.", "en"), ["Ayşegül"]);
        assert_eq!(found("Gestern sah ich Frau Kowalczyk im Garten.", "de"), ["Kowalczyk"]);
        assert_eq!(found("Ich traf Herrn Karl Kowalczyk im Garten.", "de"), ["Karl"]);
        assert_eq!(found("Ich traf Frau Olympia Schweizer im Garten.", "de"), ["Olympia"]);
        assert_eq!(found("Ich traf Frau Bürgermeisterin Kowalczyk im Garten.", "de"), ["Kowalczyk"]);
    }

    #[test]
    fn a_possession_without_a_genitive_is_a_last_name() {
        for (sentence, written, expected) in [
            ("Frau Olga Öztürk kam", "Mrs Olga’s dryness came", "Olga Öztürk"),
            ("Frau Olga Öztürk kam", "Mrs Olga Ozturk came", "Olga"),
            ("Frau Olga, Öztürk kam", "Mrs Olga's dryness came", "Olga"),
            ("Frau Olga kam", "Mrs Olga's car came", "Olga"),
            ("Herrn Lukas Rosen", "Mr Lukas's roses", "Lukas"),
        ] {
            let first = sentence.find(' ').unwrap() + 1;
            let end = sentence[first..].find(|letter: char| !letter.is_alphabetic()).unwrap() + first;
            assert_eq!(&sentence[with_last_name(sentence, first..end, written)], expected, "{sentence}");
        }
    }

    #[test]
    fn other_words_are_no_names() {
        for (sentence, language) in [
            ("Wozniak came late to the party again.", "en"),
            ("Égalité est un mot de la langue française.", "fr"),
            ("Öğretmenler dün akşam bana bir kitap verdi.", "tr"),
            ("In December many Germans fly to Switzerland for a week.", "en"),
            ("The Quick Brown Foxtrot Jumps over it", "en"),
            ("It is over. Everything went well for us all.", "en"),
            ("the NATO and the UNESCO met again today", "en"),
            ("Gestern sah ich den Bürgermeister im Garten.", "de"),
            ("Gestern sah ich Frau Bürgermeisterin im Garten.", "de"),
            ("Gestern sah ich Herrn Graf, Kowalczyk und Frau Berg.", "de"),
            ("Dün bana sordu: sence burası İngiltere mi yoksa değil mi?", "tr"),
            ("Dün akşam Almanya'da bir Fransızla konuştum ve güldüm.", "tr"),
            ("Il vit à Londres depuis longtemps avec les Allemands.", "fr"),
            ("we met Wozniak", "xx"),
        ] {
            assert_eq!(found(sentence, language), [""; 0], "{sentence}");
        }
    }

    #[test]
    fn a_name_may_have_an_ending() {
        assert!(is_written("Ayşe", "Dün Ayşe'yi gördüm.") && is_written("Anna", "Annas Haus"));
        assert!(
            !is_written("Anna", "Joanna kam")
                && !is_written("Ayşe", "Ayse kam")
                && !is_written("Anna", "anna")
        );
    }
}
