//! The explorer of a language model answers with the traces of `polyhead-inspect`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyhead_attention::{Filter, Intervention, Site};
use polyhead_engine::{Generator, LoadOptions};
use polyhead_inspect::export::json;
use polyhead_inspect::trace::Trace;
use polyhead_inspect::trace::text::{Continuation, LensPositions, TextInput, TextOptions};
use polyhead_serve::TextExplorer;
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::ExplorerLimits;
use serde_json::{Value, json};

use crate::client::{get, post};

const TEXT: &str = "the cat sat on the mat";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/gpt2")
}

fn generator() -> Generator {
    Generator::load(folder(), &LoadOptions::default()).unwrap()
}

/// Starts an explorer that runs until the tests end; returns its port.
fn explorer(limits: ExplorerLimits) -> u16 {
    let explorer = TextExplorer::new(Arc::new(generator()), "gpt2").with_limits(limits);
    let listening = explorer.listen(Port::Exactly(0)).unwrap();
    let port = listening.address().port();
    std::thread::spawn(move || listening.run());
    port
}

fn traced(input: &TextInput, options: TextOptions) -> Value {
    let options = TextOptions { n_alternatives: 8, ..options };
    let trace = Trace::of_text(&generator(), input, &options, &|_| ControlFlow::Continue(())).unwrap();
    serde_json::from_str(&json(&trace, &Filter::default())).unwrap()
}

fn of(text: &str) -> TextInput {
    TextInput::Text(text.into())
}

fn ids(trace: &Value) -> Vec<u32> {
    let tokens = trace["text"]["tokens"].as_array().unwrap();
    tokens.iter().map(|token| token["id"].as_u64().unwrap() as u32).collect()
}

#[test]
fn the_model_is_described() {
    let port = explorer(ExplorerLimits::default());
    let answer = get(port, "/api/model").json();
    for (key, expected) in [
        ("task", json!("language-model")),
        ("name", json!("gpt2")),
        ("vocab_size", json!(360)),
        ("max_len", json!(64)),
        ("d_model", json!(16)),
        ("has_lens", json!(true)),
        ("has_contributions", json!(true)),
    ] {
        assert_eq!(answer[key], expected, "{answer}");
    }
    assert_eq!(answer["sites"][0]["kind"], "decoder");
    assert_eq!(answer["decoder"]["n_heads"], 2);
    // Calls of a translator are unknown.
    assert_eq!(post(port, "/api/translate", &json!({ "text": "a" })).status, 404);
    assert!(get(port, "/").body.contains("<title>Polyhead explorer"));
}

