//! The explorer of an encoder answers with the traces of `polyhead-inspect`, and all explorers compare words.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use polyhead_attention::Filter;
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_engine::{Generator, LoadOptions};
use polyhead_inspect::export::json;
use polyhead_inspect::states::{self, CompareOptions, Comparison, StateReader};
use polyhead_inspect::trace::{CaptureVectors, EncoderOptions, Trace};
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_serve::explorer::Port;
use polyhead_serve::wire::ExplorerLimits;
use polyhead_serve::{EncoderExplorer, TextExplorer};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use crate::client::{get, post};

const VOCABULARY: &str =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ni\nbank\nonly\nat\nmy\nlocal\n.\n##s\nthe\nriver\n";
const TEXT: &str = "I [MASK] only at my local bank, my bank.";

/// A masked language model with random weights.
fn encoder() -> Arc<HeadedEncoder> {
    static LOADED: OnceLock<Arc<HeadedEncoder>> = OnceLock::new();
    let load = || {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "model_type": "polyhead_bert", "vocab_size": 15, "d_model": 8,
            "encoder": { "n_layers": 2, "n_heads": 2, "d_ff": 12 }, "head": "masked_language_model",
            "special_tokens": true, "max_len": 24,
        });
        let config: ModelConfig = serde_json::from_value(config).unwrap();
        let mut parameters = Parameters::default();
        Model::new(&config, &mut parameters).unwrap();
        parameters.initialise(5);
        save(folder.path(), &config, &parameters, &SaveOptions::default()).unwrap();
        std::fs::write(folder.path().join("vocab.txt"), VOCABULARY).unwrap();
        Arc::new(HeadedEncoder::load(folder.path(), &LoadOptions::default()).unwrap())
    };
    LOADED.get_or_init(load).clone()
}

/// Starts an explorer that runs until the tests end; returns its port.
fn explorer(limits: ExplorerLimits) -> u16 {
    let listening =
        EncoderExplorer::new(encoder(), "tiny").with_limits(limits).listen(Port::Exactly(0)).unwrap();
    let port = listening.address().port();
    std::thread::spawn(move || listening.run());
    port
}

fn traced() -> Value {
    let options = EncoderOptions { n_alternatives: 8, ..EncoderOptions::default() };
    let trace = Trace::of_encoding(&encoder(), TEXT, &options, &|_| ControlFlow::Continue(())).unwrap();
    serde_json::from_str(&json(&trace, &Filter::default())).unwrap()
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
        ("task", json!("encoder")),
        ("name", json!("tiny")),
        ("head", json!("masked_words")),
        ("mask", json!("[MASK]")),
        ("max_len", json!(24)),
        ("d_model", json!(8)),
    ] {
        assert_eq!(answer[key], expected, "{answer}");
    }
    assert_eq!((&answer["sites"][0]["kind"], &answer["encoder"]["n_heads"]), (&json!("encoder"), &json!(2)));
    assert_eq!(post(port, "/api/translate", &json!({ "text": "a" })).status, 404);
    assert!(get(port, "/").body.contains("<title>Polyhead explorer"));
}

#[test]
fn traces_states_and_attention_equal_the_librarys() {
    let port = explorer(ExplorerLimits::default());
    let expected = traced();
    assert_eq!(post(port, "/api/encoder/trace", &json!({ "text": TEXT })).json()["trace"], expected);
    // The stream has the trace as its only line.
    let line: Value =
        serde_json::from_str(post(port, "/api/encoder", &json!({ "text": TEXT })).body.trim()).unwrap();
    assert_eq!(line["trace"], expected);
    let without = post(port, "/api/encoder/trace", &json!({ "text": TEXT, "without_weights": true })).json();
    assert_eq!(without["trace"]["attention"], json!([]));
    let ids = ids(&expected);
    let shown: Vec<usize> = (1..ids.len() - 1).collect();
    let states = post(port, "/api/encoder/states", &json!({ "ids": ids, "shown": shown })).json();
    assert_eq!(states, expected["states"]);
    let body = json!({ "ids": ids, "kind": "encoder", "layer": 1 });
    let found = post(port, "/api/encoder/attention", &body).json();
    assert_eq!(found["weights"], expected["attention"][1]["weights"]);
    let mut body = body;
    body["head"] = 1.into();
    let found = post(port, "/api/encoder/neurons", &body).json();
    assert_eq!((&found["heads"], &found["query"]["shape"]), (&json!([1]), &json!([1, ids.len(), 4])));
    let changed = json!({ "text": TEXT, "intervention": { "layers": [{ "stack": "encoder", "layer": 0 }] } });
    let changed = post(port, "/api/encoder/trace", &changed).json();
    assert_eq!(changed["trace"]["states"].as_array().unwrap().len(), 2);
    assert_ne!(changed["trace"]["masked_words"], expected["masked_words"]);
    // A text that is too long is cut.
    let long = post(port, "/api/encoder/trace", &json!({ "text": "bank ".repeat(60) })).json();
    assert_eq!((&long["trace"]["cut_from"], self::ids(&long["trace"]).len()), (&json!(62), 24));
}

