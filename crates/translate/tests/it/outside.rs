//! Comparison with Hugging Face's `MarianTokenizer` and `generate` on the same folder.

use polyhead_text::tokenizer::Tokenizer;
use polyhead_translate::{Mode, TranslateOptions};
use serde::Deserialize;

use crate::{engine, golden};

#[derive(Deserialize)]
struct Expected {
    texts: Vec<TextCase>,
    generate: Vec<GenerateCase>,
}

#[derive(Deserialize)]
struct TextCase {
    text: String,
    source_ids: Vec<u32>,
    target_ids: Vec<u32>,
    source_decoded: String,
    target_decoded: String,
}

#[derive(Deserialize)]
struct GenerateCase {
    text: String,
    greedy: Generated,
    beam: Generated,
}

#[derive(Deserialize)]
struct Generated {
    ids: Vec<u32>,
    text: String,
    score: f64,
}

fn expected() -> Expected {
    serde_json::from_slice(&std::fs::read(golden().join("expected.json")).unwrap()).unwrap()
}

#[test]
fn texts_have_the_ids_of_the_marian_tokenizer() {
    let (engine, tokenizer) = (engine(), Tokenizer::load(golden()).unwrap());
    let mut wrong = Vec::new();
    let cases = expected().texts;
    assert_eq!(cases.len(), 33);
    // There, special tokens typed into a text become the tokens; here they are text like any other.
    let is_special = |text: &str| ["</s>", "<pad>", "<unk>"].iter().any(|token| text.contains(token));
    for case in cases.into_iter().filter(|case| !is_special(&case.text)) {
        if engine.source_ids(&case.text).unwrap() != case.source_ids {
            wrong.push(format!("source ids of {:?}", case.text));
        }
        let mut target_ids = tokenizer.encode_target(&case.text).unwrap().ids;
        target_ids.push(0);
        if target_ids != case.target_ids {
            wrong.push(format!("target ids of {:?}: {target_ids:?} not {:?}", case.text, case.target_ids));
        }
        for (ids, decoded) in
            [(&case.source_ids, &case.source_decoded), (&case.target_ids, &case.target_decoded)]
        {
            let found = engine.decode(ids).unwrap();
            if found != *decoded {
                wrong.push(format!("{:?} decoded is {found:?}, not {decoded:?}", case.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn raw_translations_are_those_of_generate() {
    let engine = engine();
    for case in expected().generate {
        for (beam_size, expected) in [(Some(1), &case.greedy), (None, &case.beam)] {
            let options = TranslateOptions { mode: Mode::Raw, beam_size, ..TranslateOptions::default() };
            let found = engine.translate(&[&case.text], &options).unwrap().remove(0);
            assert_eq!(found.text(), expected.text, "{:?}", case.text);
            // The first id is the start.
            assert_eq!(found.best().tokens, expected.ids.len() - 1, "{:?}", case.text);
            let difference = (found.best().score - expected.score).abs();
            assert!(difference < 1e-4, "{:?}: {} not {}", case.text, found.best().score, expected.score);
        }
    }
}
