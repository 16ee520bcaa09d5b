//! The calls of text-embeddings-inference.

use polyhead_engine::classify::Classifier;
use polyhead_engine::encoder::embed::cosine;
use polyhead_engine::encoder::rerank::Reranker;

use super::*;
use crate::client::get;

fn length(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[test]
fn embed_gives_vectors_of_length_one_unless_told_otherwise() {
    let server = Running::all();
    let sentence = vectors(&server.encoder("sentence"), &TEXTS);
    let plain = vectors(&server.encoder("plain"), &TEXTS);
    assert_eq!(rows(&server.answered("/embed", &json!({ "inputs": TEXTS }))), sentence);
    assert_eq!(rows(&server.answered("/embed", &json!({ "inputs": TEXTS[0] }))), sentence[..1]);
    let null = json!({ "inputs": TEXTS[0], "truncate": null, "prompt_name": null, "parameters": {} });
    assert_eq!(rows(&server.answered("/embed", &null)), sentence[..1]);
    let raw =
        rows(&server.answered("/embed", &json!({ "inputs": TEXTS, "model": "plain", "normalize": false })));
    assert_eq!(raw, plain);
    let unit = rows(&server.answered("/embed", &json!({ "inputs": TEXTS, "model": "plain" })));
    for (unit, plain) in unit.iter().zip(&plain) {
        assert!((length(unit) - 1.0).abs() < 1e-6 && (cosine(unit, plain) - 1.0).abs() < 1e-6);
    }
    // Without the module that normalises.
    let raw = rows(&server.answered("/embed", &json!({ "inputs": TEXTS, "normalize": false })));
    for (raw, own) in raw.iter().zip(&sentence) {
        assert!((length(raw) - 1.0).abs() > 1e-3 && (cosine(raw, own) - 1.0).abs() < 1e-6);
    }
    let prompted = server.answered("/embed", &json!({ "inputs": "barks.", "prompt_name": "query" }));
    assert_eq!(rows(&prompted), sentence[..1]);
    assert_eq!(rows(&server.answered("/", &json!({ "inputs": TEXTS[0] }))), sentence[..1]);
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn embed_all_gives_the_states_of_all_tokens() {
    let server = Running::all();
    let encoder = server.encoder("sentence");
    let found = server.answered("/embed_all", &json!({ "inputs": TEXTS }));
    let expected = encoder.embed_tokens(&TEXTS, LongTexts::Refuse).unwrap();
    assert_eq!(found.as_array().unwrap().len(), TEXTS.len());
    for (found, expected) in found.as_array().unwrap().iter().zip(expected) {
        let expected: Vec<Vec<f32>> =
            expected.unwrap().tokens.into_iter().map(|token| token.vector).collect();
        assert_eq!(rows(found), expected);
    }
}

#[test]
fn rerank_sorts_texts_by_the_scores_of_the_reranker() {
    let server = Running::all();
    let reranker = Reranker::load(server.folder("reranker"), &LoadOptions::default()).unwrap();
    let own: Vec<_> = reranker
        .scores("a river", &TEXTS, LongTexts::Refuse)
        .unwrap()
        .into_iter()
        .map(|own| own.unwrap())
        .collect();
    for (raw, with_text) in [(false, false), (true, true)] {
        let body = json!({ "query": "a river", "texts": TEXTS, "raw_scores": raw, "return_text": with_text });
        let found = server.answered("/rerank", &body);
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), TEXTS.len());
        let score = |index: usize| found[index]["score"].as_f64().unwrap();
        assert!((1..found.len()).all(|index| score(index - 1) >= score(index)), "{found:?}");
        for entry in found {
            let index = entry["index"].as_u64().unwrap() as usize;
            let score = entry["score"].as_f64().unwrap();
            if raw {
                assert_eq!(score as f32, own[index].logit);
                assert_eq!(entry["text"], TEXTS[index]);
            } else {
                assert!((score - own[index].probability()).abs() < 1e-6);
                assert!(entry.get("text").is_none());
            }
        }
    }
}

