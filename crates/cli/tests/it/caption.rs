//! Captions on the command line: scenes are made, a captioner is trained a few steps, writes, is scored, quantised and inspected;
//! and what goes wrong.

use std::path::Path;

use serde_json::Value;

use crate::program::{Run, folder, polyhead};

const RECIPE: &str = r#"
out = "run"
task = "caption"
data = { train = { tsv = "scenes/train.tsv" }, valid = { tsv = "scenes/valid.tsv", facts = "scenes/valid.jsonl" } }
tokenizer = { kind = "word", vocab_size = 0, min_frequency = 1 }
train = { max_steps = 30, max_rows = 8, label_smoothing = 0.0 }
validation = { every_steps = 30, metric = "facts" }
checkpoint = { beam_size = 2 }
schedule = { curve = "constant", peak = 0.004, warmup_steps = 5 }

[model]
patch_size = 8
d_model = 24
n_layers = 1
n_heads = 2
d_ff = 32
max_len = 32
dropout = { embedding = 0.0, residual = 0.0 }
"#;

fn run(folder: &Path, arguments: &[&str]) -> Run {
    polyhead(folder, arguments, "")
}

/// A folder with scenes and a captioner of a few steps.
fn trained() -> tempfile::TempDir {
    let files = folder(&[("scenes.toml", RECIPE)]);
    let make = "data make scenes --train 24 --valid 6 --test 8 --size 24 --out scenes";
    run(files.path(), &make.split(' ').collect::<Vec<_>>()).ok();
    let told = run(files.path(), &["train", "scenes.toml", "--device", "cpu"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("72 training captions, 648 patches and "), "{}", told.err);
    assert!(told.err.contains("use it with: polyhead caption --model run FILE.png"), "{}", told.err);
    files
}

#[test]
fn scenes_are_the_same_for_a_seed_and_say_what_is_held_out() {
    let files = folder(&[]);
    let read = |name: &str| std::fs::read(files.path().join(name)).unwrap();
    for out in ["one", "two"] {
        let make = ["data", "make", "scenes", "--train", "6", "--valid", "2", "--test", "4", "--seed", "3"];
        let told =
            run(files.path(), &[&make[..], &["--sentences", "2", "--size", "20", "--out", out]].concat());
        assert!(told.err.contains("wrote 12 scenes to"), "{}", told.err);
    }
    for name in ["train.tsv", "test.jsonl", "train/000005.png", "test/000003.png", "scenes.json", "README.md"]
    {
        assert!(read(&format!("one/{name}")) == read(&format!("two/{name}")), "{name}");
    }
    let lines = String::from_utf8(read("one/train.tsv")).unwrap();
    assert_eq!(lines.lines().count(), 12);
    assert!(lines.starts_with("train/000000.png\t"), "{lines}");
    let kinds: Value = serde_json::from_slice(&read("one/scenes.json")).unwrap();
    assert_eq!(kinds["held_out_combinations"][0], "green circle");
    let facts = String::from_utf8(read("one/test.jsonl")).unwrap();
    let rows: Vec<Value> = facts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["held_out"], &rows[1]["held_out"]), (&"combination".into(), &"pair".into()));
    assert!(rows[1]["relations"].as_array().unwrap().len() >= 2, "{facts}");
    for (arguments, expected) in [
        ("scenes", "scenes without a folder"),
        ("scenes --out one", "a folder with files, expected a new or empty one"),
        ("scenes --out new --count 3", "--count with scenes"),
        ("scenes --out new --size 5-9", "expected pixels of a side from 16 to 1,024"),
        ("scenes --out new --sentences 9", "--sentences 9, expected 1 to 6"),
        ("sort --train 3", "numbers of scenes with sort"),
    ] {
        let arguments: Vec<&str> = ["data", "make"].into_iter().chain(arguments.split(' ')).collect();
        let err = run(files.path(), &arguments).failed(2);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_captioner_is_trained_writes_is_scored_quantised_and_inspected() {
    let files = trained();
    let run = |arguments: &[&str]| run(files.path(), arguments);
    run(&["verify-run", "run", "--steps", "30"]).ok();
    let image = "scenes/test/000001.png";
    let alone = run(&["caption", "-m", "run", image]).ok();
    let all = run(&["caption", "-m", "run", "--format", "jsonl", "scenes/test"]).ok();
    let rows: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows.len(), rows[1]["image"].as_str(), rows[1]["id"].as_u64()), (8, Some(image), Some(1)));
    assert_eq!(rows[1]["caption"].as_str(), Some(alone.trim_end()));
    assert!(rows[1]["log_probability"].as_f64().unwrap() < 0.0);
    let two = run(&["caption", "-m", "run", "--beam", "1", "--max-tokens", "2", image, image]).ok();
    let fields: Vec<Vec<&str>> = two.lines().map(|line| line.split('\t').collect()).collect();
    assert!(fields.len() == 2 && fields[0] == fields[1] && fields[0][0] == image, "{two}");
    assert!(fields[0][1].split(' ').count() <= 2, "{two}");
    let scores = run(&["caption", "-m", "run", "--score", "scenes/test.jsonl"]).ok();
    for name in ["images", "facts", "objects", "colours", "relations", "captions"] {
        assert!(scores.contains(name), "{scores}");
    }
    let scores = run(&["caption", "-m", "run", "--score", "scenes/valid.tsv"]).ok();
    assert!(scores.contains("BLEU") && scores.contains("chrF") && scores.contains("images  6"), "{scores}");
    let told = run(&["quantize", "run/model", "--out", "small"]);
    assert!(told.err.contains("preprocessor_config.json"), "{}", told.err);
    run(&["caption", "-m", "small", image]).ok();
    run(&["caption", "-m", "run", "--image-size", "32", image]).ok();
    let out = run(&["info", "run"]).ok();
    assert!(out.contains("24×24 pixels, colour") && out.contains("3×3 of 8×8 pixels"), "{out}");
    let out = run(&["inspect", "-m", "run", "--image", image]).ok();
    assert!(out.contains(alone.trim_end()) && out.contains("patches"), "{out}");
    for name in ["a.svg", "a.png", "a.json", "a.npz", "a.safetensors"] {
        run(&["inspect", "-m", "run", "--image", image, "--out", name]).ok();
    }
    let picture = std::fs::read_to_string(files.path().join("a.svg")).unwrap();
    let words = alone.split_whitespace().count();
    assert_eq!(picture.matches("<image ").count(), 1 + words, "the image, and once for each word");
    let json: Value = serde_json::from_slice(&std::fs::read(files.path().join("a.json")).unwrap()).unwrap();
    assert_eq!((&json["grid"], json["text"].as_str()), (&serde_json::json!([3, 3]), Some(alone.trim_end())));
    let [rows, columns] = [0, 1].map(|at| json["attention"][0]["shape"][at + 1].as_u64());
    assert!(rows.is_none_or(|rows| rows as usize == json["target"]["tokens"].as_array().unwrap().len()));
    assert!(columns.is_none_or(|columns| columns == 9));
}

