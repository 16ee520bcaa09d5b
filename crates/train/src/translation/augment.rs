//! Data augmentation that makes a model robust to user input which the training text lacks.
//!
//! *Placeholders* (`keep`): names and numbers that both sides spell alike are replaced by placeholders, one character each, in
//! the order of the source. The model learns to copy placeholders, which can stand for preserved text such as addresses or emoji.
//! *Bare text* (`bare`): the final full stop is removed on both sides, and sometimes the initial capital of the source.
//! *Missing sources* (`drop_source`): of a source of several texts one is left empty.

use std::ops::Range;

use polyhead_random::Random;
use polyhead_translate::PLACEHOLDERS;

use crate::config::AugmentConfig;

/// Letters of the shortest name that is replaced: shorter words can be equal by chance.
const SHORTEST_NAME: usize = 3;
/// Characters of the shortest number that is replaced: a single digit is often written out.
const SHORTEST_NUMBER: usize = 2;

/// Augments a pair for one epoch; `None` if it stays unchanged. A pure function of its arguments.
pub fn augment([source, target]: [&str; 2], config: AugmentConfig, random: Random) -> Option<[String; 2]> {
    let AugmentConfig { keep, bare, drop_source } = config;
    if random.uniform(3) < drop_source {
        return without_one(source, random).map(|source| [source, target.to_owned()]);
    }
    let masked = if random.uniform(0) < keep { with_placeholders([source, target], random) } else { None };
    if random.uniform(1) >= bare {
        return masked;
    }
    let [source, target] = masked.as_ref().map_or([source, target], |[a, b]| [a, b]);
    without_stop([source, target], random).or(masked)
}

/// The texts of a source, with tabs between, of which one is left empty; `None` if fewer than two are there.
fn without_one(source: &str, random: Random) -> Option<String> {
    let mut texts: Vec<&str> = source.split('\t').collect();
    let there: Vec<usize> = (0..texts.len()).filter(|&index| !texts[index].trim().is_empty()).collect();
    if there.len() < 2 {
        return None;
    }
    texts[there[random.below(there.len(), 4)]] = "";
    Some(texts.join("\t"))
}

/// Replaces shared names and numbers on both sides by placeholders.
fn with_placeholders([source, target]: [&str; 2], random: Random) -> Option<[String; 2]> {
    let [source_words, target_words] = [source, target].map(words);
    let count = |text: &str, words: &[Range<usize>], word: &str| {
        words.iter().filter(|span| &text[(*span).clone()] == word).count()
    };
    let shared: Vec<&str> = source_words
        .iter()
        .map(|span| &source[span.clone()])
        .filter(|word| is_name_or_number(word))
        .filter(|word| count(source, &source_words, word) == 1 && count(target, &target_words, word) == 1)
        .take(PLACEHOLDERS.len())
        .collect();
    if shared.is_empty() {
        return None;
    }
    // Any placeholder may come first, so that all are frequent in training.
    let first = random.below(PLACEHOLDERS.len() - shared.len() + 1, 2);
    let replaced = |text: &str, words: &[Range<usize>]| {
        let mut new = String::with_capacity(text.len());
        let mut end = 0;
        for span in words {
            if let Some(at) = shared.iter().position(|word| *word == &text[span.clone()]) {
                new.push_str(&text[end..span.start]);
                new.push(PLACEHOLDERS[first + at]);
                end = span.end;
            }
        }
        new + &text[end..]
    };
    Some([replaced(source, &source_words), replaced(target, &target_words)])
}

/// Byte ranges of runs of letters and digits; marks between two digits belong to a number.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut letters = text.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, letter)) = letters.next() {
        let is_inside = letter.is_alphanumeric()
            || (".,:".contains(letter)
                && before.is_ascii_digit()
                && letters.peek().is_some_and(|(_, next)| next.is_ascii_digit()));
        let end = at + letter.len_utf8();
        match words.last_mut() {
            Some(word) if is_inside && word.end == at => word.end = end,
            _ if is_inside => words.push(at..end),
            _ => {}
        }
        before = letter;
    }
    words
}

