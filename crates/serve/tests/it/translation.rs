//! The explorer's translation is that of `translate`, and its trace is of what the model read and wrote.

use std::path::Path;

use polyhead_serve::Explorer;
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::ExplorerLimits;
use polyhead_translate::{Engine, LoadOptions, TranslateOptions};
use serde_json::{Value, json};

use crate::client::post;
use crate::{engine, explorer};

/// Texts of every kind, one a line; the last fields are the languages.
fn texts() -> Vec<[String; 3]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/texts.tsv");
    let file = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default().replace("\\n", "\n");
        [next(), next(), next()]
    };
    file.lines().map(line).collect()
}

fn default_model() -> Engine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/default");
    Engine::load(folder, &LoadOptions::default()).unwrap()
}

fn given(language: &str) -> Option<String> {
    Some(language.to_owned()).filter(|language| !language.is_empty())
}

fn ids(side: &Value) -> Vec<u64> {
    side["tokens"].as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap()).collect()
}

/// Asserts that the answer has the translation of `engine`, and a trace of one segment of it.
fn is_translation(answer: &Value, engine: &Engine, text: &str, options: &TranslateOptions) {
    let expected = engine.translate(&[text], options).unwrap().remove(0);
    let found = &answer["translation"];
    assert_eq!(found["text"], expected.text(), "{text:?}");
    let notes: Vec<String> = expected.notes.iter().map(ToString::to_string).collect();
    let messages = found["notes"].as_array().unwrap().iter().map(|note| note["message"].as_str().unwrap());
    assert!(messages.eq(notes.iter().map(String::as_str)), "{text:?}: {found}");
    assert_eq!(found["route"], json!(expected.route), "{text:?}");
    let Some(index) = found["segment"].as_u64() else {
        assert_eq!(answer["trace"], Value::Null, "{text:?}");
        return;
    };
    let segment = &found["segments"][index as usize];
    let trace = &answer["trace"];
    assert_eq!(trace["source"]["text"], segment["read"], "{text:?}");
    assert_eq!(trace["steps"].as_array().unwrap().len(), ids(&trace["target"]).len());
}

#[test]
fn texts_of_every_kind_have_the_translation_of_translate() {
    let texts = texts();
    assert!(texts.len() >= 200, "{}", texts.len());
    let (port, tiny) = (explorer(ExplorerLimits::default()), engine());
    for [text, _, _] in &texts {
        let body = json!({ "text": text, "to": "tur", "without_weights": true });
        let options = TranslateOptions { to: Some("tur".into()), ..TranslateOptions::default() };
        is_translation(&post(port, "/api/trace", &body).json(), &tiny, text, &options);
    }
}

#[test]
fn the_default_model_reads_prepared_text_and_takes_two_hops() {
    let engine = default_model();
    let listening = Explorer::new(default_model(), "default").listen(Port::Exactly(0)).unwrap();
    let port = listening.address().port();
    std::thread::spawn(move || listening.run());
    let ask = |body: &Value| post(port, "/api/trace", body).json();
    for [text, from, to] in &texts() {
        let body = json!({ "text": text, "from": given(from), "to": given(to), "beam_size": 1, "without_weights": true });
        let (from, to) = (given(from), given(to));
        let options = TranslateOptions { from, to, beam_size: Some(1), ..TranslateOptions::default() };
        is_translation(&ask(&body), &engine, text, &options);
    }

    let mail = ask(&json!({ "text": "MAIL ANN@EXAMPLE.ORG NOW!", "from": "en", "to": "de", "beam_size": 2 }));
    let segment = &mail["translation"]["segments"][0];
    let read = segment["read"].as_str().unwrap();
    assert!(read.contains('\u{e000}') && !read.contains("MAIL"), "{read}");
    assert!(mail["translation"]["text"].as_str().unwrap().contains("ANN@EXAMPLE.ORG"));
    assert_eq!(mail["trace"]["source"]["text"], segment["read"]);

    let hops = json!({ "text": "Guten Morgen. Wie geht es dir?", "from": "de", "to": "fr", "beam_size": 2, "segment": 3 });
    let hops = ask(&hops);
    let seen: Vec<(&Value, &Value, &Value)> = hops["translation"]["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| (&own["sentence"], &own["hop"], &own["to"]))
        .collect();
    let [zero, one, en, fr] = [json!(0), json!(1), json!("en"), json!("fr")];
    assert_eq!(seen, [(&zero, &zero, &en), (&zero, &one, &fr), (&one, &zero, &en), (&one, &one, &fr)]);
    assert_eq!(hops["trace"]["source"]["text"], hops["translation"]["segments"][2]["translation"]);
    assert_eq!(hops["trace"]["route"]["from"], "en");

    let unknown = ask(&json!({ "text": "Привет, как дела?", "to": "de", "beam_size": 2 }));
    let notes = unknown["translation"]["notes"].to_string();
    assert!(notes.contains("Cyrillic script, which this model does not translate"), "{notes}");
    let same = ask(&json!({ "text": "Guten Morgen.", "from": "de", "to": "de" }));
    assert_eq!((&same["translation"]["text"], &same["trace"]), (&json!("Guten Morgen."), &Value::Null));
    let rows =
        post(port, "/api/embeddings", &json!({ "words": ["cat", "dog", "antidisestablishmentarianism"] }))
            .json();
    assert_eq!((&rows["d_model"], &rows["split"][0]), (&json!(320), &json!("antidisestablishmentarianism")));
    let row = &rows["rows"][0];
    assert!((row["similarities"][0].as_f64().unwrap() - 1.0).abs() < 1e-6, "{row}");
    assert_eq!((row["vector"].as_array().unwrap().len(), row["nearest"].as_array().unwrap().len()), (320, 5));
}

#[test]
fn nothing_is_traced_where_the_model_read_nothing() {
    let port = explorer(ExplorerLimits::default());
    for text in ["", " \n"] {
        let answer = post(port, "/api/trace", &json!({ "text": text, "to": "tur" })).json();
        assert_eq!((&answer["translation"]["text"], &answer["trace"]), (&json!(text), &Value::Null));
    }
    let two = "The garden is old. The teacher reads a book.";
    let second = post(port, "/api/trace", &json!({ "text": two, "to": "tur", "segment": 1 })).json();
    assert_eq!(second["trace"]["source"]["text"], "The teacher reads a book.");
    let answer = post(port, "/api/trace", &json!({ "text": two, "to": "tur", "segment": 2 }));
    assert!(
        answer.status == 400 && answer.body.contains("segment 2, expected one of 0 to 1"),
        "{}",
        answer.body
    );
}
