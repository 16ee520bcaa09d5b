//! `polyhead inspect` of language models: terminal output, files, interventions and messages.

use std::fs;
use std::path::Path;

use polyhead_inspect::label::visible;
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::recurrent::RecurrentLanguageModelConfig;
use polyhead_models::{LanguageModel, ModelConfig};
use polyhead_tensor::Parameters;
use serde_json::Value;

use crate::program::{Run, folder, names, polyhead};

const TEXT: &str = "the cat sat on the mat";

/// A tiny model with random weights, made with transformers.
fn golden(name: &str) -> String {
    format!("{}/../engine/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn inspect(folder: &Path, model: &str, arguments: &[&str]) -> Run {
    polyhead(folder, &[&["inspect", "--model", &golden(model)], arguments].concat(), "")
}

fn json(folder: &Path, model: &str, arguments: &[&str]) -> Value {
    inspect(folder, model, &[arguments, &["--out", "trace.json"]].concat()).ok();
    serde_json::from_slice(&fs::read(folder.join("trace.json")).unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

#[test]
fn the_terminal_shows_attention_probabilities_lens_and_contributions() {
    let folder = folder(&[]);
    for model in ["gpt2", "llama"] {
        let arguments = ["--lens", "--contributions=3", "--heads", "all", TEXT];
        let out = inspect(folder.path(), model, &arguments).ok();
        let trace = json(folder.path(), model, &[TEXT]);
        for expected in [
            "text         the cat sat on the mat\n",
            "decoder self-attention: text ↓ attends to the text so far →, percent\n\nlayer 1, head 0\n",
            "probability of each token after those before it",
            "\nlogit lens: the most probable next token after the embedding and after each layer\n",
            " embedding   layer 0   layer 1\n",
            "after position 3, ",
            "\nembedding ",
            "\nfeed-forward 1 ",
            "\n decoder 1",
        ] {
            assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
        }
        // The line of a token has the numbers of the file.
        let following = &trace["predictions"][2]["following"];
        let log = following["log_probability"].as_f64().unwrap();
        let line = out.lines().find(|line| line.starts_with("    3 ")).unwrap();
        let numbers = [
            format!("{:.4}", log.exp()),
            following["rank"].to_string(),
            format!("{:.2}", -log / std::f64::consts::LN_2),
        ];
        assert!(numbers.iter().all(|number| line.contains(&format!(" {number} "))), "{line} {numbers:?}");
        let target = &trace["contributions"]["targets"][3];
        let logit = target["logit"].as_f64().unwrap();
        assert!(out.contains(&format!("sum              {logit:>9.4}  logit {logit:>8.4}\n")), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 120), "{out}");
    }
}

#[test]
fn a_continuation_is_that_of_generate() {
    let folder = folder(&[]);
    let greedy = ["--generate", "5"];
    let sampled = ["--generate", "5", "--seed", "9"];
    for (arguments, generate) in [(&greedy[..], ["--temperature", "0"]), (&sampled, ["--seed", "9"])] {
        let trace = json(folder.path(), "gpt2", &[arguments, &[TEXT]].concat());
        let model = golden("gpt2");
        let all = [
            &["generate", "--model", &model, "--max-new-tokens", "5", "--format", "jsonl"],
            &generate[..],
            &[TEXT],
        ];
        let row: Value = serde_json::from_str(&polyhead(folder.path(), &all.concat(), "").ok()).unwrap();
        let tokens = list(&trace["text"]["tokens"]);
        let n_generated = trace["generated"].as_u64().unwrap() as usize;
        let ids: Vec<Value> =
            tokens[tokens.len() - n_generated..].iter().map(|token| token["id"].clone()).collect();
        assert_eq!(Value::Array(ids), row["ids"]);
        let start = tokens.len() - n_generated - 1;
        let following = list(&trace["predictions"])[start..].iter().map(|own| &own["following"]);
        let sum: f64 = following.filter_map(|own| own["log_probability"].as_f64()).sum();
        assert!((sum - row["log_probability"].as_f64().unwrap()).abs() < 1e-5, "{sum} {row}");
        let out = inspect(folder.path(), "gpt2", &[arguments, &[TEXT]].concat()).ok();
        assert!(out.contains("\ncontinuation "), "{out}");
    }
}

#[test]
fn files_have_the_format_of_their_extension() {
    let folder = folder(&[]);
    let outs = ["a.svg", "a.png", "a.html", "a.json", "a.npz", "a.safetensors"];
    let arguments = outs.map(|name| ["--out", name]).concat();
    let run = inspect(folder.path(), "llama", &[&arguments[..], &[TEXT]].concat());
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert_eq!(names(folder.path()), ["a.html", "a.json", "a.npz", "a.png", "a.safetensors", "a.svg"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let trace: Value = serde_json::from_slice(&read("a.json")).unwrap();
    let n = list(&trace["text"]["tokens"]).len();
    assert_eq!((&trace["sides"], &trace["model"]["vocab_size"]), (&serde_json::json!(["text"]), &399.into()));
    assert_eq!([list(&trace["predictions"]).len(), list(&trace["contributions"]["targets"]).len()], [n, n]);
    assert!(list(&trace["lens"]["layers"]).iter().all(|own| list(&own["predictions"]).len() == n));
    assert_eq!(trace["rollout"]["decoder"]["shape"], serde_json::json!([n, n]));
    assert_eq!(trace["vectors"], serde_json::json!([]));
    let bytes = read("a.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header["decoder"]["shape"], serde_json::json!([2, 4, n, n]));
    let page = String::from_utf8(read("a.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("\"predictions\":["));
    let svg = String::from_utf8(read("a.svg")).unwrap();
    assert!(svg.contains("decoder self-attention: text ↓ attends to the text so far →"), "{svg}");
    // A selection applies to attention; words join tokens.
    let some = json(folder.path(), "gpt2", &["--layers", "1", "--heads", "0", "--vectors", TEXT]);
    assert_eq!((list(&some["attention"]).len(), list(&some["vectors"]).len()), (1, 1));
    inspect(folder.path(), "gpt2", &["--words", TEXT]).ok();
}

#[test]
fn interventions_are_shown_next_to_the_unchanged_model() {
    let folder = folder(&[]);
    let plain = json(folder.path(), "gpt2", &[TEXT]);
    let arguments = ["--without", "decoder:1", "--scale", "decoder:0:1=0.5", TEXT];
    let changed = json(folder.path(), "gpt2", &arguments);
    assert_ne!(plain["predictions"], changed["predictions"]);
    assert_eq!(list(&changed["intervention"]["heads"]).len(), 3);
    let out = inspect(folder.path(), "gpt2", &arguments).ok();
    let next = |trace: &Value| -> String {
        let last = list(&trace["predictions"]).last().unwrap();
        let each = list(&last["alternatives"]).iter().map(|own| {
            let probability = own["log_probability"].as_f64().unwrap().exp();
            format!("{} {probability:.3}", visible(own["label"].as_str().unwrap()))
        });
        each.collect::<Vec<_>>().join("  ")
    };
    assert!(out.contains(&format!("\nnext         {}\n", next(&changed))), "{}\n{out}", next(&changed));
    assert!(out.contains(&format!("\nunchanged    {}\n", next(&plain))), "{}\n{out}", next(&plain));
    let skipped = json(folder.path(), "gpt2", &["--skip", "decoder:0", TEXT]);
    assert_eq!(list(&skipped["lens"]["layers"]).len(), 2);
    let continued = inspect(folder.path(), "gpt2", &["--generate", "3", "--skip", "decoder:0", TEXT]).ok();
    assert_eq!(continued.matches("\nunchanged ").count(), 3, "{continued}");
}

#[test]
fn hostile_text_is_escaped() {
    let folder = folder(&[]);
    let hostile = "<script>\u{202e}\u{200b}\u{1b}[31m\u{7}";
    let out = inspect(folder.path(), "gpt2", &["--lens", "--contributions", hostile]).ok();
    let is_tame =
        |letter: char| letter == '\n' || !(letter.is_control() || matches!(letter, '\u{200b}' | '\u{202e}'));
    assert!(out.chars().all(is_tame) && out.contains("‹202E›"), "{out:?}");
    inspect(folder.path(), "gpt2", &["--out", "a.json", hostile]).ok();
    assert!(!fs::read_to_string(folder.path().join("a.json")).unwrap().contains('<'));
}

#[test]
fn a_model_without_attention_shows_what_it_has() {
    let folder = folder(&[]);
    let config = RecurrentLanguageModelConfig {
        vocab_size: 399,
        end_id: 2,
        start_id: 1,
        d_embedding: 8,
        d_model: 8,
        n_layers: 1,
        ..Default::default()
    };
    let (config, mut parameters) = (ModelConfig::from(config), Parameters::default());
    LanguageModel::new(config.clone(), &mut parameters).unwrap();
    parameters.initialise(3);
    let model = folder.path().join("lstm");
    save(&model, config, &parameters, &SaveOptions::default()).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(Path::new(&golden("llama")).join(name), model.join(name)).unwrap();
    }
    let run =
        |arguments: &[&str]| polyhead(folder.path(), &[&["inspect", "-m", "lstm"], arguments].concat(), "");
    let out = run(&["--generate", "2", TEXT]).ok();
    assert!(out.contains("probability of each token") && !out.contains("attends to"), "{out}");
    run(&["--out", "a.json", "--out", "a.html", TEXT]).ok();
    let trace: Value = serde_json::from_slice(&fs::read(folder.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(
        (&trace["lens"], &trace["contributions"], &trace["attention"]),
        (&Value::Null, &Value::Null, &serde_json::json!([]))
    );
    for (arguments, expected) in [
        (
            &["--lens", TEXT][..],
            "a recurrent language model, whose layers are no sum, expected a decoder-only Transformer",
        ),
        (&["--contributions", TEXT], "whose layers are no sum"),
        (&["--out", "a.svg", TEXT], "--out a.svg with lstm, which has no attention"),
        (&["--kind", "decoder", TEXT], "--kind with lstm, which has no attention"),
        (&["--without", "decoder:0", TEXT], "--without with lstm, which has no attention"),
    ] {
        let error = run(arguments).failed(2);
        assert!(error.contains(expected) && error.contains("hint: "), "{arguments:?}: {error}");
    }
}

#[test]
fn mistakes_are_explained_with_the_valid_values() {
    let folder = folder(&[]);
    let long = "a ".repeat(99);
    for (arguments, expected) in [
        (&["--layers", "2", TEXT][..], "layer 2, expected one of the model's (decoder: 0–1)"),
        (&["--kind", "cross", TEXT], "kind of attention \"cross\", expected one of the model's: decoder"),
        (&["--to", "tr", TEXT], "--to with a language model, expected a model that translates"),
        (&["--target", "b", TEXT], "--target with a language model"),
        (&["--beam", "2", TEXT], "--beam with a language model"),
        (&["--generate", "0", TEXT], "--generate 0, expected 1 or more"),
        (&["--seed", "1", TEXT], "--generate"),
        (&["--contributions=x", TEXT], "expected a position such as 3 or last"),
        (&["--contributions=99", TEXT], "position 99, expected one of 0 to "),
        (&["--contributions=last:the cat sat", TEXT], "\"the cat sat\" is not one token of the vocabulary"),
        (&["--contributions=last:#999", TEXT], "token 999, expected an id of 0 to 359"),
        (&["--skip", "encoder:0", TEXT], "stack \"encoder\", expected one of the model's: decoder"),
        (&[&long], "expected at most 64, the context of the model"),
    ] {
        let error = inspect(folder.path(), "gpt2", arguments).failed(2);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let translator = format!("{}/../models/tests/golden/opus", env!("CARGO_MANIFEST_DIR"));
    for option in ["--lens", "--generate=3", "--contributions"] {
        let error = polyhead(folder.path(), &["inspect", "-m", &translator, option, TEXT], "").failed(2);
        assert!(error.contains("with a translator, expected a language model"), "{error}");
    }
    // A text of as many tokens as the context has is read; new tokens fill what is left.
    let fits = inspect(folder.path(), "gpt2", &["--generate", "60", "--out", "a.json", TEXT]);
    assert!(fits.code == 0 && fits.err.contains("fills the context of 64 tokens"), "{}", fits.err);
    assert_eq!(names(folder.path()), ["a.json"]);
}
