//! `polyhead classify`, and the A/B task of the lectures: attention learns it exactly, a shorter window cannot.

use std::path::Path;

use crate::program::{folder, polyhead};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Trains a recipe of the A/B task into `folder`, and gives the accuracy of the finished model.
fn trained(folder: &Path, name: &str) -> f64 {
    let recipe = root().join(format!("recipes/ab/{name}.toml"));
    let run = polyhead(folder, &["train", recipe.to_str().unwrap(), "--out", name, "--device", "cpu"], "");
    let told = run.err.clone();
    run.ok();
    let finished = told.lines().find(|line| line.contains("model: ")).unwrap();
    finished.rsplit("accuracy ").next().unwrap().split(',').next().unwrap().trim().parse().unwrap()
}

#[test]
fn attention_learns_the_a_b_task_exactly_and_a_shorter_window_cannot() {
    let folder = folder(&[]);
    assert_eq!(trained(folder.path(), "attention"), 100.0);
    assert_eq!(trained(folder.path(), "window"), 93.75);
    let strings = std::fs::read_to_string(root().join("recipes/ab/strings.tsv")).unwrap();
    let texts: Vec<&str> = strings.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let labels = |model: &str| -> Vec<String> {
        let arguments: Vec<&str> = ["classify", "--model", model].into_iter().chain(texts.clone()).collect();
        let out = polyhead(folder.path(), &arguments, "").ok();
        out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    let right: Vec<String> =
        strings.lines().map(|line| line.split('\t').nth(1).unwrap().to_owned()).collect();
    assert_eq!(labels("attention/model"), right);
    let found = labels("window/model");
    // Its window cannot distinguish AAAA from BAAA.
    assert_eq!(found[0], found[8]);
    // The first letter attends to the only B.
    let out = polyhead(folder.path(), &["inspect", "--model", "attention/model", "AABA"], "").ok();
    assert!(out.contains("encoder self-attention: text ↓ attends to text →"), "{out}");
    let row = out.lines().find(|line| line.trim_start().starts_with("A ") && line.contains("100")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["A", "·", "·", "100", "·"], "{out}");
    let files = ["map.svg", "trace.json", "trace.npz", "trace.safetensors"];
    let mut arguments = vec!["inspect", "--model", "attention/model", "AABA"];
    arguments.extend(files.iter().flat_map(|file| ["--out", file]));
    polyhead(folder.path(), &arguments, "").ok();
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("trace.json")).unwrap()).unwrap();
    assert_eq!((&trace["sides"][0], &trace["text"]["text"]), (&"text".into(), &"AABA".into()));
    assert_eq!((&trace["sites"][0]["kind"], &trace["classes"][0]["label"]), (&"encoder".into(), &"B".into()));
    // Without its head the model fails.
    let out = polyhead(
        folder.path(),
        &["inspect", "--model", "attention/model", "--without", "encoder:0:0", "AABA"],
        "",
    );
    let out = out.ok();
    assert!(out.contains("unchanged  B 1.000"), "{out}");
}

#[test]
fn lines_of_standard_input_and_json() {
    let folder = folder(&[]);
    trained(folder.path(), "attention");
    let model = ["classify", "--model", "attention/model"];
    let run = polyhead(folder.path(), &model, "AAAA\n\nABBB\n");
    let told = run.err.clone();
    assert_eq!(run.ok(), "A\t1.0000\tAAAA\n\t\t\nB\t1.0000\tABBB\n");
    assert!(told.contains("note: text 2: an empty text"), "{told}");
    let arguments = ["classify", "--model", "attention/model", "--top", "2", "AB"];
    let out = polyhead(folder.path(), &arguments, "").ok();
    assert_eq!(out, "B\t1.0000\tA\t0.0000\tAB\n");
    let arguments = ["classify", "--model", "attention/model", "--format", "jsonl", "AB"];
    let out = polyhead(folder.path(), &arguments, "").ok();
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&line["label"], &line["classes"][1]["label"]), (&"B".into(), &"A".into()));
    // int8, and the folder's own description.
    polyhead(folder.path(), &["quantize", "attention/model", "--out", "int8"], "").ok();
    let out = polyhead(folder.path(), &["classify", "--model", "int8", "BAAA"], "").ok();
    assert!(out.starts_with("B\t"), "{out}");
    let out = polyhead(folder.path(), &["info", "int8"], "").ok();
    assert!(out.contains("labels") && out.contains("A, B"), "{out}");
}

#[test]
fn a_model_that_does_something_else_is_refused_with_the_command_that_uses_it() {
    let folder = folder(&[]);
    trained(folder.path(), "window");
    let translator = root().join("models/default");
    let translator = translator.to_str().unwrap();
    for (arguments, code, expected) in [
        (&["classify", "--model", translator, "A"][..], 1, "hint: use it with polyhead translate"),
        (&["translate", "--model", "window/model", "A"], 1, "hint: use it with polyhead classify"),
        (&["inspect", "--model", "window/model", "A"], 1, "a model without attention"),
        (&["classify", "--model", "nowhere", "A"], 1, "no such folder, expected a model folder"),
        (
            &["parity", "--model", "window/model", "--reference", "window/model/model.safetensors"],
            2,
            "a classifier of texts",
        ),
        (&["classify", "A"], 2, "--model"),
    ] {
        let error = polyhead(folder.path(), arguments, "").failed(code);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
