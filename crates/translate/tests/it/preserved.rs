//! Preserved text comes through any model with placeholders, even an untrained one.

use std::sync::OnceLock;

use polyhead_text::tokenizer::{SpecialTokens, TrainOptions, train};
use polyhead_translate::{Engine, Evidence, LoadOptions, Note, TranslateOptions, Translation};

use crate::folders::write_model;

/// A model with random weights whose vocabulary has the placeholders.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let marks = "\u{e000} \u{e001} \u{e002} \u{e003}";
        let lines = ["the cat ate the mouse .", "The Cat saw 10 mice , not 29345678", marks, marks];
        let special =
            SpecialTokens { tags: vec![">>deu<<".into(), ">>tur<<".into()], ..SpecialTokens::default() };
        let options = TrainOptions { vocab_size: Some(46), special, ..TrainOptions::default() };
        let lines = lines.into_iter().map(|line| Ok(line.to_owned()));
        let tokenizer = train(lines, &options, &mut |_| {}).unwrap();
        tokenizer.save(folder.path().join("tokenizer.json")).unwrap();
        write_model(folder.path(), tokenizer.vocab_size(), tokenizer.vocab_size(), 0);
        let config = r#"{"directions": ["eng-deu", "eng-tur"]}"#;
        std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
        Engine::load(folder.path(), &LoadOptions::default()).unwrap()
    })
}

fn translate(text: &str) -> Translation {
    let (from, to) = (Some("en".into()), Some("de".into()));
    let options = TranslateOptions {
        from,
        to,
        max_length: Some(6),
        n_best: 2,
        evidence: Evidence::Alignment,
        ..TranslateOptions::default()
    };
    engine().translate(&[text], &options).unwrap().remove(0)
}

#[test]
fn text_that_the_model_loses_is_preserved() {
    for (text, spans) in [
        ("the cat saw https://x.org/a today", &["https://x.org/a"][..]),
        ("😀 the mouse 👍🏽 ate @tom and me@x.org 🎉🎉", &["😀 ", "👍🏽", "@tom", "me@x.org", " 🎉🎉"]),
        ("the cat Привет, мир the mouse", &["Привет, мир"]),
        ("the cat ate 1,234.50 mice on 2026-11-15", &["1.234,50", "2026-11-15"]),
        ("the cat paid $19.99 at 11:45 p.m. today", &["19,99 $", "23:45 Uhr"]),
        ("the cat saw 25% of 5&nbsp;km and 1.5 kg", &["25 %", "5&nbsp;km", "1,5 kg"]),
        (
            "a.com b.com c.com d.com the e.com f.com cat",
            &["a.com", "b.com", "c.com", "d.com", "e.com", "f.com"],
        ),
        ("THE CAT ATE HTTP://X.ORG/A", &["HTTP://X.ORG/A"]),
        ("the \u{e000} cat \u{e003}", &["\u{e000}", "\u{e003}"]),
    ] {
        let found = translate(text);
        for candidate in &found.n_best {
            let mut rest = candidate.text.as_str();
            for span in spans {
                let at = rest.find(span).unwrap_or_else(|| panic!("{span} is lost in {candidate:?}"));
                rest = &rest[at + span.len()..];
            }
        }
        // A number is also preserved where a cut leaves nothing else in its part.
        let is_noted = |note: &Note| matches!(note, Note::Around { .. } | Note::Cut { .. });
        assert!(found.notes.iter().any(is_noted), "{text}: {found:?}");
    }
}

#[test]
fn text_without_words_is_not_decoded() {
    for text in
        ["", "  ", "123", "3.14 + 1,000", "https://x.org", "@tom 😀 #x", "漢字。", "me@x.org, 12", "👩‍👩‍👧‍👦\n\n🇹🇷"]
    {
        let found = translate(text);
        assert_eq!((found.text(), found.source_tokens), (text, 0), "{text}");
    }
}

#[test]
fn quantities_with_letters_are_converted_without_the_model() {
    for (text, expected) in
        [("11:45 PM", "23:45 Uhr"), ("3.5 km, 20%", "3,5 km, 20 %"), ("$19.99", "$19.99"), ("50 %", "50 %")]
    {
        let found = translate(text);
        assert_eq!((found.text(), found.source_tokens), (expected, 0), "{text}");
    }
}

#[test]
fn more_numbers_than_placeholders_are_preserved() {
    let found = translate("the cat ate 123 the 456 cat 789 ate 234 the 567 mouse @tom");
    for number in ["123", "456", "789", "234", "567", "@tom"] {
        assert!(found.text().contains(number), "{found:?}");
    }
}

