//! The explorer's answers equal the traces of `polyhead-inspect`.

use polyhead_attention::{Filter, Intervention, Site};
use polyhead_inspect::export::json;
use polyhead_inspect::trace::{Trace, TraceOptions};
use polyhead_serve::wire::ExplorerLimits;
use serde_json::{Value, json};

use crate::client::{get, post};
use crate::{engine, explorer};

const TEXT: &str = "The teacher reads a book today.";

fn traced(options: TraceOptions) -> Value {
    let options = TraceOptions { to: Some("tur".into()), n_alternatives: 8, ..options };
    let trace = Trace::new(&engine(), TEXT, &options).unwrap();
    serde_json::from_str(&json(&trace, &Filter::default())).unwrap()
}

#[test]
fn the_model_is_described() {
    let answer = get(explorer(ExplorerLimits::default()), "/api/model").json();
    let sizes =
        |stack: &str| ["n_layers", "n_heads", "d_key"].map(|key| answer[stack][key].as_u64().unwrap());
    assert_eq!([sizes("encoder"), sizes("decoder")], [[2, 2, 8], [2, 4, 4]]);
    assert_eq!(
        (&answer["name"], &answer["parameters"], &answer["beam_size"]),
        (&json!("opus"), &json!(13667), &json!(4))
    );
    assert!(answer["languages"].as_array().unwrap().contains(&json!("tur")), "{answer}");
}

#[test]
fn a_trace_equals_the_librarys() {
    let port = explorer(ExplorerLimits::default());
    let ask = |more: Value| {
        let mut body = json!({ "text": TEXT, "to": "tur" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = post(port, "/api/trace", &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["trace"].take()
    };
    assert_eq!(ask(json!({})), traced(TraceOptions::default()));
    assert_eq!(ask(json!({ "as_is": true })), traced(TraceOptions::default()));
    let greedy = TraceOptions { beam_size: Some(1), ..TraceOptions::default() };
    assert_eq!(ask(json!({ "beam_size": 1 })), traced(greedy));
    let target = Some("Kedi fareyi yedi.".to_owned());
    assert_eq!(ask(json!({ "target": target })), traced(TraceOptions { target, ..TraceOptions::default() }));
    let kind = engine().model().sites().named("cross").unwrap().kind;
    let site = Site { kind, layer: 1 };
    let intervention = Intervention::default().head(site, 3, 0.25).without_layer("encoder", 0);
    let changed = json!({ "intervention": {
        "heads": [{ "kind": "cross", "layer": 1, "head": 3, "factor": 0.25 }],
        "layers": [{ "stack": "encoder", "layer": 0 }],
    } });
    assert_eq!(ask(changed), traced(TraceOptions { intervention, ..TraceOptions::default() }));
    assert_eq!(ask(json!({ "without_weights": true }))["attention"], json!([]));
}

#[test]
fn decoding_continues_from_another_token() {
    let port = explorer(ExplorerLimits::default());
    let plain = post(port, "/api/trace", &json!({ "text": TEXT, "to": "tur" })).json()["trace"].take();
    let first = &plain["target"]["tokens"][0]["id"];
    let second = &plain["steps"][1]["alternatives"][2]["id"];
    let body = json!({ "text": TEXT, "to": "tur", "prefix": [first, second] });
    let changed = post(port, "/api/trace", &body).json()["trace"].take();
    let ids = |trace: &Value| -> Vec<Value> {
        trace["target"]["tokens"].as_array().unwrap().iter().map(|token| token["id"].clone()).collect()
    };
    assert_eq!(ids(&changed)[..2], [first.clone(), second.clone()]);
    assert_eq!(
        changed["steps"][1]["log_probability"],
        plain["steps"][1]["alternatives"][2]["log_probability"]
    );
    // A whole translation as prefix is that translation.
    let whole = post(
        port,
        "/api/trace",
        &json!({ "text": TEXT, "to": "tur", "beam_size": 1, "prefix": ids(&plain) }),
    );
    let whole = whole.json()["trace"].take();
    assert_eq!((&whole["steps"], &whole["score"]), (&plain["steps"], &plain["score"]));
}

#[test]
fn a_growing_translation_is_streamed() {
    let answer =
        post(explorer(ExplorerLimits::default()), "/api/translate", &json!({ "text": TEXT, "to": "tur" }));
    let mut lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trace = lines.pop().unwrap()["trace"].take();
    assert_eq!(trace, traced(TraceOptions::default()));
    let counts: Vec<u64> = lines.iter().map(|line| line["tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, (0..counts.len() as u64).collect::<Vec<_>>());
    let whole = trace["target"]["text"].as_str().unwrap();
    // The best hypothesis may change between steps; that of the last steps begins the translation.
    let last = lines.last().unwrap()["text"].as_str().unwrap();
    assert!(counts.len() > 4 && !last.is_empty() && whole.starts_with(&last[..1]), "{last:?} {whole:?}");
}

#[test]
fn attention_and_neurons_are_fetched_on_demand() {
    let port = explorer(ExplorerLimits::default());
    let trace = traced(TraceOptions::default());
    let ids = |side: &str| -> Vec<&Value> {
        trace[side]["tokens"].as_array().unwrap().iter().map(|token| &token["id"]).collect()
    };
    let body = json!({ "source": ids("source"), "target": ids("target"), "kind": "decoder", "layer": 1 });
    let answer = post(port, "/api/attention", &body).json();
    let own = trace["attention"].as_array().unwrap().iter();
    let own = own.clone().find(|own| own["kind"] == "decoder" && own["layer"] == 1).unwrap();
    assert_eq!((&answer["weights"], &answer["heads"]), (&own["weights"], &own["heads"]));
    let mut body = body;
    body["head"] = 2.into();
    let answer = post(port, "/api/neurons", &body).json();
    assert_eq!((&answer["heads"], &answer["query"]["shape"]), (&json!([2]), &json!([1, 9, 4])));
}
