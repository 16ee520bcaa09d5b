//! Trained directions, routes via a third language, and language detection.

use std::fs;

use polyhead_translate::segment::split;
use polyhead_translate::{
    Engine, Evidence, LanguageDetection, LoadOptions, Note, TranslateOptions, Translation,
};

use crate::folders::{copy, refused};

/// The golden model with these directions in its folder; it has tags for French and Turkish.
fn engine(directions: &str) -> Engine {
    let folder = copy();
    fs::write(folder.path().join("tokenizer_config.json"), format!(r#"{{"directions": {directions}}}"#))
        .unwrap();
    Engine::load(folder.path(), &LoadOptions::default()).unwrap()
}

fn options(from: Option<&str>, to: Option<&str>) -> TranslateOptions {
    let [from, to] = [from, to].map(|language| language.map(str::to_owned));
    TranslateOptions { from, to, ..TranslateOptions::default() }
}

fn translate(engine: &Engine, text: &str, options: &TranslateOptions) -> Translation {
    engine.translate(&[text], options).unwrap().remove(0)
}

const TEXT: &str = "The teacher reads a book today.  Nobody slept well!\n\tThe garden is old.";

#[test]
fn an_untrained_direction_takes_two_hops() {
    let engine = engine(r#"["eng-fra", "fra-tur"]"#);
    let both =
        TranslateOptions { n_best: 2, evidence: Evidence::Alignment, ..options(Some("en"), Some("tur")) };
    let found = translate(&engine, TEXT, &both);
    // Sentence by sentence. Without directions the language, which is Turkish, is not detected.
    let (mut texts, mut tokens) = (vec![String::new(); 2], 0);
    for sentence in split(TEXT).sentences {
        let first = translate(&engine, sentence.text, &options(Some("eng"), Some("fr")));
        let second =
            translate(&crate::engine(), first.text(), &TranslateOptions { from: None, ..both.clone() });
        for (text, own) in texts.iter_mut().zip(&second.n_best) {
            text.push_str(&own.text);
            text.push_str(sentence.separator);
        }
        tokens += first.source_tokens + second.source_tokens;
    }
    let found_texts: Vec<&str> = found.n_best.iter().map(|own| own.text.as_str()).collect();
    assert_eq!((found_texts, found.source_tokens), (texts.iter().map(String::as_str).collect(), tokens));
    assert_eq!(found.notes[0], Note::Through { language: "fr".into() });
    assert!(!found.notes[0].is_warning() && found.notes[0].to_string() == "via French");
    assert!(found.text().contains("\n\t"), "{:?}", found.text());
    let (words, target) = (TEXT.split_whitespace().count(), found.text().split_whitespace().count());
    let pairs = found.alignment.unwrap();
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair.0 < words && pair.1 < target), "{pairs:?}");
    let route = found.route.unwrap();
    assert_eq!(route.to_string(), "from English, into Turkish, via French");
    assert!(route.is_notable() && !route.guessed);

    let direct = translate(&engine, TEXT, &options(Some("en"), Some("fr")));
    assert!(!direct.route.unwrap().is_notable());
    assert_eq!(direct.n_best, translate(&crate::engine(), TEXT, &options(None, Some("fr"))).n_best);
}

#[test]
fn a_missing_route_is_refused_with_the_known_ones() {
    let engine = engine(r#"["eng-fra", "fra-tur", "tur-fra"]"#);
    let error = |from, to| {
        let error = engine.translate(&["a"], &options(Some(from), Some(to))).unwrap_err();
        assert!(error.is_misuse());
        format!("{error}; {}", error.hint())
    };
    assert!(
        error("de", "fr")
            .starts_with("language \"de\": the model knows English (en), French (fr), Turkish (tr)")
    );
    assert!(error("en", "de").starts_with("language \"de\": the model knows English (en), French (fr)"));
    let none = Engine::translate(
        &self::engine(r#"["eng-fra", "deu-tur"]"#),
        &["a"],
        &options(Some("en"), Some("tr")),
    );
    let none = none.unwrap_err();
    assert_eq!(none.to_string(), "no route from en to tr, directly or via a third language");
    assert!(none.hint().ends_with("en-fr, de-tr"), "{}", none.hint());
}

#[test]
fn a_text_in_the_target_language_is_copied() {
    let engine = engine(r#"["eng-fra", "fra-tur"]"#);
    let found = translate(&engine, "Je  suis ici. 😀", &options(Some("fr"), Some("fra")));
    assert_eq!((found.text(), found.source_tokens), ("Je  suis ici. 😀", 0));
    assert_eq!(found.notes, [Note::Same { language: "fr".into() }]);
}

#[test]
fn languages_are_detected_or_defaults() {
    let engine = engine(r#"["eng-tur", "tur-fra", "deu-fra", "fra-tur"]"#);
    let route = |text: &str, from, to| {
        translate(&engine, text, &options(from, to)).route.map(|route| route.to_string()).unwrap_or_default()
    };
    let english = "The teacher reads a book in the garden.";
    let german = "Der Lehrer liest heute ein Buch im Garten.";
    assert_eq!(route(english, None, None), "from English (detected), into Turkish");
    assert_eq!(route(german, None, None), "from German (detected), into French");
    assert_eq!(route(german, None, Some("tr")), "from German (detected), into Turkish, via French");
    assert_eq!(route(german, Some("de"), None), "from German, into French");
    assert_eq!(
        route(&format!(">>fra<< {english}"), None, None),
        "from English (detected), into French, via Turkish"
    );
    assert_eq!(route("12 ... 34", None, None), "");
    // A clear text overrules the given language, others do not.
    assert_eq!(route(german, Some("en"), Some("fr")), "from German (detected), into French");
    let overruled = translate(&engine, german, &options(Some("en"), Some("fr")));
    assert!(
        overruled.notes.contains(&Note::LooksLike { language: "de".into(), is_believed: true }),
        "{:?}",
        overruled.notes
    );
    assert_eq!(
        route("Komşumuz bugün bahçede kitap okuyor.", Some("en"), Some("tr")),
        "from English, into Turkish"
    );
    assert_eq!(route("Garten", Some("en"), Some("tr")), "from English, into Turkish");
}

#[test]
fn an_undetectable_text_needs_a_target_language() {
    let engine = engine(r#"["spa-fra", "eng-fra"]"#);
    let sent = translate(&engine, "hola", &options(None, Some("fr")));
    assert!(sent.route.is_none() && sent.source_tokens > 0, "{sent:?}");
    assert_eq!(translate(&engine, "1 + 1", &options(None, None)).text(), "1 + 1");
    let error = engine.translate(&["hola"], &options(None, None)).unwrap_err();
    assert_eq!(error.to_string(), "the language of the text cannot be detected among es, en");
}

#[test]
fn lines_in_order_are_detected_alike_in_any_chunks() {
    let engine = engine(r#"["eng-tur", "deu-tur", "fra-tur"]"#);
    let lines = [
        "Es war einmal ein König, der hatte drei Töchter.",
        "Hotel",
        "OK",
        "Taxi!",
        "And this line is clearly written in English, my friend.",
        "",
        "Tom",
    ];
    let mut one_by_one = TranslateOptions {
        detection: LanguageDetection::InOrder,
        beam_size: Some(1),
        max_length: Some(4),
        ..options(None, Some("tr"))
    };
    let together = engine.translate(&lines, &one_by_one).unwrap();
    let from = |found: &Translation| found.route.as_ref().map_or("", |route| route.from.as_str()).to_owned();
    let all: Vec<String> = together.iter().map(from).collect();
    assert_eq!(all[..6], ["de", "de", "de", "de", "en", ""]);
    for (line, expected) in lines.iter().zip(&together) {
        assert_eq!(&translate(&engine, line, &one_by_one), expected, "{line}");
        one_by_one.follow(&[line]);
    }
}

#[test]
fn invalid_directions_are_refused() {
    for (directions, part) in [
        (r#"["engtur"]"#, "direction \"engtur\": expected two codes, such as eng-tur"),
        (r#"["tur-eng"]"#, "direction \"tur-eng\": the vocabulary has no tag for eng"),
        ("[3]", "direction \"3\": expected two codes"),
    ] {
        let folder = copy();
        fs::write(folder.path().join("tokenizer_config.json"), format!(r#"{{"directions": {directions}}}"#))
            .unwrap();
        let (message, hint) = refused(folder.path());
        assert!(message.contains(part) && message.contains("tokenizer_config.json"), "{message}");
        assert_eq!(hint, "correct the key or remove it");
    }
}