#[test]
fn a_translation_without_an_end_is_halved() {
    let (from, to) = (Some("en".into()), Some("de".into()));
    let options = TranslateOptions { from, to, beam_size: Some(1), ..TranslateOptions::default() };
    let text = "the cat ate the mouse @tom , ".repeat(4);
    let found = engine().translate(&[&text], &options).unwrap().remove(0);
    assert!(found.notes.iter().any(|note| matches!(note, Note::Halved { .. })), "{:?}", found.notes);
    assert_eq!(found.text().matches("@tom").count(), 4);
}

#[test]
fn copied_text_is_aligned_with_itself() {
    let found = translate("😀 the cat https://x.org");
    let target: Vec<&str> = found.text().split_whitespace().collect();
    let pairs = found.alignment.as_deref().unwrap();
    assert!(pairs.contains(&(0, 0)), "{pairs:?}");
    assert_eq!(target.first(), Some(&"😀"));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 48, ..Default::default() })]

    #[test]
    fn preserved_text_is_never_lost(
        words in proptest::collection::vec("the|cat|MOUSE|ate\\.|@[a-z]{1,5}|😀|www\\.[a-z]{1,6}\\.com|漢字|[0-9]{3,6}|\n|!", 1..14)
    ) {
        let text = words.join(" ");
        let found = translate(&text);
        for candidate in &found.n_best {
            for word in &words {
                let is_preserved = !word.chars().all(|letter| letter.is_ascii_alphabetic() || ".\n!".contains(letter));
                // Of numbers the digits count, and they may stand in one of the best translations alone.
                let is_number = word.chars().all(|digit| digit.is_ascii_digit());
                if is_preserved && !is_number {
                    let (there, here) = (candidate.text.matches(word.as_str()).count(), text.matches(word.as_str()).count());
                    proptest::prop_assert!(there >= here, "{} in {:?} of {:?}", word, candidate.text, text);
                }
            }
            let breaks = |text: &str| text.matches('\n').count();
            proptest::prop_assert_eq!(breaks(&candidate.text), breaks(&text));
        }
        for number in words.iter().filter(|word| word.chars().all(|digit| digit.is_ascii_digit())) {
            let digits: String = found.text().chars().filter(char::is_ascii_digit).collect();
            proptest::prop_assert!(digits.contains(number.as_str()), "{} in {:?} of {:?}", number, found.text(), text);
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 32, ..Default::default() })]

    #[test]
    fn quantities_are_converted_or_noted(
        words in proptest::collection::vec(
            "the|cat|mouse|ate|\\$[1-9][0-9]?\\.[0-9]{2}|[1-9]:[0-5][0-9] p\\.m\\.|[1-9][0-9]%|[1-9]\\.[0-9] kg|1[0-2]/[12][1-9]/2024",
            1..10,
        )
    ) {
        let text = format!("the {} cat", words.join(" "));
        let found = translate(&text);
        let is_lost = found.notes.iter().any(|note| matches!(note, Note::Lost { .. }));
        for word in words.iter().filter(|word| word.contains(|digit: char| digit.is_ascii_digit())) {
            let form = german(word);
            proptest::prop_assert!(is_lost || found.text().contains(&form), "{} in {:?} of {:?}", form, found.text(), text);
        }
    }
}

/// The German form of an English quantity.
fn german(word: &str) -> String {
    if let Some(amount) = word.strip_prefix('$') {
        return format!("{} $", amount.replace('.', ","));
    }
    if let Some(number) = word.strip_suffix('%') {
        return format!("{number} %");
    }
    if let Some((hour, rest)) = word.strip_suffix(" p.m.").and_then(|time| time.split_once(':')) {
        return format!("{}:{rest} Uhr", hour.parse::<u8>().unwrap() + 12);
    }
    if let [month, day, year] = word.split('/').collect::<Vec<_>>()[..] {
        return format!("{day}.{month}.{year}");
    }
    word.replace('.', ",")
}

#[test]
fn thousands_of_preserved_spans_take_little_time() {
    let engine = engine();
    let start = std::time::Instant::now();
    // Nobody waits, so that nothing is decoded; the steps before decoding are measured.
    for text in ["@a ".repeat(16_000), "@a-x-".repeat(10_000), "a 1 ".repeat(12_000), "a😀".repeat(10_000)]
    {
        let [from, to] = ["en", "de"].map(|code| Some(code.to_owned()));
        let options = TranslateOptions { from, to, ..TranslateOptions::default() };
        let plan = engine.plan_texts(&[&text], &options).unwrap().remove(0);
        let sentences: Vec<_> = plan.sentences().collect();
        let found = engine.translate_sentences_while(&sentences, &options, &|| false);
        // Text without words needs no decoding.
        assert!(found.is_ok() || matches!(found, Err(polyhead_translate::Error::Cancelled)));
    }
    let took = start.elapsed();
    assert!(took.as_secs() < 20, "{took:?}");
}
