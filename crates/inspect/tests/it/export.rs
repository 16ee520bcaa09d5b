//! Exported files hold the numbers of the trace to the bit, and languages are detected as in translation.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_attention::Filter;
use polyhead_inspect::export::{json, npz, safetensors};
use polyhead_inspect::trace::{CaptureVectors, Trace, TraceOptions};
use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_translate::{Engine, LoadOptions};
use serde_json::Value;

use crate::{engine, model_folder};

const TEXT: &str = "The teacher reads a book today.";

/// The numbers of a JSON array.
fn numbers(array: &Value) -> Vec<f32> {
    let bytes = STANDARD.decode(array["base64"].as_str().unwrap()).unwrap();
    let count: u64 = array["shape"].as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).product();
    assert_eq!(bytes.len() as u64, 4 * count);
    bytes.chunks_exact(4).map(|number| f32::from_le_bytes(number.try_into().unwrap())).collect()
}

#[test]
fn json_has_the_bits_of_the_trace() {
    let filter = Filter { layers: Some(vec![1]), ..Filter::default() };
    let options = TraceOptions { vectors: CaptureVectors::Yes, ..TraceOptions::default() };
    let trace = Trace::new(&engine(), TEXT, &options).unwrap();
    let found: Value = serde_json::from_str(&json(&trace, &filter)).unwrap();
    let attention = found["attention"].as_array().unwrap();
    let selected = trace.selected(&filter);
    assert_eq!((attention.len(), selected.len()), (3, 3));
    for (found, own) in attention.iter().zip(&selected) {
        let expected: Vec<f32> = own.weights.iter().flat_map(|head| head.numbers().to_vec()).collect();
        assert_eq!(numbers(&found["weights"]), expected);
    }
    let rollout = trace.rollout().unwrap();
    assert_eq!(
        numbers(&found["rollout"]["cross"]),
        rollout.of(trace.sites.named("cross").unwrap().kind).unwrap().numbers()
    );
    for (found, own) in found["vectors"].as_array().unwrap().iter().zip(&trace.vectors) {
        for (key, vectors) in [("query", &own.query), ("key", &own.key), ("value", &own.value)] {
            assert_eq!(numbers(&found[key]), vectors.data(), "{key} of {}", own.site);
        }
    }
    let tokens = found["target"]["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), trace.side("target").unwrap().tokens.len());
    assert_eq!(
        found["steps"][0]["log_probability"].as_f64().unwrap() as f32,
        trace.translation().unwrap().steps[0].log_probability
    );
}

#[test]
fn arrays_have_all_layers_and_heads() {
    let trace = Trace::new(&engine(), TEXT, &TraceOptions::default()).unwrap();
    let bytes = safetensors(&trace, &Filter::default());
    let file = TensorFile::from_bytes("trace.safetensors", bytes).unwrap();
    let archive = npz(&trace, &Filter::default());
    for name in ["encoder", "decoder", "cross"] {
        let own = trace.attentions.iter().filter(|attention| attention.site.kind.name == name);
        let own: Vec<f32> =
            own.flat_map(|part| &part.weights).flat_map(|head| head.numbers().to_vec()).collect();
        assert_eq!(file.tensor(name).unwrap().data(), own);
        let raw: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert!(archive.windows(raw.len()).any(|part| part == raw), "{name}");
    }
    let tokens: Vec<String> = serde_json::from_str(&file.metadata()["source_tokens"]).unwrap();
    assert_eq!(tokens, trace.side("source").unwrap().labels());
}

#[test]
fn languages_are_detected_as_in_translation() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(model_folder("opus")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let config = r#"{"directions": ["eng-fra", "fra-tur"]}"#;
    fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    let engine = Engine::load(folder.path(), &LoadOptions::default()).unwrap();
    let trace = |to: Option<&str>| {
        let to = to.map(str::to_owned);
        Trace::new(&engine, TEXT, &TraceOptions { to, ..TraceOptions::default() })
    };
    let french = trace(Some("French")).unwrap();
    assert_eq!(french.side("source").unwrap().tokens[0].piece, ">>fra<<");
    assert_eq!(
        french.translation().unwrap().route.as_ref().unwrap().to_string(),
        "from English (detected), into French"
    );
    let found: Value = serde_json::from_str(&json(&french, &Filter::default())).unwrap();
    assert_eq!((&found["route"]["from"], &found["route"]["guessed"]), (&"en".into(), &true.into()));
    let error = trace(Some("tr")).unwrap_err();
    let expected = "English → Turkish goes via French, expected one hop";
    assert_eq!((error.to_string().as_str(), error.is_misuse()), (expected, true));
    // A text in the target language can be traced, as can one with a tag.
    let same = Trace::new(&engine, ">>fra<< xqzwv", &TraceOptions::default()).unwrap();
    assert_eq!(same.side("source").unwrap().tokens[0].piece, ">>fra<<");
    assert!(
        same.side("source").unwrap().tokens[1].span.start >= ">>fra<<".len(),
        "{:?}",
        same.side("source").unwrap().tokens
    );
    for token in &same.side("source").unwrap().tokens {
        assert!(same.side("source").unwrap().text.get(token.span.clone()).is_some());
    }
}