#[test]
fn predict_gives_the_classes_of_texts_and_pairs() {
    let server = Running::all();
    let classifier = Classifier::load(server.folder("classifier"), &LoadOptions::default()).unwrap();
    let expected: Vec<Value> = classifier
        .classify(&TEXTS)
        .unwrap()
        .into_iter()
        .map(|classes| {
            let class = |class: &polyhead_engine::classify::Class| json!({ "score": class.probability as f32, "label": class.label });
            json!(classes.iter().map(class).collect::<Vec<_>>())
        })
        .collect();
    let same = |found: &Value, expected: &Value| {
        for (found, expected) in found.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
            assert_eq!(found["label"], expected["label"]);
            assert_eq!(found["score"].as_f64().unwrap() as f32, expected["score"].as_f64().unwrap() as f32);
        }
        assert_eq!(found.as_array().unwrap().len(), 3);
    };
    same(&server.answered("/predict", &json!({ "inputs": TEXTS[0] })), &expected[0]);
    same(&server.answered("/predict", &json!({ "inputs": [TEXTS[0]] })), &expected[0]);
    let listed: Vec<[&str; 1]> = TEXTS.iter().map(|text| [*text]).collect();
    let found = server.answered("/predict", &json!({ "inputs": listed }));
    found.as_array().unwrap().iter().zip(&expected).for_each(|(found, expected)| same(found, expected));
    // Raw scores are logits, whose softmax is the probability.
    let raw = server.answered("/predict", &json!({ "inputs": TEXTS[0], "raw_scores": true }));
    let scores: Vec<f64> =
        raw.as_array().unwrap().iter().map(|own| own["score"].as_f64().unwrap().exp()).collect();
    let best = scores[0] / scores.iter().sum::<f64>();
    assert!((best - expected[0][0]["score"].as_f64().unwrap()).abs() < 1e-6);
    // A pair: an array of two texts. One label has the sigmoid.
    let pair = server.answered("/predict", &json!({ "inputs": ["a river", TEXTS[0]], "model": "reranker" }));
    let rerank = server.answered("/rerank", &json!({ "query": "a river", "texts": [TEXTS[0]] }));
    assert_eq!((&pair[0]["score"], &pair[0]["label"]), (&rerank[0]["score"], &json!("score")));
    let pairs = server
        .answered("/predict", &json!({ "inputs": [["a river", TEXTS[0]], ["a"]], "model": "reranker" }));
    assert_eq!(pairs[0], pair);
}

#[test]
fn similarity_is_the_cosine_of_the_vectors() {
    let server = Running::all();
    let own = vectors(&server.encoder("sentence"), &TEXTS);
    let body = json!({
        "inputs": { "source_sentence": TEXTS[0], "sentences": TEXTS }, "parameters": { "truncate": true, "truncation_direction": "right" },
    });
    let found = floats(&server.answered("/similarity", &body));
    let expected: Vec<f32> = own.iter().map(|other| cosine(&own[0], other) as f32).collect();
    assert_eq!(found, expected);
    for (body, part) in [
        (json!({ "inputs": "a" }), "source_sentence"),
        (json!({ "inputs": { "source_sentence": "a" } }), "inputs.sentences"),
        (
            json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] }, "parameters": { "top_k": 1 } }),
            "unknown field",
        ),
        (
            json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] }, "parameters": { "truncate": 3 } }),
            "parameters.truncate",
        ),
    ] {
        let answer = post(server.port, "/similarity", &body);
        assert!(answer.status == 422 && answer.body.contains(part), "{}", answer.body);
    }
}

#[test]
fn info_describes_a_model() {
    let server = Running::all();
    let info = get(server.port, "/info").json();
    assert_eq!(info["model_id"], "sentence");
    assert_eq!(info["model_type"], json!({ "embedding": { "pooling": "mean" } }));
    assert_eq!((&info["max_input_length"], &info["max_client_batch_size"]), (&json!(16), &json!(2048)));
    assert_eq!((&info["model_dtype"], &info["auto_truncate"]), (&json!("float32"), &json!(false)));
    let info = get(server.port, "/info?model=classifier").json();
    assert_eq!(
        info["model_type"]["classifier"]["id2label"],
        json!({ "0": "no", "1": "yes", "2": "perhaps" })
    );
    let info = get(server.port, "/info?model=reranker").json();
    assert_eq!(info["model_type"]["reranker"]["label2id"], json!({ "score": 0 }));
    assert_eq!(get(server.port, "/info?model=other").status, 404);
}

