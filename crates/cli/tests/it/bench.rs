//! `polyhead bench`: small shapes learn, with the same losses for any number of threads; text and JSON lines.

use serde_json::Value;

use crate::program::{folder, polyhead};

const SHAPE: &str =
    "d_model = 32\nn_heads = 2\nd_ff = 64\nn_layers = 1\nvocab_size = 50\nbatch = 4\nlength = 5\n";

#[test]
fn a_training_step_learns_and_does_not_depend_on_threads() {
    let folder = folder(&[("shape.toml", SHAPE)]);
    let train = |threads: &str| -> Value {
        let mut arguments = vec!["bench", "train", "--config", "shape.toml", "--steps", "30"];
        arguments.extend(["--threads", threads, "--format", "jsonl"]);
        serde_json::from_str(&polyhead(folder.path(), &arguments, "").ok()).unwrap()
    };
    let [one, three] = ["1", "3"].map(train);
    for field in ["first_loss", "last_loss", "parameters", "workload", "dtype", "device"] {
        assert_eq!(one[field], three[field], "{field}");
    }
    assert!(one["last_loss"].as_f64() < one["first_loss"].as_f64(), "{one}");
    assert!(one["tokens_per_s_best"].as_f64() >= one["tokens_per_s_median"].as_f64(), "{one}");
}

#[test]
fn text_is_one_line_per_measurement() {
    let folder = folder(&[("shape.toml", SHAPE)]);
    let train = ["bench", "train", "--config", "-", "--steps", "2"];
    let text = polyhead(folder.path(), &train, SHAPE).ok();
    assert!(text.starts_with("config  cpu     f32 ") && text.lines().count() == 1, "{text}");
    assert!(text.contains(" target tokens/s (best ") && text.contains(" ms per step  loss "), "{text}");
    let attention = ["bench", "attention", "--length", "64", "--pattern", "window", "--repeats", "1"];
    let text = polyhead(folder.path(), &attention, "").ok();
    assert!(text.starts_with("window   length     64  mask "), "{text}");
    let json = polyhead(folder.path(), &[&attention[..], &["--format", "jsonl"]].concat(), "").ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["bench"], &json["sight"]), (&"attention".into(), &"window".into()));
}

#[test]
fn a_wrong_shape_is_one_line_and_a_hint() {
    let folder = folder(&[
        ("unknown.toml", &format!("{SHAPE}d_modle = 1\n")),
        ("heads.toml", &SHAPE.replace("n_heads = 2", "n_heads = 3")),
    ]);
    for (name, start) in [
        ("unknown.toml", "error: unknown.toml: unknown field `d_modle`"),
        ("heads.toml", "error: heads.toml: Sizes"),
        ("missing.toml", "error: missing.toml: cannot open"),
    ] {
        let err = polyhead(folder.path(), &["bench", "train", "--config", name], "").failed(1);
        assert!(err.starts_with(start) && err.contains("\nhint: "), "{err}");
    }
    polyhead(folder.path(), &["bench", "train", "--threads", "0"], "").failed(2);
}

#[test]
fn generation_is_measured() {
    let golden =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/language_models");
    let arguments =
        ["bench", "generate", "--model", "llama", "--batch", "3", "--prompt", "7", "--new-tokens", "5"];
    let text = polyhead(&golden, &arguments, "").ok();
    assert!(text.starts_with("batch 3    cpu     int8 ") && text.contains(" tokens/s (best "), "{text}");
    let json = polyhead(&golden, &[&arguments[..], &["--format", "jsonl"]].concat(), "").ok();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["bench"], &json["new_tokens"]), (&"generate".into(), &5.into()));
    assert!(json["decode_tokens_per_s"].as_f64() >= json["tokens_per_s_median"].as_f64(), "{json}");
}

#[test]
fn passes_of_an_encoder_are_measured() {
    let folder = folder(&[]);
    let arguments = ["bench", "run", "--batch", "1", "--passes", "1", "--repeats", "1", "--format", "jsonl"];
    let json: Value = serde_json::from_str(&polyhead(folder.path(), &arguments, "").ok()).unwrap();
    assert_eq!((&json["workload"], &json["length"]), (&"minilm".into(), &64.into()));
    let [tokens, sequences] =
        ["tokens_per_s_best", "sequences_per_s_best"].map(|key| json[key].as_f64().unwrap());
    assert!((tokens / sequences - 64.0).abs() < 1e-6, "{json}");
}
