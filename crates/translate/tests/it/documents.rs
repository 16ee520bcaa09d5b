//! Documents through a model: texts translated as alone, tags around their words, the language detected once.

use std::fs;

use polyhead_translate::formats::Format;
use polyhead_translate::{Engine, LoadOptions, Note, TranslateOptions};

use crate::folders::copy;

fn options(to: &str) -> TranslateOptions {
    TranslateOptions { to: Some(to.into()), ..TranslateOptions::default() }
}

#[test]
fn texts_of_a_document_are_translated_as_alone() {
    let (engine, options) = (crate::engine(), options("tur"));
    let texts = ["The teacher reads a book today.", "Nobody slept well!"];
    let [a, b] = texts.map(|text| engine.translate(&[text], &options).unwrap()[0].text().to_owned());
    let document = |format, text: &str| engine.translate_document(format, text, &options).unwrap().text;
    assert_eq!(document(Format::Text, &texts.join("\n\n")), format!("{a}\n\n{b}"));
    let page = |a: &str, b: &str| format!("<h1>{a}</h1>\n<p class='x'><b>{b}</b></p><script>a()</script>");
    assert_eq!(document(Format::Html, &page(texts[0], texts[1])), page(&a, &b));
    let subtitles = |a: &str, b: &str| format!("1\n00:00:01,000 --> 00:00:02,000\n- {a}\n- <i>{b}</i>\n");
    assert_eq!(document(Format::Srt, &subtitles(texts[0], texts[1])), subtitles(&a, &b));
    let messages = format!("msgid \"{}\"\nmsgstr \"\"\n", texts[1]);
    assert_eq!(
        document(Format::Po, &messages),
        format!("#, fuzzy\nmsgid \"{}\"\nmsgstr \"{b}\"\n", texts[1])
    );
    for format in Format::ALL {
        assert_eq!(document(format, ""), "");
    }
    assert!(engine.translate_document(Format::Po, "no", &options).is_err());
}

#[test]
fn tags_enclose_words_of_the_translation() {
    let (engine, options) = (crate::engine(), options("tur"));
    let found = engine
        .translate_document(Format::Html, "<p>The <b>teacher</b> reads a <i>book</i> today.</p>", &options)
        .unwrap();
    let alone = engine.translate(&["The teacher reads a book today."], &options).unwrap();
    let mut plain = found.text.clone();
    for tag in ["<p>", "<b>", "</b>", "<i>", "</i>", "</p>"] {
        assert_eq!(found.text.matches(tag).count(), 1, "{}", found.text);
        plain = plain.replace(tag, "");
    }
    assert_eq!(plain, alone[0].text());
}

#[test]
fn the_language_is_detected_once() {
    let folder = copy();
    let directions = r#"{"directions": ["eng-fra", "fra-tur"]}"#;
    fs::write(folder.path().join("tokenizer_config.json"), directions).unwrap();
    let engine = Engine::load(folder.path(), &LoadOptions::default()).unwrap();
    let is_same = |note: &Note| matches!(note, Note::Same { .. });
    let alone = engine.translate(&["bonjour"], &options("fr")).unwrap();
    assert!(alone[0].notes.iter().any(is_same), "{:?}", alone[0].notes);
    let page = "<p>The teacher reads a book today, and nobody slept well.</p><p>bonjour</p>";
    let found = engine.translate_document(Format::Html, page, &options("fr")).unwrap();
    let route = found.route.unwrap();
    assert_eq!((route.from.as_str(), route.to.as_str(), route.guessed), ("en", "fr", true));
    assert!(!found.notes.iter().any(is_same), "{:?}", found.notes);
    let said = TranslateOptions { from: Some("en".into()), ..options("fr") };
    let said = engine.translate(&["bonjour"], &said).unwrap();
    assert!(found.text.ends_with(&format!("<p>{}</p>", said[0].text())), "{}", found.text);
}
