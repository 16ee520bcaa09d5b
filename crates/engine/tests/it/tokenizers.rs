//! Tokenisers of language models against those of Python, and texts that grow token by token.

use polyhead_engine::{Generator, LoadOptions};
use polyhead_text::tokenizer::TextStream;

use crate::{answers, changed, golden, ids, list, load, text};

/// The text of tokens that come one by one, in parts.
fn streamed(generator: &Generator, ids: &[u32]) -> Vec<String> {
    let tokenizer = generator.tokenizer();
    let mut stream = TextStream::default();
    let mut parts: Vec<String> = ids.iter().map(|&id| stream.push(id, tokenizer).unwrap()).collect();
    parts.push(stream.finish(tokenizer).unwrap());
    parts
}

#[test]
fn ids_and_texts_equal_those_of_python_and_grow_by_whole_characters() {
    let answers = answers();
    for (model, start) in [("gpt2", vec![]), ("llama", vec![1])] {
        let generator = load(golden().join(model));
        for case in list(&answers[model]["texts"]) {
            let (expected, text, decoded) = (ids(&case["ids"]), text(&case["text"]), text(&case["decoded"]));
            if !text.is_empty() {
                assert_eq!(
                    generator.encode(text).unwrap(),
                    [&start[..], &expected].concat(),
                    "{model}: {text:?}"
                );
            }
            assert_eq!(generator.tokenizer().decode(&expected).unwrap(), decoded, "{model}: {text:?}");
            let parts = streamed(&generator, &expected);
            assert_eq!(parts.concat(), decoded, "{model}: {text:?}");
            if !decoded.contains('\u{fffd}') {
                assert!(parts.iter().all(|part| !part.contains('\u{fffd}')), "{model}: {parts:?}");
            }
            // After a prompt: the text in two parts.
            for at in 0..expected.len() {
                let (prompt, rest) = expected.split_at(at);
                let before = generator.tokenizer().decode(prompt).unwrap();
                if before.contains('\u{fffd}') {
                    continue; // a prompt ends with a whole character
                }
                let mut stream = TextStream::after(prompt, generator.tokenizer()).unwrap();
                let mut found = before;
                for &id in rest {
                    found += &stream.push(id, generator.tokenizer()).unwrap();
                }
                found += &stream.finish(generator.tokenizer()).unwrap();
                assert_eq!(found, decoded, "{model}: {text:?} at {at}");
            }
        }
        for case in list(&answers[model]["random"]) {
            let (expected, decoded) = (ids(&case["ids"]), text(&case["decoded"]));
            assert_eq!(generator.tokenizer().decode(&expected).unwrap(), decoded, "{model}");
            let parts = streamed(&generator, &expected);
            // With bytes that are no character, a run of byte tokens is decoded as far as it is certain.
            if model == "gpt2" {
                assert_eq!(parts.concat(), decoded, "{model}: {parts:?}");
            }
        }
    }
}

#[test]
fn a_prompt_begins_as_the_tokeniser_says() {
    // GPT-2 has no start token, but an empty prompt begins with one.
    assert_eq!(load(golden().join("gpt2")).encode("").unwrap(), [0]);
    assert_eq!(load(golden().join("llama")).encode("").unwrap(), [1]);
    let config = |add: &str| format!(r#"{{"bos_token": "<s>", "add_bos_token": {add}}}"#);
    let without = changed("llama", &[("tokenizer_config.json", Some(&config("false")))]);
    let generator = load(without.path());
    assert_ne!(generator.encode("a").unwrap()[0], 1);
    let with = changed(
        "gpt2",
        &[("tokenizer_config.json", Some(r#"{"bos_token": "<|endoftext|>", "add_bos_token": true}"#))],
    );
    assert_eq!(load(with.path()).encode("a").unwrap()[0], 0);
    // No start token at all.
    let config = std::fs::read_to_string(golden().join("gpt2/config.json")).unwrap();
    let config = config.replace("\"bos_token_id\": 0,", "");
    let none = changed("gpt2", &[("generation_config.json", Some("{}")), ("config.json", Some(&config))]);
    let error = load(none.path()).encode("").unwrap_err();
    assert!(error.to_string().contains("an empty prompt, expected some text"), "{error}");
}

#[test]
fn tokenisers_that_are_missing_or_wrong_are_refused() {
    let open = |files: &[(&str, Option<&str>)]| {
        let folder = changed("gpt2", files);
        Generator::load(folder.path(), &LoadOptions::default()).unwrap_err().to_string()
    };
    let error = open(&[("merges.txt", None), ("vocab.json", None)]);
    assert!(error.contains("a folder without a tokeniser") && error.contains("merges.txt"), "{error}");
    let error = open(&[("merges.txt", Some("#version: 0.2\na b c\n"))]);
    assert!(error.contains("merges.txt:2") && error.contains("two tokens"), "{error}");
    let error = open(&[("merges.txt", Some("zz yy\n"))]);
    assert!(error.contains("zz"), "{error}");
    let error = open(&[("vocab.json", Some("[]"))]);
    assert!(error.contains("an object of tokens and ids"), "{error}");
    let error = open(&[("tokenizer_config.json", Some(r#"{"tokenizer_class": "Qwen2Tokenizer"}"#))]);
    assert!(error.contains("tokenizer_class Qwen2Tokenizer"), "{error}");
}