fn is_name_or_number(word: &str) -> bool {
    let n_letters = word.chars().count();
    if word.contains(|letter: char| letter.is_ascii_digit()) {
        return n_letters >= SHORTEST_NUMBER;
    }
    n_letters >= SHORTEST_NAME && word.starts_with(char::is_uppercase)
}

/// Both sides without their final full stop; `None` unless both have one.
fn without_stop([source, target]: [&str; 2], random: Random) -> Option<[String; 2]> {
    let bare = |text: &str| text.strip_suffix('.').filter(|rest| !rest.ends_with('.')).map(str::to_owned);
    let (source, target) = (bare(source)?, bare(target)?);
    let source = if random.uniform(3) < 0.5 { with_lower_initial(&source) } else { source };
    Some([source, target])
}

/// `text` with a lower-case first letter, except for acronyms and for I, whose lower case depends on the language.
fn with_lower_initial(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second))
            if first.is_uppercase() && second.is_lowercase() && !"Iİ".contains(first) =>
        {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: AugmentConfig = AugmentConfig { keep: 1.0, bare: 0.0, drop_source: 0.0 };
    const BARE: AugmentConfig = AugmentConfig { keep: 0.0, bare: 1.0, drop_source: 0.0 };

    #[test]
    fn shared_names_become_placeholders_in_the_order_of_the_source() {
        let pair = ["Tom told Mary to come at 2:30.", "Tom, Mary'ye saat 2:30'da gelmesini söyledi."];
        let [source, target] = augment(pair, KEEP, Random::new(1)).unwrap();
        let at = PLACEHOLDERS.iter().position(|mark| source.starts_with(*mark)).unwrap();
        let [a, b, c] = [PLACEHOLDERS[at], PLACEHOLDERS[at + 1], PLACEHOLDERS[at + 2]];
        assert_eq!(source, format!("{a} told {b} to come at {c}."));
        assert_eq!(target, format!("{a}, {b}'ye saat {c}'da gelmesini söyledi."));
        assert!(augment(["The cat.", "Kedi."], KEEP, Random::new(1)).is_none());
        assert!(augment(["Tom and Tom.", "Tom ve Tom."], KEEP, Random::new(1)).is_none());
    }

    #[test]
    fn every_placeholder_is_used() {
        let seen = |mark: char| {
            (0..64).any(|seed| {
                let pair = augment(["I saw Tom.", "J'ai vu Tom."], KEEP, Random::new(seed));
                pair.is_some_and(|[source, target]| source.contains(mark) && target.contains(mark))
            })
        };
        assert!(PLACEHOLDERS.into_iter().all(seen));
    }

    #[test]
    fn bare_text_has_no_full_stop_and_sometimes_no_capital() {
        let pair = ["The cat sleeps.", "Kedi uyuyor."];
        let found: Vec<_> = (0..20).map(|seed| augment(pair, BARE, Random::new(seed)).unwrap()).collect();
        assert!(found.iter().all(|[_, target]| target == "Kedi uyuyor"));
        for form in ["The cat sleeps", "the cat sleeps"] {
            assert!(found.iter().any(|[source, _]| source == form), "{form}");
        }
        assert!(augment(["Well...", "Eh..."], BARE, Random::new(1)).is_none());
        assert!(augment(["Who is it?", "Kim o?"], BARE, Random::new(1)).is_none());
        assert_eq!(with_lower_initial("NATO met"), "NATO met");
    }

    #[test]
    fn augmentation_is_a_pure_function_of_the_seed() {
        let pair = ["Tom is 30.", "Tom 30 yaşında."];
        let config = AugmentConfig { keep: 0.5, bare: 0.5, drop_source: 0.0 };
        let all = || (0..50).map(|seed| augment(pair, config, Random::new(seed))).collect::<Vec<_>>();
        assert_eq!(all(), all());
        assert!(all().iter().any(Option::is_none) && all().iter().any(Option::is_some));
        assert!(augment(pair, AugmentConfig::default(), Random::new(1)).is_none());
    }
}