#[test]
fn errors_have_the_shape_and_status_of_text_embeddings_inference() {
    let server = Running::all();
    let long = "dog ".repeat(15);
    for (path, body, status, kind, part) in [
        ("/embed", json!({}), 422, "Validation", "inputs: nothing"),
        ("/embed", json!({ "inputs": [] }), 400, "Empty", "inputs: an empty array"),
        ("/embed", json!({ "inputs": "a", "normalize": "perhaps" }), 422, "Validation", "normalize"),
        ("/embed", json!({ "inputs": "a", "misspelt": 1 }), 422, "Validation", "unknown field \"misspelt\""),
        ("/embed", json!({ "inputs": "a", "parameters": { "top_k": 1 } }), 422, "Validation", "parameters"),
        (
            "/embed",
            json!({ "inputs": long }),
            413,
            "Validation",
            "the text has 17 tokens, expected at most 16",
        ),
        ("/embed", json!({ "inputs": ["a", long] }), 413, "Validation", "text 2 has 17 tokens"),
        (
            "/embed",
            json!({ "inputs": "a", "truncation_direction": "Left" }),
            422,
            "Validation",
            "expected Right",
        ),
        ("/embed", json!({ "inputs": [99] }), 422, "Tokenizer", "token 99"),
        ("/embed", json!({ "inputs": "a", "prompt_name": "other" }), 422, "Tokenizer", "no prompt \"other\""),
        ("/embed", json!({ "inputs": "a", "model": "other" }), 404, "Validation", "no encoder \"other\""),
        ("/embed", json!({ "inputs": "a", "dimensions": 3 }), 422, "Validation", "dimensions: 3, expected 8"),
        ("/embed", json!({ "inputs": vec!["a"; 2049] }), 413, "Validation", "2049 texts"),
        ("/rerank", json!({ "query": "a" }), 422, "Validation", "texts: expected an array of texts"),
        ("/rerank", json!({ "texts": ["a"] }), 422, "Validation", "query: nothing"),
        ("/rerank", json!({ "query": "a", "texts": [] }), 400, "Empty", "texts: an empty array"),
        (
            "/rerank",
            json!({ "query": "a", "texts": ["b"], "model": "plain" }),
            424,
            "Backend",
            "not a reranker",
        ),
        (
            "/rerank",
            json!({ "query": "a", "texts": ["b"], "model": "classifier" }),
            424,
            "Backend",
            "not a reranker",
        ),
        (
            "/predict",
            json!({ "inputs": "a", "model": "tagger" }),
            424,
            "Backend",
            "not a classifier of texts",
        ),
        ("/predict", json!({ "inputs": ["a", "b", "c"] }), 422, "Validation", "an array of 3 values"),
    ] {
        let answer = post(server.port, path, &body);
        let error = answer.json();
        assert_eq!((answer.status, &error["error_type"]), (status, &json!(kind)), "{path} {body}: {error}");
        assert!(error["error"].as_str().unwrap().contains(part), "{error}");
    }
    let cut = server
        .answered("/embed", &json!({ "inputs": long, "truncate": true, "truncation_direction": "Right" }));
    assert_eq!(rows(&cut), vectors(&server.encoder("sentence"), &[&long]));
    // Of a pair the second text is cut; a query that is too long alone is refused.
    let pair = |query: &str| json!({ "query": query, "texts": [long], "truncate": true });
    assert_eq!(post(server.port, "/rerank", &pair("a")).status, 200);
    let answer = post(server.port, "/rerank", &pair(&"dog ".repeat(20)));
    assert_eq!((answer.status, &answer.json()["error_type"]), (422, &json!("Tokenizer")), "{}", answer.body);
    let answer = server.send_as("wrong", "/embed", &json!({ "inputs": "a" }));
    assert_eq!(answer.status, 401);
    server.is_quiet_within(Duration::from_secs(5));
}
