//! Texts of every kind: white space stays, and nothing is lost without a note.

use polyhead_translate::{Engine, Error, Evidence, LoadOptions, Mode, Note, TranslateOptions, Translation};

use crate::engine;

fn translate(engine: &Engine, text: &str) -> Translation {
    engine.translate(&[text], &TranslateOptions::default()).unwrap().remove(0)
}

#[test]
fn a_paragraph_is_its_sentences_with_their_white_space() {
    let engine = engine();
    let one = |text: &str| translate(&engine, text).text().to_owned();
    let [a, b, c] = ["The teacher reads a book today.", "Nobody slept well!", "Ayşe"].map(one);
    let found = translate(&engine, "  The teacher reads a book today.  Nobody slept well!\n\n\tAyşe \n");
    assert_eq!(found.text(), format!("  {a}  {b}\n\n\t{c} \n"));
    assert!(found.notes.contains(&Note::Split { sentences: 3 }), "{:?}", found.notes);
}

#[test]
fn texts_without_words_stay() {
    let engine = engine();
    for text in ["", " ", "  \t ", "\n\n", "---", "🙂", "…", "\u{0}", " *** \n"] {
        let found = translate(&engine, text);
        assert_eq!(found.text(), text);
        assert_eq!(found.best().tokens, 0);
        assert_eq!(found.best().score, 0.0);
    }
    assert!(engine.translate(&[], &TranslateOptions::default()).unwrap().is_empty());
}

#[test]
fn a_long_line_is_cut_and_noted() {
    let engine = engine();
    let text = vec!["the garden"; 5000].join(" ");
    let options = TranslateOptions { beam_size: Some(1), max_length: Some(4), ..TranslateOptions::default() };
    let found = engine.translate(&[&text], &options).unwrap().remove(0);
    // Every word is read: the tokens of the parts are those of the whole, and an end for each part.
    let whole = engine.source_ids(&text).unwrap().len() - 1;
    let Some(Note::Cut { parts }) = found.notes.iter().find(|note| matches!(note, Note::Cut { .. })) else {
        panic!("{:?}", found.notes.first());
    };
    assert_eq!(found.source_tokens, whole + parts);
    let without_spaces = "x".repeat(1000);
    assert!(engine.translate(&[&without_spaces], &options).unwrap()[0].source_tokens >= 3);
}

#[test]
fn a_limit_that_was_reached_is_noted() {
    let engine = engine();
    let options = TranslateOptions { max_length: Some(2), ..TranslateOptions::default() };
    let found = engine.translate(&["The teacher reads a book today."], &options).unwrap().remove(0);
    assert!(
        found.notes.iter().any(|note| matches!(note, Note::Limit { tokens: 2, .. })),
        "{:?}",
        found.notes
    );
}

#[test]
fn unknown_pieces_are_noted() {
    let found = translate(&engine(), "The teacher reads 漢字 today.");
    let expected = Note::Unknown { pieces: vec!["漢字".into()] };
    assert!(found.notes.contains(&expected), "{:?}", found.notes);
    let many: Vec<String> = ('一'..='丰').map(String::from).collect();
    let found = translate(&engine(), &many.join(" a "));
    let Some(Note::Unknown { pieces }) = found.notes.iter().find(|note| matches!(note, Note::Unknown { .. }))
    else {
        panic!("{:?}", found.notes);
    };
    assert_eq!((pieces.len(), pieces.last().map(String::as_str)), (21, Some("…")));
}

#[test]
fn loops_are_decoded_again_and_noted() {
    let engine = engine();
    // The model repeats one word some fifty times for the first.
    let texts =
        ["sings qq qq at river 1987 3", "Nobody slept well!", "one more time with feeling", "THE OLD DOCTOR"];
    let options = |mode| TranslateOptions { mode, to: Some("tur".into()), ..TranslateOptions::default() };
    let guarded = engine.translate(&texts, &options(Mode::Guarded)).unwrap();
    let raw = engine.translate(&texts, &options(Mode::Raw)).unwrap();
    let is_noted =
        |found: &Translation| found.notes.iter().any(|note| matches!(note, Note::Repetition { .. }));
    for (guarded, raw) in guarded.iter().zip(&raw) {
        assert!(is_noted(guarded) || guarded.text() == raw.text(), "{guarded:?}\n{raw:?}");
        assert!(!is_noted(raw));
    }
    let expected = Note::Repetition { sentence: texts[0].into(), is_cured: true };
    assert!(guarded[0].notes.contains(&expected), "{:?}", guarded[0].notes);
    assert!(raw[0].text().matches("arkasında arkasında").count() > 10, "{}", raw[0].text());
    assert!(guarded[0].text().split_whitespace().count() < 20, "{}", guarded[0].text());
}

#[test]
fn a_language_is_chosen_by_option_or_tag() {
    let engine = engine();
    let with = |to: Option<&str>, text: &str| {
        let to = to.map(str::to_owned);
        engine
            .translate(&[text], &TranslateOptions { to, ..TranslateOptions::default() })
            .map(|mut all| all.remove(0))
    };
    let text = "The teacher reads a book today. Nobody slept well!";
    let plain = with(None, text).unwrap();
    let chosen = with(Some("tr"), text).unwrap();
    assert_eq!(chosen.source_tokens, plain.source_tokens + 2);
    for (to, text) in [(Some(">>tur<<"), text), (Some("tur"), text), (None, &format!(">>tur<< {text}"))] {
        let found = with(to, text).unwrap();
        assert_eq!((found.text(), found.source_tokens), (chosen.text(), chosen.source_tokens));
    }
    let error = with(Some("de"), text).unwrap_err();
    assert_eq!(error.to_string(), "language \"de\": the model knows fra, tur");
    assert!(matches!(error, Error::Request(_)) && error.is_misuse());
    let from = TranslateOptions { from: Some("fr".into()), ..TranslateOptions::default() };
    assert!(engine.translate(&[text], &from).unwrap_err().to_string().contains("translates from eng"));
}