#[test]
fn a_trace_equals_the_librarys() {
    let port = explorer(ExplorerLimits::default());
    let ask = |body: Value| {
        let answer = post(port, "/api/text/trace", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["trace"].take()
    };
    let plain = traced(&of(TEXT), TextOptions::default());
    assert_eq!(ask(json!({ "text": TEXT })), plain);
    for seed in [None, Some(7)] {
        let continuation = Some(Continuation { max_new_tokens: 5, seed });
        let expected = traced(&of(TEXT), TextOptions { continuation, ..TextOptions::default() });
        assert_eq!(ask(json!({ "text": TEXT, "generate": 5, "seed": seed })), expected);
    }
    let given = TextInput::Ids(ids(&plain));
    assert_eq!(ask(json!({ "ids": ids(&plain) })), traced(&given, TextOptions::default()));
    let kind = generator().model().sites().groups()[0].kind;
    let intervention =
        Intervention::default().head(Site { kind, layer: 1 }, 0, 0.25).without_layer("decoder", 0);
    let changed = json!({ "text": TEXT, "intervention": {
        "heads": [{ "kind": "decoder", "layer": 1, "head": 0, "factor": 0.25 }],
        "layers": [{ "stack": "decoder", "layer": 0 }],
    } });
    assert_eq!(ask(changed), traced(&of(TEXT), TextOptions { intervention, ..TextOptions::default() }));
    assert_eq!(ask(json!({ "text": TEXT, "without_weights": true }))["attention"], json!([]));
}

#[test]
fn a_growing_text_is_streamed() {
    let port = explorer(ExplorerLimits::default());
    let answer = post(port, "/api/text", &json!({ "text": TEXT, "generate": 6 }));
    let mut lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trace = lines.pop().unwrap()["trace"].take();
    let generated = trace["generated"].as_u64().unwrap();
    let counts: Vec<u64> = lines.iter().map(|line| line["tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, (0..generated).collect::<Vec<_>>());
    let whole = &trace["text"]["text"].as_str().unwrap()[TEXT.len()..];
    assert!(lines.iter().all(|line| whole.starts_with(line["text"].as_str().unwrap())), "{lines:?}");
    let refused = post(port, "/api/text", &json!({ "text": "a ".repeat(100) }));
    assert!(refused.body.contains("expected at most 64, the context of the model"), "{}", refused.body);
}

#[test]
fn lens_contributions_and_attention_are_fetched_on_demand() {
    let port = explorer(ExplorerLimits::default());
    let options = TextOptions { lens: LensPositions::All, all_contributions: true, ..TextOptions::default() };
    let trace = traced(&of(TEXT), options);
    let ids = ids(&trace);
    let lens = post(port, "/api/text/lens", &json!({ "ids": ids, "first": 2, "count": 3 })).json();
    assert_eq!(lens["start"], 2);
    for (found, expected) in
        lens["layers"].as_array().unwrap().iter().zip(trace["lens"]["layers"].as_array().unwrap())
    {
        assert_eq!(found["layer"], expected["layer"]);
        assert_eq!(
            found["predictions"].as_array().unwrap()[..],
            expected["predictions"].as_array().unwrap()[2..5]
        );
    }
    // Up to the end of the text.
    let rest = post(port, "/api/text/lens", &json!({ "ids": ids, "first": 2, "count": 90 })).json();
    assert_eq!(rest["layers"][2]["predictions"].as_array().unwrap().len(), ids.len() - 2);
    for position in [0, 3, ids.len() - 1] {
        let found =
            post(port, "/api/text/contributions", &json!({ "ids": ids, "position": position })).json();
        assert_eq!(found["parts"], trace["contributions"]["parts"]);
        assert_eq!(found["targets"], json!([trace["contributions"]["targets"][position]]));
    }
    let chosen = json!({ "ids": ids, "position": 3, "token": 7 });
    assert_eq!(post(port, "/api/text/contributions", &chosen).json()["targets"][0]["id"], 7);
    let body = json!({ "ids": ids, "kind": "decoder", "layer": 1 });
    let found = post(port, "/api/text/attention", &body).json();
    let expected = trace["attention"].as_array().unwrap().iter().find(|own| own["layer"] == 1).unwrap();
    assert_eq!((&found["weights"], &found["heads"]), (&expected["weights"], &expected["heads"]));
    let mut body = body;
    body["head"] = 1.into();
    let found = post(port, "/api/text/neurons", &body).json();
    assert_eq!((&found["heads"], &found["query"]["shape"]), (&json!([1]), &json!([1, ids.len(), 8])));
}

#[test]
fn invalid_requests_and_large_ones_are_refused_with_a_reason() {
    let limits = ExplorerLimits { text: 50, tokens: 12, neurons: 4, body: 2000, whole: 5, beam_size: 3 };
    let port = explorer(limits);
    for (path, body, status, expected) in [
        ("trace", json!({ "text": "a".repeat(51) }), 413, "too large: 51 characters (limit 50)"),
        ("trace", json!({ "text": "x y ".repeat(12) }), 413, "tokens (limit 12)"),
        ("trace", json!({ "text": "a", "generate": 257 }), 413, "257 tokens to generate (limit 256)"),
        ("trace", json!({ "text": "a", "colour": 1 }), 400, "unknown field `colour`"),
        ("trace", json!({ "ids": [360] }), 400, "token 360, expected an id of 0 to 359"),
        ("trace", json!({ "text": "" , "ids": [] }), 200, ""),
        ("lens", json!({ "ids": [1, 2], "first": 0, "count": 6 }), 413, "6 positions (limit 5)"),
        (
            "lens",
            json!({ "ids": [1, 2], "first": 2, "count": 1 }),
            400,
            "of the lens, expected some of 0 to 2",
        ),
        ("lens", json!({ "ids": [], "first": 0, "count": 1 }), 400, "no tokens, expected at least one"),
        ("contributions", json!({ "ids": [1, 2], "position": 2 }), 400, "position 2, expected one of 0 to 1"),
        ("contributions", json!({ "ids": [1], "position": 0, "token": 999 }), 400, "token 999"),
        ("contributions", json!({ "ids": vec![1; 13], "position": 12 }), 413, "13 tokens (limit 12)"),
        ("attention", json!({ "ids": [1], "kind": "cross", "layer": 0 }), 400, "expected decoder"),
        ("attention", json!({ "ids": [1], "kind": "decoder", "layer": 2 }), 400, "layer 2"),
        (
            "neurons",
            json!({ "ids": vec![1; 5], "kind": "decoder", "layer": 0, "head": 0 }),
            413,
            "5 tokens (limit 4)",
        ),
    ] {
        let answer = post(port, &format!("/api/text/{path}"), &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        if status != 200 {
            let said = answer.json();
            assert!(said["error"].as_str().unwrap().contains(expected), "{said}");
            assert!(!said["hint"].as_str().unwrap().is_empty());
        }
    }
    // The trace of a longer text has the attention of the last layer alone.
    let kept = post(port, "/api/text/trace", &json!({ "text": TEXT })).json()["trace"]["attention"].take();
    assert_eq!((kept.as_array().unwrap().len(), &kept[0]["layer"]), (1, &json!(1)));
}
