//! `embed --model`, `similar`, `search`, `rerank`, `tag` and `fill`, and folders of encoders in `classify`, `info`, `import`,
//! `export` and `quantize`, on small models with random weights.

use std::fs;
use std::path::Path;

use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use crate::program::{folder, names, polyhead};

const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ndog\ncat\n##s\nbarks\n.\nriver\n";

/// Writes an encoder with this head into `folder/name`.
fn model(folder: &Path, name: &str, head: &str, labels: &[&str]) {
    let config = json!({
        "model_type": "polyhead_bert", "vocab_size": 12, "d_model": 8,
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

pub(crate) fn made() -> tempfile::TempDir {
    let folder = folder(&[("texts", "a dog barks.\ndogs\n\na river\n")]);
    model(folder.path(), "encoder", "none", &[]);
    model(folder.path(), "tagger", "token_classes", &["B-X", "I-X"]);
    model(folder.path(), "filler", "masked_language_model", &[]);
    model(folder.path(), "reranker", "classes", &["score"]);
    model(folder.path(), "classifier", "classes", &["no", "yes"]);
    folder
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn vectors_are_the_same_in_every_format() {
    let folder = made();
    let embed = |more: &[&str], input: &str| {
        polyhead(folder.path(), &[&["embed", "--model", "encoder"], more].concat(), input)
    };
    let run = embed(&["--file", "texts"], "");
    assert!(run.err.contains("no modules.json in the folder; vectors are means"), "{}", run.err);
    let text = run.ok();
    let rows: Vec<Vec<f32>> =
        text.lines().map(|line| line.split('\t').map(|number| number.parse().unwrap()).collect()).collect();
    assert_eq!((rows.len(), rows[0].len()), (4, 8));
    // An empty text is read as the special tokens alone.
    assert!(rows[2].iter().any(|number| *number != 0.0));
    let texts = fs::read_to_string(folder.path().join("texts")).unwrap();
    assert_eq!(embed(&[], &texts).ok(), text);
    assert_eq!(embed(&["a dog barks.", "dogs", "", "a river"], "").ok(), text);
    let json = lines(&embed(&["--format", "jsonl"], &texts).ok());
    assert_eq!(json[1]["text"], "dogs");
    let numbers: Vec<f32> = serde_json::from_value(json[1]["vector"].clone()).unwrap();
    assert_eq!(numbers, rows[1]);
    embed(&["--format", "npy", "--out", "v.npy"], &texts).ok();
    let bytes = fs::read(folder.path().join("v.npy")).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && bytes[255] == b'\n');
    let header = String::from_utf8_lossy(&bytes[10..256]).into_owned();
    assert!(header.contains("'descr': '<f4'") && header.contains("'shape': (4, 8)"), "{header}");
    assert_eq!(floats(&bytes[256..]), rows.concat());
    embed(&["--format", "safetensors", "--out", "v.safetensors"], &texts).ok();
    let bytes = fs::read(folder.path().join("v.safetensors")).unwrap();
    assert_eq!(bytes[..8], 248_u64.to_le_bytes());
    let header: Value = serde_json::from_slice(&bytes[8..256]).unwrap();
    assert_eq!(header["vectors"], json!({"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}));
    assert_eq!(floats(&bytes[256..]), rows.concat());
    assert_eq!(embed(&["--threads", "2"], &texts).ok(), embed(&["--threads", "1"], &texts).ok());
}

#[test]
fn tokens_have_vectors_and_offsets_in_characters() {
    let folder = made();
    let run = |more: &[&str]| {
        polyhead(folder.path(), &[&["embed", "--model", "encoder", "--tokens"], more].concat(), "").ok()
    };
    let json = lines(&run(&["--format", "jsonl", "é dogs"]));
    let tokens = json[0]["tokens"].as_array().unwrap();
    let found: Vec<_> = tokens
        .iter()
        .map(|token| (token["token"].as_str().unwrap(), &token["start"], &token["end"]))
        .collect();
    let at = |number: u64| json!(number);
    assert_eq!(found[2..4], [("dog", &at(2), &at(5)), ("##s", &at(5), &at(6))]);
    let text = run(&["a", "dog"]);
    let first: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(first, ["[CLS]", "a", "[SEP]", "", "[CLS]", "dog", "[SEP]", ""]);
}

#[test]
fn similar_texts_are_compared_and_found() {
    let folder = made();
    let run = |arguments: &[&str], input: &str| polyhead(folder.path(), arguments, input);
    let table = run(&["similar", "--model", "encoder", "a dog", "dogs", "a dog"], "").ok();
    let row: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[2]), ("1.0000", "1.0000"), "{table}");
    let pairs =
        lines(&run(&["similar", "--model", "encoder", "--format", "jsonl", "a dog", "dogs", "a"], "").ok());
    assert_eq!(pairs.len(), 3);
    assert_eq!((&pairs[2]["first"], &pairs[2]["second"]), (&json!(1), &json!(2)));
    let index = ["search", "index", "--model", "encoder", "--file", "texts", "--out", "i"];
    let made = run(&index, "");
    assert!(made.err.contains("wrote i: 4 texts with vectors of 8 numbers"), "{}", made.err);
    made.ok();
    let found = run(&["search", "find", "i", "--top", "2", "dogs", "a river"], "").ok();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!((found[0], found[2], found[3], found.len()), ("1.0000\t2\tdogs", "", "1.0000\t4\ta river", 5));
    let found = lines(&run(&["search", "find", "i", "--format", "jsonl"], "dogs\n").ok());
    assert_eq!((&found[0]["query"], found[0]["found"].as_array().unwrap().len()), (&json!("dogs"), 4));
    assert_eq!(found[0]["found"][0]["line"], 2);
    let error = run(&["search", "find", "i", "--model", "classifier", "dogs"], "").failed(1);
    assert!(error.contains("expected those of the model given") && error.contains("hint: "), "{error}");
}

#[test]
fn tags_masked_words_and_scores_are_printed() {
    let folder = made();
    let run = |arguments: &[&str]| polyhead(folder.path(), arguments, "").ok();
    let tagged = run(&["tag", "--model", "tagger", "--format", "jsonl", "é dogs bark"]);
    let entities = lines(&tagged)[0]["entities"].as_array().unwrap().clone();
    assert!(!entities.is_empty() && entities.iter().all(|entity| entity["label"] == "X"), "{tagged}");
    let text = run(&["tag", "--model", "tagger", "dogs"]);
    assert!(text.starts_with("0\t4\tX\t0.") && text.ends_with("\tdogs\n\n"), "{text:?}");
    let filled = run(&["fill", "--model", "filler", "--top", "3", "a [MASK] barks."]);
    let words: Vec<&str> = filled.lines().collect();
    assert_eq!(words.len(), 4);
    assert!(words[0].ends_with(" barks.") && words[0].starts_with("0."), "{filled}");
    let json = lines(&run(&["fill", "--model", "filler", "--format", "jsonl", "[MASK] [MASK]"]));
    assert_eq!(json[0]["masks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json[0]["masks"][0].as_array().map(Vec::len), Some(5));
    let ranked = run(&["rerank", "--model", "reranker", "--query", "dogs", "a cat", "dogs", "a river"]);
    let scores: Vec<f64> =
        ranked.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b) && scores[0] < 1.0, "{ranked}");
    let raw = [
        "rerank", "--model", "reranker", "--query", "dogs", "--raw", "--top", "1", "--format", "jsonl",
        "a cat",
    ];
    assert_eq!(lines(&run(&raw))[0]["document"], 1);
    let classes = run(&["classify", "--model", "classifier", "--top", "2", "dogs"]);
    assert!(classes.contains("no\t0.") && classes.contains("yes\t0."), "{classes}");
}

#[test]
fn long_texts_are_refused_or_cut_with_a_note() {
    let folder = made();
    let long = "a dog ".repeat(20);
    let texts = format!("a dog\n{long}\n");
    for command in ["embed --model encoder", "tag --model tagger", "rerank --model reranker --query dogs"] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let error = polyhead(folder.path(), &arguments, &texts).failed(1);
        assert!(error.contains("error: text 2: 4"), "{error}");
        assert!(error.contains(" tokens, expected at most 16") && error.contains("--truncate"), "{error}");
        let run = polyhead(folder.path(), &[&arguments[..], &["--truncate"]].concat(), &texts);
        assert!(run.err.contains("note: text 2: 4") && run.err.contains(" tokens, cut to 16"), "{}", run.err);
        run.ok();
    }
    let run = polyhead(folder.path(), &["classify", "--model", "classifier", &long, "a"], "");
    assert!(run.err.contains("note: text 1: 42 tokens, expected at most 16"), "{}", run.err);
    assert!(run.ok().starts_with("\t\ta dog"));
    let run = polyhead(folder.path(), &["classify", "--model", "classifier", "--truncate", &long], "");
    assert!(run.err.contains("note: text 1: 42 tokens, cut to 16"), "{}", run.err);
    assert!(!run.ok().starts_with('\t'));
}

#[test]
fn wrong_command_lines_have_hints() {
    let folder = made();
    fs::remove_file(folder.path().join("filler/vocab.txt")).unwrap();
    let cases: [(&[&str], i32, &str, &str); 13] = [
        (&["embed", "a"], 2, "--model <DIR>", ""),
        (
            &["embed", "--model", "encoder", "--format", "json", "a"],
            2,
            "expected --format jsonl",
            "one JSON object per line",
        ),
        (
            &["embed", "--model", "encoder", "--format", "npy", "a"],
            2,
            "--format npy without --out",
            "--out vectors.npy",
        ),
        (
            &["embed", "--model", "encoder", "--tokens", "--format", "npy", "--out", "v"],
            2,
            "--tokens with an array",
            "different numbers",
        ),
        (&["embed", "--model", "encoder", "--vectors", "v", "a"], 2, "cannot be used with", ""),
        (&["embed", "--model", "nowhere", "a"], 1, "nowhere: no such folder", ""),
        (
            &["embed", "--model", "filler", "a"],
            1,
            "a folder without a tokeniser",
            "the tokeniser that the model was trained with",
        ),
        (
            &["fill", "--model", "encoder", "a"],
            1,
            "an encoder without a head, expected a model of masked words",
            "polyhead embed",
        ),
        (
            &["tag", "--model", "classifier", "a"],
            1,
            "a classifier of texts, expected a classifier of tokens",
            "polyhead classify",
        ),
        (
            &["rerank", "--model", "classifier", "--query", "a", "b"],
            1,
            "a classifier with 2 labels",
            "polyhead classify",
        ),
        (&["similar", "--model", "encoder", "a"], 2, "1 texts, expected 2 to 1000", "polyhead search"),
        (&["search", "find", "texts", "a"], 1, "expected a search index", "polyhead search index"),
        (
            &["classify", "--model", "tagger", "a"],
            1,
            "a classifier of tokens, expected a classifier of texts",
            "polyhead tag",
        ),
    ];
    for (arguments, code, message, hint) in cases {
        let error = polyhead(folder.path(), arguments, "").failed(code);
        assert!(
            error.contains(message) && error.contains(hint) && error.contains("hint: "),
            "{arguments:?}: {error}"
        );
    }
}

#[test]
fn folders_are_described_converted_and_quantised_with_their_modules() {
    let folder = made();
    let file = |name: &str| folder.path().join("encoder").join(name);
    let modules = json!([
        { "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" },
        { "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
        { "idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize" },
    ]);
    fs::write(file("modules.json"), modules.to_string()).unwrap();
    fs::create_dir(file("1_Pooling")).unwrap();
    fs::write(file("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).unwrap();
    let run = |arguments: &[&str]| polyhead(folder.path(), arguments, "").ok();
    let vector = |model: &str| -> Vec<f64> {
        let line = run(&["embed", "--model", model, "a dog"]);
        line.trim().split('\t').map(|number| number.parse().unwrap()).collect()
    };
    let info = run(&["info", "encoder"]);
    assert!(info.contains("WordPiece") && info.contains("learned, 16 positions"), "{info}");
    let exact = vector("encoder");
    assert!((exact.iter().map(|number| number * number).sum::<f64>() - 1.0).abs() < 1e-5);
    run(&["export", "encoder", "--out", "bert", "--layout", "bert"]);
    let config: Value =
        serde_json::from_slice(&fs::read(folder.path().join("bert/config.json")).unwrap()).unwrap();
    assert_eq!((&config["model_type"], &config["architectures"][0]), (&json!("bert"), &json!("BertModel")));
    assert_eq!(
        names(&folder.path().join("bert")),
        ["1_Pooling", "config.json", "model.safetensors", "modules.json", "vocab.txt"]
    );
    assert_eq!(vector("bert"), exact);
    run(&["import", "bert", "--out", "again"]);
    assert_eq!(vector("again"), exact);
    run(&["quantize", "bert", "--out", "int8"]);
    let int8 = vector("int8");
    let cosine: f64 = int8.iter().zip(&exact).map(|(a, b)| a * b).sum();
    assert!(cosine > 0.99 && int8 != exact, "{cosine}");
    let error =
        polyhead(folder.path(), &["export", "encoder", "--out", "x", "--layout", "distilbert"], "").failed(1);
    assert!(error.contains("no DistilBert model: token_types is 2, expected 0"), "{error}");
}
