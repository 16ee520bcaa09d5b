//! `polyhead inspect` of encoders, with --compare, and the explorer of an encoder: output, files, interventions and messages.

use std::fs;
use std::path::Path;

use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use crate::program::{Run, folder, names, polyhead};

const VOCABULARY: &str =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ni\nbank\nonly\nat\nmy\nlocal\n.\n##s\nthe\nriver\n";
const TEXT: &str = "I bank only at my local bank.";

/// Writes an encoder with this head into `folder/name`.
fn model(folder: &Path, name: &str, head: &str, labels: &[&str]) {
    let config = json!({
        "model_type": "polyhead_bert", "vocab_size": 15, "d_model": 8,
        "encoder": { "n_layers": 2, "n_heads": 2, "d_ff": 12 }, "head": head, "labels": labels,
        "transform": if head == "classes" { "dense" } else { "none" }, "special_tokens": true, "max_len": 16,
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(name.len() as u64);
    save(folder.join(name), &config, &parameters, &SaveOptions::default()).unwrap();
    fs::write(folder.join(name).join("vocab.txt"), VOCABULARY).unwrap();
}

fn made() -> tempfile::TempDir {
    let folder = folder(&[]);
    model(folder.path(), "encoder", "none", &[]);
    model(folder.path(), "tagger", "token_classes", &["O", "B-X"]);
    model(folder.path(), "filler", "masked_language_model", &[]);
    model(folder.path(), "classifier", "classes", &["no", "yes"]);
    folder
}

fn inspect(folder: &Path, model: &str, arguments: &[&str]) -> Run {
    polyhead(folder, &[&["inspect", "--model", model], arguments].concat(), "")
}

fn read(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
}

#[test]
fn every_head_has_its_output_beside_the_attention() {
    let folder = made();
    for (model, expected) in [
        ("encoder", &["vector  8 numbers: "][..]),
        ("classifier", &["classes  ", "no 0.", "yes 0."]),
        ("tagger", &["entities  ", "classes of each token\n    0 [CLS]  ", "B-X 0."]),
        ("filler", &["probability  log −", "words in place of each token", "    2  bank  p 0."]),
    ] {
        let out = inspect(folder.path(), model, &["--heads", "all", TEXT]).ok().replace("log -", "log −");
        let shared = [
            "encoder self-attention: text ↓ attends to text →, percent\n\nlayer 1, head 0\n",
            "      [CLS]   I bank only  at  my local bank   . [SEP]\n",
            "\n encoder 1",
        ];
        for expected in expected.iter().chain(&shared) {
            assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
        }
        let changed =
            inspect(folder.path(), model, &["--without", "encoder:1:0", "--skip", "encoder:0", TEXT]);
        assert!(changed.ok().contains("unchanged"), "{model}");
    }
}

#[test]
fn files_are_those_of_translators() {
    let folder = made();
    let outs = ["a.svg", "a.png", "a.html", "a.json", "a.npz", "a.safetensors"];
    for model in ["encoder", "classifier", "tagger", "filler"] {
        let arguments = outs.map(|name| ["--out", name]).concat();
        inspect(folder.path(), model, &[&arguments[..], &[TEXT]].concat()).ok();
        let trace = read(folder.path(), "a.json");
        let n = trace["text"]["tokens"].as_array().unwrap().len();
        assert_eq!(
            (trace["states"].as_array().unwrap().len(), &trace["attention"][1]["weights"]["shape"]),
            (3, &json!([2, n, n]))
        );
        assert!(trace["vectors"].as_array().unwrap().is_empty() && trace["hidden_states"].is_null());
        let page = fs::read_to_string(folder.path().join("a.html")).unwrap();
        assert!(page.contains("\"head\":") && page.contains("\"f16\":"), "{model}");
    }
    let words = read(folder.path(), "a.json")["masked_words"].as_array().unwrap().clone();
    assert_eq!((words.len(), words[0]["alternatives"].as_array().unwrap().len()), (10, 5));
    inspect(folder.path(), "encoder", &["--vectors", "--out", "v.json", TEXT]).ok();
    let trace = read(folder.path(), "v.json");
    assert_eq!(trace["hidden_states"]["shape"], json!([3, 10, 8]));
    assert_eq!(trace["vectors"].as_array().unwrap().len(), 2);
}

/// A folder of sentence-transformers whose Transformer is in a folder of its own.
#[test]
fn folders_of_sentence_transformers_are_read_with_their_prompt() {
    let folder = made();
    let nested = folder.path().join("sentences");
    fs::create_dir_all(nested.join("1_Pooling")).unwrap();
    fs::rename(folder.path().join("encoder"), nested.join("0_Transformer")).unwrap();
    let modules = json!([
        { "idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer" },
        { "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
    ]);
    fs::write(nested.join("modules.json"), modules.to_string()).unwrap();
    fs::write(nested.join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": true}"#).unwrap();
    let prompts = r#"{"prompts": {"query": "the river "}, "default_prompt_name": "query"}"#;
    fs::write(nested.join("config_sentence_transformers.json"), prompts).unwrap();
    let arguments = ["--out", "t.json", "my bank"];
    inspect(folder.path(), "sentences", &arguments).ok();
    let trace = read(folder.path(), "t.json");
    assert_eq!(trace["text"]["text"], "the river my bank");
    let vector = polyhead(folder.path(), &["embed", "--model", "sentences", "my bank"], "").ok();
    let shown = inspect(folder.path(), "sentences", &["my bank"]).ok();
    let first: f64 = vector.split('\t').next().unwrap().parse().unwrap();
    assert!(shown.contains(&format!("vector  8 numbers: {first:.4} ")), "{vector} {shown}");
}

#[test]
fn words_are_compared_in_the_terminal_and_in_files() {
    let folder = made();
    let out = inspect(folder.path(), "encoder", &["--compare", "bank", TEXT]).ok();
    for expected in [
        "bank: 2 occurrences in 1 text\n\n   1  I [bank] only at my local bank.\n   2  I bank only at my local [bank].\n",
        "            1 and 2   others\nembedding ",
        "\nlayer 1 ",
    ] {
        assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
    }
    let outs = ["--out", "c.json", "--out", "c.svg", "--out", "c.png", "--out", "c.html", "--vectors"];
    let texts = ["the banks", "my bank", "the river bank", "local bank"];
    let words = ["--compare", "bank", "--compare", "banks"];
    inspect(folder.path(), "encoder", &[&outs[..], &words, &texts].concat()).ok();
    let found = read(folder.path(), "c.json");
    let spelled: Vec<&Value> =
        found["occurrences"].as_array().unwrap().iter().map(|own| &own["spelled"]).collect();
    assert_eq!(spelled, ["bank", "bank", "bank", "banks"]);
    assert_eq!(found["layers"][2]["vectors"][0].as_array().unwrap().len(), 8);
    let page = fs::read_to_string(folder.path().join("c.html")).unwrap();
    assert!(page.contains("id=\"comparison\"") && page.matches("<script").count() == 2);
    assert!(fs::read_to_string(folder.path().join("c.svg")).unwrap().contains("layer 1"));
    // Many pairs are summarised; changes to the model are made.
    let many =
        inspect(folder.path(), "encoder", &["--compare", "bank", "bank bank bank", "bank bank bank"]).ok();
    assert!(
        many.contains("    least     mean greatest   others\n")
            && many.contains("cosine of each pair, layer 1")
    );
    let skipped = inspect(folder.path(), "encoder", &["--compare", "bank", "--skip", "encoder:1", TEXT]).ok();
    assert!(!skipped.contains("layer 1"), "{skipped}");
    let all = ["--compare", "bank", "--layers", "0", "--out", "l.svg", TEXT];
    inspect(folder.path(), "encoder", &all).ok();
    let svg = fs::read_to_string(folder.path().join("l.svg")).unwrap();
    assert!(svg.contains("layer 0 · cosine") && !svg.contains("embedding · cosine"));
}

#[test]
fn mistakes_are_explained() {
    let folder = made();
    let recurrent = json!({
        "model_type": "polyhead_recurrent_encoder", "vocab_size": 15, "d_model": 8, "labels": ["a", "b"],
    });
    let config: ModelConfig = serde_json::from_value(recurrent).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(1);
    save(folder.path().join("recurrent"), &config, &parameters, &SaveOptions::default()).unwrap();
    fs::write(folder.path().join("recurrent/vocab.txt"), VOCABULARY).unwrap();
    let before = names(folder.path());
    let long = "bank ".repeat(30);
    let cases: [(&str, &[&str], i32, &str); 14] = [
        (
            "encoder",
            &["--compare", "bnak", TEXT],
            2,
            "\"bnak\" is not a word of the text, expected one of them: I, bank",
        ),
        (
            "encoder",
            &["--compare", "river", "the river"],
            2,
            "\"river\" occurs once, expected two occurrences",
        ),
        ("encoder", &["my bank", "a bank"], 2, "2 texts, expected one"),
        ("encoder", &["--compare", "bank", "--heads", "0", TEXT], 2, "--heads with --compare"),
        ("encoder", &["--compare", "bank", "--out", "c.npz", TEXT], 2, "expected .svg, .png, .html or .json"),
        (
            "encoder",
            &["--compare", "bank", "--layers", "2", TEXT],
            2,
            "layer 2, expected one of the model's (0–1)",
        ),
        ("encoder", &["--compare", "bank", "--lens", TEXT], 2, "--lens with --compare"),
        ("encoder", &["--compare", "bank", &long], 2, "32 tokens, expected at most 16"),
        ("encoder", &[&long], 2, "32 tokens, expected at most 16"),
        ("encoder", &["--generate", "3", TEXT], 2, "--generate with an encoder"),
        ("encoder", &["--to", "tr", TEXT], 2, "--to with an encoder"),
        ("encoder", &["--without", "cross:0", TEXT], 2, "expected one of the model's: encoder"),
        ("recurrent", &[TEXT], 1, "a model without attention"),
        ("recurrent", &["--compare", "bank", TEXT], 2, "a model without vectors of tokens in context"),
    ];
    for (model, arguments, code, expected) in cases {
        let error = inspect(folder.path(), model, arguments).failed(code);
        assert!(error.contains(expected) && error.contains("hint: "), "{arguments:?}: {error}");
    }
    assert_eq!(names(folder.path()), before);
    for more in [&["--compare", "bank"][..], &[]] {
        let run = inspect(folder.path(), "encoder", &[more, &["--truncate", &long]].concat());
        assert!(run.err.contains("32 tokens, cut to 16"), "{}", run.err);
        run.ok();
    }
}
