//! `/v1/embeddings` and `/v1/models`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::client::get;

fn embeddings(answer: &Value) -> Vec<Vec<f32>> {
    answer["data"].as_array().unwrap().iter().map(|own| floats(&own["embedding"])).collect()
}

fn decoded(text: &str) -> Vec<f32> {
    let bytes = STANDARD.decode(text).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn vectors_are_those_of_the_engine_to_the_bit() {
    let server = Running::all();
    for name in ["sentence", "plain", "classifier", "tagger"] {
        let encoder = server.encoder(name);
        let expected = vectors(&encoder, &TEXTS);
        let answer = server.answered("/v1/embeddings", &json!({ "model": name, "input": TEXTS }));
        assert_eq!(embeddings(&answer), expected, "{name}");
        assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!(name)));
        for (index, own) in answer["data"].as_array().unwrap().iter().enumerate() {
            assert_eq!((&own["object"], &own["index"]), (&json!("embedding"), &json!(index)));
        }
        let tokens: usize = encoder
            .embed(&TEXTS, LongTexts::Refuse)
            .unwrap()
            .into_iter()
            .map(|own| own.unwrap().n_tokens)
            .sum();
        assert_eq!(answer["usage"], json!({ "prompt_tokens": tokens, "total_tokens": tokens }));
        let body = json!({ "model": name, "input": TEXTS, "encoding_format": "base64", "dimensions": 8, "user": "u" });
        let answer = server.answered("/v1/embeddings", &body);
        let found: Vec<Vec<f32>> = answer["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| decoded(own["embedding"].as_str().unwrap()))
            .collect();
        assert_eq!(found, expected, "{name}");
    }
    // The first encoder is the default.
    let answer = server.answered("/v1/embeddings", &json!({ "input": TEXTS[0], "encoding_format": "float" }));
    assert_eq!(embeddings(&answer), vectors(&server.encoder("sentence"), &TEXTS[..1]));
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn ids_are_read_with_and_without_special_tokens() {
    let server = Running::all();
    let encoder = server.encoder("sentence");
    let expected = vectors(&encoder, &TEXTS[..2]);
    let with: Vec<Vec<u32>> =
        TEXTS[..2].iter().map(|text| encoder.read(text, LongTexts::Refuse).unwrap().encoding.ids).collect();
    let without: Vec<&[u32]> = with.iter().map(|ids| &ids[1..ids.len() - 1]).collect();
    for input in [json!(with), json!(without)] {
        let answer = server.answered("/v1/embeddings", &json!({ "input": input }));
        assert_eq!(embeddings(&answer), expected);
        let answer = server.answered("/v1/embeddings", &json!({ "input": input[0] }));
        assert_eq!(embeddings(&answer), expected[..1]);
    }
    // A prompt is put before texts and ids.
    let prompted = vectors(&encoder, &["a dog barks.", "a dog dogs"]);
    for input in [json!(["barks.", "dogs"]), json!([[9, 10], [6, 8]])] {
        let answer = server.answered("/v1/embeddings", &json!({ "input": input, "prompt_name": "query" }));
        assert_eq!(embeddings(&answer), prompted);
    }
    let long: Vec<u32> = vec![6; 40];
    let answer = server.answered("/v1/embeddings", &json!({ "input": long, "truncate": true }));
    assert_eq!(embeddings(&answer), vectors(&encoder, &["dog ".repeat(40).as_str()]));
    assert_eq!(answer["usage"]["prompt_tokens"], 16);
}

#[test]
fn errors_have_openais_shape() {
    let server = Running::all();
    let long = "dog ".repeat(15);
    let limits = RequestLimits::default();
    for (body, status, param, code, part) in [
        (json!({}), 400, json!("input"), "invalid_value", "input: nothing, expected a text"),
        (json!({ "input": [] }), 400, json!("input"), "invalid_value", "an empty array"),
        (json!({ "input": ["a", 1] }), 400, json!("input"), "invalid_value", "texts and other values"),
        (json!({ "input": [[]] , "model": "plain" }), 200, json!(null), "", ""),
        (
            json!({ "input": [3, 99] }),
            400,
            json!("input"),
            "invalid_value",
            "the text: token 99, expected one below 12",
        ),
        (
            json!({ "input": ["a", long] }),
            400,
            json!("input"),
            "context_length_exceeded",
            "text 2 has 17 tokens, expected at most 16",
        ),
        (
            json!({ "input": "a", "dimensions": 4 }),
            400,
            json!("dimensions"),
            "invalid_value",
            "dimensions: 4, expected 8",
        ),
        (
            json!({ "input": "a", "encoding_format": "hex" }),
            400,
            json!("encoding_format"),
            "invalid_value",
            "expected float or base64",
        ),
        (
            json!({ "input": "a", "prompt_name": "answer" }),
            400,
            json!("input"),
            "invalid_value",
            "no prompt \"answer\", expected one of none, query",
        ),
        (
            json!({ "input": "a", "inputs": "b" }),
            400,
            json!(null),
            "unknown_field",
            "unknown field \"inputs\"",
        ),
        (
            json!({ "input": "a", "model": "gpt-9" }),
            404,
            json!("model"),
            "model_not_found",
            "no encoder \"gpt-9\", expected one of sentence, plain",
        ),
        (
            json!({ "input": vec!["a"; limits.inputs + 1] }),
            413,
            json!(null),
            "request_too_large",
            "2049 texts",
        ),
        (
            json!({ "input": "a".repeat(limits.characters + 1) }),
            413,
            json!(null),
            "request_too_large",
            "50001 characters of a text",
        ),
    ] {
        let answer = post(server.port, "/v1/embeddings", &body);
        let error = &answer.json()["error"];
        assert_eq!(answer.status, status, "{}", answer.body);
        if status != 200 {
            assert_eq!((&error["param"], &error["code"]), (&param, &json!(code)), "{error}");
            assert!(error["message"].as_str().unwrap().contains(part), "{error}");
            assert!(!error["hint"].as_str().unwrap().is_empty());
        }
    }
    let answer = server.send_as("wrong", "/v1/embeddings", &json!({ "input": "a" }));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn encoders_are_listed_and_described() {
    let server = Running::all();
    let listed = get(server.port, "/v1/models").json();
    let names: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|own| own["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["sentence", "plain", "reranker", "classifier", "tagger"]);
    assert_eq!(
        listed["data"][2],
        json!({ "id": "reranker", "object": "model", "created": 0, "owned_by": "polyhead", "is_loaded": false, "context_length": 16,
                "calls": ["/v1/embeddings", "/embed", "/similarity", "/embed_all", "/predict", "/rerank"] })
    );
    assert_eq!(get(server.port, "/v1/models/sentence").json()["is_loaded"], true);
    assert_eq!(get(server.port, "/v1/models/other").status, 404);
    assert_eq!(get(server.port, "/ready").status, 200);
    let described = get(server.port, "/openapi.json").json();
    assert_eq!(described["components"]["schemas"]["EncoderName"]["enum"], json!(names));
    let most = &described["components"]["schemas"]["EncoderInput"]["anyOf"][1]["maxItems"];
    assert_eq!(most, &json!(2048));
}

#[test]
fn encoders_stand_beside_translators_and_language_models() {
    let folder = tempfile::tempdir().unwrap();
    let encoder = model(folder.path(), ("encoder", "none"), &[], SMALL);
    let gpt2 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/gpt2");
    let models = vec![("golden", crate::golden()), ("gpt2", gpt2), ("encoder", encoder)];
    let server = Running::with(folder, models, RequestLimits::default());
    let expected = vectors(&server.encoder("encoder"), &TEXTS[..1]);
    let text = json!({ "text": "The teacher reads a book today.", "to": "tr" });
    let translated = server.answered("/v1/translate", &text);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, expected, translated, text) = (&server, &expected, &translated, &text);
            scope.spawn(move || {
                if client % 2 == 0 {
                    let answer = server.answered("/v1/embeddings", &json!({ "input": TEXTS[0] }));
                    assert_eq!(&embeddings(&answer), expected);
                } else {
                    assert_eq!(&server.answered("/v1/translate", text), translated);
                }
            });
        }
    });
    let listed = get(server.port, "/v1/models").json();
    assert_eq!(
        (listed["models"].as_array().unwrap().len(), listed["data"].as_array().unwrap().len()),
        (1, 2)
    );
    let answer = post(server.port, "/v1/embeddings", &json!({ "input": "a", "model": "gpt2" }));
    assert_eq!(answer.status, 404, "{}", answer.body);
    let answer = post(server.port, "/v1/completions", &json!({ "prompt": "a", "model": "encoder" }));
    assert_eq!(answer.status, 404, "{}", answer.body);
    assert_eq!(server.state.scheduler.reload().unwrap(), 2);
    let again = server.answered("/v1/embeddings", &json!({ "input": TEXTS[0] }));
    assert_eq!(embeddings(&again), expected);
    // Without an encoder the calls say so.
    let folder = tempfile::tempdir().unwrap();
    let server = Running::with(folder, vec![("golden", crate::golden())], RequestLimits::default());
    let answer = post(server.port, "/v1/embeddings", &json!({ "input": "a" }));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!("model_not_found")));
    let answer = post(server.port, "/embed", &json!({ "inputs": "a" }));
    assert_eq!((answer.status, &answer.json()["error_type"]), (424, &json!("Backend")));
}