#[test]
fn images_and_commands_that_do_not_fit_a_captioner_are_refused_with_a_hint() {
    let files = trained();
    let run = |arguments: &[&str]| run(files.path(), arguments);
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let err = run(arguments).failed(code);
        assert!(err.contains(expected), "{arguments:?}: {err}");
    };
    for command in ["translate", "generate", "embed", "fill", "tag", "classify", "explore"] {
        let arguments = if command == "explore" {
            vec![command, "-m", "run"]
        } else {
            vec![command, "-m", "run", "text"]
        };
        let found = run(&arguments);
        let is_refused = (1..=2).contains(&found.code) && found.err.contains("an image captioner, expected");
        assert!(is_refused, "{command}: {}", found.err);
    }
    refused(&["classify", "-m", "run", "text"], 1, "hint: use it with polyhead caption");
    refused(&["transcribe", "-m", "run", "a.wav"], 1, "hint: use it with polyhead caption");
    refused(&["classify", "-m", "run", "--image", "scenes/test"], 1, "an image captioner, expected");
    refused(&["inspect", "-m", "run", "text"], 2, "a text for an image captioner, expected --image FILE");
    refused(
        &["inspect", "-m", "run", "--image", "scenes/test/000000.png", "--without", "cross:0:0"],
        2,
        "an intervention on an image captioner",
    );
    refused(&["caption", "scenes/test"], 2, "required");
    refused(&["caption", "-m", "run"], 2, "required");
    let text_only = format!("{}/../models/tests/golden/opus", env!("CARGO_MANIFEST_DIR"));
    let found = run(&["caption", "-m", &text_only, "scenes/test"]);
    assert!(found.code == 1 && found.err.contains("expected an image captioner"), "{}", found.err);
    assert!(found.err.contains("hint: use it with polyhead translate"), "{}", found.err);
    std::fs::write(files.path().join("broken.png"), b"\x89PNG\r\n\x1a\nrest").unwrap();
    // One image that cannot be read does not stop the others.
    let found =
        run(&["caption", "-m", "run", "gone.png", "scenes/test/000000.png", "broken.png", "scenes.toml"]);
    let lines: Vec<&str> = found.out.lines().collect();
    assert_eq!((found.code, lines.len()), (0, 4), "{}", found.err);
    assert_eq!([lines[0], lines[2], lines[3]], ["gone.png\t", "broken.png\t", "scenes.toml\t"]);
    assert!(lines[1].len() > "scenes/test/000000.png\t".len());
    assert!(found.err.contains("gone.png: ") && found.err.contains("broken.png: "), "{}", found.err);
    let found = run(&["caption", "-m", "run", "--max-megapixels", "0.0001", "scenes/test/000000.png"]);
    assert!(found.err.contains("megapixels, expected at most 0.0001"), "{}", found.err);
    std::fs::write(files.path().join("bad.jsonl"), "{\"image\": 3}\n").unwrap();
    refused(&["caption", "-m", "run", "--score", "bad.jsonl"], 1, "bad.jsonl:1: ");
    std::fs::write(files.path().join("bad.tsv"), "no tab\n").unwrap();
    refused(&["caption", "-m", "run", "--score", "bad.tsv"], 1, "bad.tsv:1: no tab");
    refused(&["caption", "-m", "run", "--score", "bad.tsv", "gone.png"], 2, "cannot be used with");
    for (set, expected) in [
        ("data.train={images='scenes/train'}", "images, expected text"),
        ("data.valid={tsv='scenes/valid.tsv'}", "\"facts\", but nothing is known of"),
        ("data.valid={tsv='scenes/valid.tsv', facts='scenes/valid.tsv'}", "valid.tsv:1: "),
        ("task=transcribe", "model.patch_size: unknown key"),
        ("images.names=['a']", "images.names: a setting of other tasks"),
    ] {
        let found = run(&["train", "scenes.toml", "--set", "out=other", "--set", set]);
        assert!(found.code > 0 && found.err.contains(expected), "{set}: {}", found.err);
    }
}