#[test]
fn words_are_compared_by_every_explorer() {
    let port = explorer(ExplorerLimits::default());
    let request = json!({ "texts": ["I bank at my bank", "the river bank"], "words": ["bank"] });
    let found = post(port, "/api/compare", &request).json();
    let encoder = encoder();
    let expected = Comparison::new(
        StateReader::Encoder(&encoder),
        (&["I bank at my bank", "the river bank"], &["bank"]),
        &CompareOptions::default(),
        &mut |_| ControlFlow::Continue(()),
    );
    assert_eq!(found, states::json(&expected.unwrap(), &["bank"], CaptureVectors::No));
    let translator = crate::explorer(ExplorerLimits::default());
    let request = json!({ "texts": ["A teacher reads, the teacher reads."], "words": ["teacher"] });
    let found = post(translator, "/api/compare", &request).json();
    assert_eq!(found["occurrences"].as_array().unwrap().len(), 2, "{found}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/gpt2");
    let generator = Generator::load(folder, &LoadOptions::default()).unwrap();
    let listening = TextExplorer::new(Arc::new(generator), "gpt2").listen(Port::Exactly(0)).unwrap();
    let language_model = listening.address().port();
    std::thread::spawn(move || listening.run());
    let request = json!({ "texts": ["the cat and the cat"], "words": ["cat", "and"] });
    let found = post(language_model, "/api/compare", &request).json();
    assert_eq!(found["layers"][0]["similarities"].as_array().unwrap().len(), 3, "{found}");
}

#[test]
fn invalid_requests_and_large_ones_are_refused_with_a_reason() {
    let limits = ExplorerLimits { text: 60, tokens: 12, neurons: 8, body: 2000, whole: 5, beam_size: 3 };
    let port = explorer(limits);
    let texts = |text: &str| json!({ "texts": [text], "words": ["bank"] });
    for (path, body, status, expected) in [
        ("encoder/trace", json!({ "text": "a".repeat(61) }), 413, "too large: 61 characters (limit 60)"),
        ("encoder/trace", json!({ "text": "my ".repeat(18) }), 413, "20 tokens (limit 12)"),
        ("encoder/trace", json!({ "text": "a", "colour": 1 }), 400, "unknown field `colour`"),
        ("encoder/states", json!({ "ids": vec![6; 9], "shown": [] }), 413, "9 tokens (limit 8)"),
        ("encoder/states", json!({ "ids": [6], "shown": [1] }), 400, "position 1, expected one of 0 to 0"),
        ("encoder/states", json!({ "ids": [], "shown": [] }), 400, "no tokens, expected at least one"),
        ("encoder/attention", json!({ "ids": [15], "kind": "encoder", "layer": 0 }), 400, "token 15"),
        ("encoder/attention", json!({ "ids": [1], "kind": "cross", "layer": 0 }), 400, "expected encoder"),
        ("compare", texts("bank only"), 400, "occurs once"),
        ("compare", texts("a river"), 400, "is not a word of the text, expected one of them: a, river"),
        ("compare", texts("bank bank my my my my my"), 413, "9 tokens (limit 8)"),
        ("compare", json!({ "texts": vec!["bank"; 17], "words": ["bank"] }), 413, "17 texts (limit 16)"),
        ("compare", json!({ "texts": [], "words": ["bank"] }), 400, "no texts or no words"),
    ] {
        let answer = post(port, &format!("/api/{path}"), &body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        let said = answer.json();
        assert!(said["error"].as_str().unwrap().contains(expected), "{said}");
        assert!(!said["hint"].as_str().unwrap().is_empty());
    }
    // The trace of a longer text has the attention of the last layer alone.
    let kept = post(port, "/api/encoder/trace", &json!({ "text": "my local bank only" })).json();
    let kept = kept["trace"]["attention"].as_array().unwrap().clone();
    assert_eq!((kept.len(), &kept[0]["layer"]), (1, &json!(1)));
}