#[test]
fn a_prefix_begins_only_the_first_sentence() {
    let engine = engine();
    let options = TranslateOptions { prefix: "Komşumuz".into(), ..TranslateOptions::default() };
    let found = engine.translate(&["Nobody slept well! Nobody slept well!"], &options).unwrap().remove(0);
    assert!(found.text().starts_with("Komşumuz"), "{}", found.text());
    assert_eq!(found.text().matches("Komşumuz").count(), 1, "{}", found.text());
}

#[test]
fn n_best_are_ranked_and_distinct() {
    let engine = engine();
    let options = TranslateOptions { n_best: 4, ..TranslateOptions::default() };
    let found = engine.translate(&["Nobody slept well!"], &options).unwrap().remove(0).n_best;
    assert_eq!(found.len(), 4);
    assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let texts: std::collections::BTreeSet<&str> =
        found.iter().map(|candidate| candidate.text.as_str()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    for n_best in [2, 4, 12] {
        let options = TranslateOptions { n_best, ..TranslateOptions::default() };
        let one = engine.translate(&["Nobody slept well!"], &TranslateOptions::default()).unwrap();
        let many = engine.translate(&["Nobody slept well!"], &options).unwrap();
        assert_eq!(many[0].best(), one[0].best(), "a longer list never changes the first");
    }
    let too_many = TranslateOptions { n_best: 3, beam_size: Some(2), ..TranslateOptions::default() };
    assert!(engine.translate(&["a"], &too_many).unwrap_err().to_string().contains("3 best of 2 beams"));
}

#[test]
fn every_target_word_has_a_source_word() {
    let engine = engine();
    let options = TranslateOptions { evidence: Evidence::Alignment, ..TranslateOptions::default() };
    let text = "The teacher reads a book today.  Nobody slept well!";
    let found = engine.translate(&[text], &options).unwrap().remove(0);
    let pairs = found.alignment.unwrap();
    let targets: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
    let n_words = found.n_best[0].text.split_whitespace().count();
    assert_eq!(targets, (0..n_words).collect::<Vec<_>>());
    // Sentences are aligned with their own words only, and those of the second come second.
    let first = translate(&engine, "The teacher reads a book today.").text().split_whitespace().count();
    assert!(
        pairs.iter().all(|&(source, target)| (target < first) == (source < 6) && source < 9),
        "{pairs:?}"
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 64, ..Default::default() })]

    #[test]
    fn line_breaks_of_any_text_stay(text in "([a-z]{1,9}|[ .!?,\t\n…“”()0-9]|\\PC|[\u{0}-\u{1f}]|。|漢){0,60}") {
        let options = TranslateOptions {
            beam_size: Some(1),
            max_length: Some(4),
            evidence: Evidence::Alignment,
            ..TranslateOptions::default()
        };
        let engine = ENGINE.get_or_init(engine);
        let found = engine.translate(&[&text], &options).unwrap().remove(0);
        let breaks = |text: &str| text.chars().filter(|mark| ('\t'..='\r').contains(mark)).collect::<String>();
        proptest::prop_assert_eq!(breaks(found.text()), breaks(&text));
        let lead = |text: &str| text[..text.len() - text.trim_start().len()].to_owned();
        proptest::prop_assert!(found.text().starts_with(&lead(&text)));
        let words = found.text().split_whitespace().count();
        proptest::prop_assert!(found.alignment.unwrap().iter().all(|pair| pair.1 < words));
    }
}

static ENGINE: std::sync::OnceLock<Engine> = std::sync::OnceLock::new();

#[test]
fn the_best_translations_of_a_paragraph_come_best_first() {
    let engine = engine();
    let options = TranslateOptions { n_best: 4, beam_size: Some(4), ..TranslateOptions::default() };
    let sentences = crate::SENTENCES;
    for pair in sentences.iter().flat_map(|a| sentences.iter().map(move |b| format!("{a} {b}"))) {
        let found = engine.translate(&[pair.as_str()], &options).unwrap().remove(0);
        let scores: Vec<f64> = found.n_best.iter().map(|candidate| candidate.score).collect();
        assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]), "{pair}: {scores:?}");
        assert_eq!(found.text(), translate(&engine, &pair).text(), "a longer list never changes the first");
    }
}

#[test]
fn a_low_probability_is_noted_where_the_folder_has_a_limit() {
    let folder = crate::folders::copy();
    let path = folder.path().join("generation_config.json");
    let mut settings: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut limited = |limit: f64| {
        settings["unsure_below"] = limit.into();
        std::fs::write(&path, settings.to_string()).unwrap();
        let engine = Engine::load(folder.path(), &LoadOptions::default()).unwrap();
        translate(&engine, "The teacher reads a book today.")
    };
    let found = limited(-1e-9);
    let mean = found.best().log_probability / found.best().tokens as f64;
    let note = Note::Unsure { sentence: "The teacher reads a book today.".into(), log_probability: mean };
    assert!(found.is_unsure() && found.notes == [note], "{:?}", found.notes);
    assert!(found.notes[0].is_warning());
    assert_eq!(found.notes[0].to_string(), "unsure: \"The teacher reads a book today.\"");
    assert!(!limited(-1e9).is_unsure());
    assert!(!translate(&engine(), "The teacher reads a book today.").is_unsure());
}
