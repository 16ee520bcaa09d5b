//! Lexical constraints: translations that contain given words, and errors where that is impossible.

use polyhead_translate::{Engine, LoadOptions, Sampling, ShortlistChoice, TranslateOptions};

use crate::{SENTENCES, engine, golden};

fn with(lexical: &[&str]) -> TranslateOptions {
    let lexical = lexical.iter().map(|phrase| (*phrase).to_owned()).collect();
    TranslateOptions { to: Some("tr".into()), lexical, ..TranslateOptions::default() }
}

fn refusal(engine: &Engine, text: &str, options: &TranslateOptions) -> String {
    engine.translate(&[text], options).unwrap_err().to_string()
}

/// Words that the model writes in other translations.
#[test]
fn translations_contain_their_constraints() {
    let engine = engine();
    let plain = engine.translate(SENTENCES, &with(&[])).unwrap();
    let words: Vec<&str> = plain[0].text().split_whitespace().collect();
    let [first, last] = [words[0], words[words.len() - 1].trim_end_matches('.')];
    for (text, plain) in SENTENCES.iter().zip(&plain).skip(1) {
        for options in [with(&[first]), with(&[last, first]), TranslateOptions { n_best: 3, ..with(&[last]) }]
        {
            let found = engine.translate(&[text], &options).unwrap().remove(0);
            for candidate in &found.n_best {
                for phrase in &options.lexical {
                    // Sentences in capitals are restored in capitals.
                    let is_in = candidate.text.to_lowercase().contains(&phrase.to_lowercase());
                    assert!(is_in, "{text}: {phrase} in {}", candidate.text);
                }
            }
            let best = |found: &polyhead_translate::Translation| found.best().log_probability;
            assert!(found.text() == plain.text() || best(&found).is_finite());
        }
    }
    // A constraint that is met anyway changes nothing.
    let met = engine.translate(&SENTENCES[..1], &with(&[words[0], words[1]])).unwrap();
    assert_eq!(met[0].text(), plain[0].text());
}

#[test]
fn constraints_that_cannot_be_met_are_refused() {
    let engine = engine();
    let text = SENTENCES[0];
    let word = engine.translate(&[text], &with(&[])).unwrap()[0].text().split(' ').next().unwrap().to_owned();
    for (text, options, expected) in [
        (text, with(&[" "]), "an empty lexical constraint"),
        (text, with(&["漢"]), "lexical constraint \"漢\": the model cannot write \"漢\""),
        ("Nobody slept well! Ayşe", with(&[&word]), "has 2 sentences or parts, expected one sentence"),
        ("---", with(&[&word]), "has nothing to translate, expected one sentence"),
        (text, with(&[&word.repeat(80)]), "tokens, expected at most"),
        (
            text,
            TranslateOptions { sampling: Some(Sampling::default()), ..with(&[&word]) },
            "samples with lexical constraints",
        ),
    ] {
        let found = refusal(&engine, text, &options);
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(engine.translate(&["", " "], &with(&[&word])).unwrap()[1].text(), " ");
    // Tokens outside of a shortlist cannot be written.
    let texts = ShortlistChoice::Texts(vec!["Ayşe".into()]);
    let short = Engine::load(golden(), &LoadOptions { shortlist: texts, ..LoadOptions::default() }).unwrap();
    let found = refusal(&short, text, &with(&[&word]));
    assert!(found.contains(&format!("cannot contain \"{word}\"")), "{found}");
}
