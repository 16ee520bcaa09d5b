//! `polyhead inspect` and `polyhead draw`: terminal output, files, interventions and messages.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{Run, folder, names, polyhead};

const TEXT: &str = "The teacher reads a book today.";
const HOSTILE: &str = "<script>alert(1)</script> \u{202e}Ayşe\u{200b} e\u{301} \u{1b}[31m\u{7} & \"it\"";

/// A small model made with Hugging Face's code: 2 + 2 layers, 2 and 4 heads.
fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus").canonicalize().unwrap()
}

fn inspect(folder: &Path, arguments: &[&str]) -> Run {
    let model = model();
    polyhead(folder, &[&["inspect", "--model", model.to_str().unwrap()], arguments].concat(), "")
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    inspect(folder, &[arguments, &["--out", "trace.json"]].concat()).ok();
    serde_json::from_slice(&fs::read(folder.join("trace.json")).unwrap()).unwrap()
}

#[test]
fn the_terminal_shows_translation_weights_and_heads() {
    let folder = folder(&[]);
    let out = inspect(folder.path(), &[TEXT]).ok();
    for expected in [
        "source       The teacher reads a book today.\n",
        "alignment    ",
        "cross-attention: target ↓ attends to source →, percent\n\nlayer 1, mean of 4 heads\n",
        "probability of each token",
        "\n encoder 1",
        "\n   cross 1",
    ] {
        assert!(out.contains(expected), "{expected:?} is missing in\n{out}");
    }
    assert!(!out.contains('\x1b'), "colours in a pipe");
    // The translation is that of `translate`.
    let model = model();
    let translated = polyhead(
        folder.path(),
        &["translate", "--raw", "--alignment", "--model", model.to_str().unwrap(), TEXT],
        "",
    )
    .ok();
    let (text, pairs) = translated.trim_end().split_once(" ||| ").unwrap();
    assert!(
        out.contains(&format!("translation  {text}\n")) && out.contains(&format!("alignment    {pairs}\n")),
        "{out}"
    );
    let heads =
        inspect(folder.path(), &["--kind", "encoder", "--layers", "0-1", "--heads", "all", TEXT]).ok();
    let titles: Vec<&str> = heads.lines().filter(|line| line.starts_with("layer ")).collect();
    assert_eq!(titles, ["layer 0, head 0", "layer 0, head 1", "layer 1, head 0", "layer 1, head 1"]);
}

#[test]
fn files_have_the_format_of_their_extension() {
    let folder = folder(&[]);
    let outs = ["a.svg", "a.PNG", "a.json", "a.npz", "a.safetensors"].map(|name| ["--out", name]).concat();
    let run = inspect(folder.path(), &[&outs[..], &[TEXT]].concat());
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
    assert_eq!(names(folder.path()), ["a.PNG", "a.json", "a.npz", "a.safetensors", "a.svg"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert!(read("a.PNG").starts_with(b"\x89PNG") && read("a.npz").starts_with(b"PK\x03\x04"));
    let svg = String::from_utf8(read("a.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains(">teach") || svg.contains(">·teach"), "{svg}");
    let trace: Value = serde_json::from_slice(&read("a.json")).unwrap();
    assert_eq!((&trace["format"], &trace["version"]), (&"polyhead-trace".into(), &1.into()));
    let attention = trace["attention"].as_array().unwrap();
    assert_eq!(attention.len(), 6);
    let n = trace["source"]["tokens"].as_array().unwrap().len();
    for part in attention {
        let shape: Vec<u64> =
            part["weights"]["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        let count: u64 = shape.iter().product();
        assert_eq!(part["weights"]["base64"].as_str().unwrap().len() as u64, (4 * count).div_ceil(3) * 4);
        assert_eq!(part["heads"].as_array().unwrap().len() as u64, shape[0]);
        assert!(part["kind"] == "decoder" || shape[2] as usize == n);
    }
    assert_eq!(trace["steps"].as_array().unwrap().len(), trace["target"]["tokens"].as_array().unwrap().len());
    assert!(trace["beam"]["nodes"].as_array().unwrap().iter().any(|node| node["fate"] == "pruned"));
    assert_eq!(trace["rollout"]["cross"]["shape"][1], n);
    // The safetensors header names the same arrays.
    let bytes = read("a.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header["cross"]["shape"].as_array().unwrap()[..2], [2, 4]);
    assert_eq!(header["cross"]["data_offsets"][1], bytes.len() - 8 - length);
}

#[test]
fn a_selection_applies_to_data_files() {
    let folder = folder(&[]);
    let arguments = ["--kind", "cross", "--layers", "1", "--heads", "0,3", "--vectors", "--beam", "1", TEXT];
    let trace = json(folder.path(), &arguments);
    let attention = trace["attention"].as_array().unwrap();
    assert_eq!(
        (attention.len(), &attention[0]["layer"], attention[0]["heads"].to_string()),
        (1, &1.into(), "[0,3]".into())
    );
    let vectors = trace["vectors"].as_array().unwrap();
    assert_eq!((vectors.len(), vectors[0]["query"]["shape"][0].as_u64()), (1, Some(2)));
    assert!(trace["beam"].is_null() && trace["rollout"].is_null());
}

#[test]
fn a_given_translation_is_inspected_instead() {
    let folder = folder(&[]);
    let trace = json(folder.path(), &["--target", "Kitap okuyor.", TEXT]);
    assert_eq!((&trace["target"]["text"], &trace["given"]), (&"Kitap okuyor.".into(), &true.into()));
    let sum: f64 =
        trace["steps"].as_array().unwrap().iter().map(|step| step["log_probability"].as_f64().unwrap()).sum();
    assert!((sum - trace["log_probability"].as_f64().unwrap()).abs() < 1e-4);
}

#[test]
fn interventions_are_shown_next_to_the_unchanged_model() {
    let folder = folder(&[]);
    let plain = json(folder.path(), &[TEXT]);
    let arguments = ["--without", "cross:1", "--scale", "encoder:0:1=0.5", "--skip", "decoder:0", TEXT];
    let changed = json(folder.path(), &arguments);
    assert_ne!(plain["log_probability"], changed["log_probability"]);
    assert_eq!(changed["intervention"]["heads"].as_array().unwrap().len(), 5);
    assert_eq!(changed["intervention"]["layers"][0]["stack"], "decoder");
    let out = inspect(folder.path(), &arguments).ok();
    assert!(out.contains(&format!("unchanged    {}\n", plain["target"]["text"].as_str().unwrap())), "{out}");
    for (option, value) in [("--without", "cross:2"), ("--scale", "cross:0:4=1"), ("--skip", "encoder:9")] {
        let error = inspect(folder.path(), &[option, value, TEXT]).failed(2);
        assert!(error.contains("expected one of the model's"), "{error}");
    }
}

#[test]
fn hostile_text_is_escaped() {
    let folder = folder(&[]);
    let is_tame = |text: &str| {
        text.chars().all(|letter| {
            letter == '\n' || !(letter.is_control() || matches!(letter, '\u{200b}' | '\u{202e}'))
        })
    };
    for arguments in [&[][..], &["--kind", "encoder", "--heads", "all"], &["--words"]] {
        let out = inspect(folder.path(), &[arguments, &["--target", HOSTILE, HOSTILE]].concat()).ok();
        assert!(is_tame(&out), "{out:?}");
        assert!(out.contains("‹202E›") && out.contains("␛[31m"), "{out}");
    }
    let outs = ["--out", "a.svg", "--out", "a.png", "--out", "a.json", "--out", "a.npz"];
    inspect(folder.path(), &[&outs[..], &["--target", HOSTILE, HOSTILE]].concat()).ok();
    let svg = fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert!(is_tame(&svg) && !svg.contains("<script") && svg.contains("&lt;script&gt;"), "{svg}");
    let text = fs::read_to_string(folder.path().join("a.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trace["source"]["text"], HOSTILE);
    assert!(!text.contains('<'));
}

#[test]
fn two_thousand_tokens_are_inspected() {
    let folder = folder(&[]);
    let text = "book today ".repeat(1000);
    let run = inspect(folder.path(), &["--out", "a.svg", "--kind", "encoder", &text]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("source tokens, more than the model's maximum of 64"), "{}", run.err);
    assert!(fs::metadata(folder.path().join("a.svg")).unwrap().len() < 4_000_000);
    let out = inspect(folder.path(), &[&text[..]]).ok();
    let widest =
        out.lines().filter(|line| !line.starts_with("source ")).map(|line| line.chars().count()).max();
    assert!(widest <= Some(100) && out.contains("more columns do not fit into 100 characters"), "{widest:?}");
}

#[test]
fn mistakes_are_explained_with_the_valid_values() {
    let folder = folder(&[("file", "")]);
    for (arguments, code, expected) in [
        (
            &["--layers", "2", TEXT][..],
            2,
            "layer 2, expected one of the model's (encoder: 0–1, decoder: 0–1)",
        ),
        (
            &["--kind", "encoder", "--heads", "3", TEXT],
            2,
            "head 3, expected one of the model's (encoder: 0–1)",
        ),
        (&["--heads", "x", TEXT], 2, "expected numbers such as 0,2 or 1-3, or all"),
        (
            &["--kind", "sideways", TEXT],
            2,
            "kind of attention \"sideways\", expected one of the model's: encoder, decoder, cross",
        ),
        (
            &["--without", "crass:1:2", TEXT],
            2,
            "kind of attention \"crass\", expected one of the model's: encoder, decoder, cross",
        ),
        (&["--skip", "cross:0", TEXT], 2, "stack \"cross\", expected one of the model's: encoder, decoder"),
        (
            &["--out", "a.gif", TEXT],
            2,
            "expected a name that ends in .svg, .png, .html, .json, .npz or .safetensors",
        ),
        (&["--out", "file/a.svg", TEXT], 1, "file/a.svg"),
        (&["--vectors", TEXT], 2, "--vectors without a .json file"),
        (&["--to", "klingon", TEXT], 2, "klingon"),
        (&["  "], 2, "an empty text, expected a sentence"),
        (&["--beam", "0", TEXT], 2, "beams"),
    ] {
        let error = inspect(folder.path(), arguments).failed(code);
        assert!(error.contains(expected) && error.contains("hint: "), "{arguments:?}: {error}");
    }
    assert_eq!(names(folder.path()), ["file"]);
}

#[test]
fn positions_schedules_and_masks_are_drawn() {
    let folder = folder(&[]);
    let draw = |arguments: &[&str]| polyhead(folder.path(), &[&["draw"], arguments].concat(), "");
    draw(&["positions", "--length", "8", "--d-model", "16"]).ok();
    draw(&["schedule", "--curve", "noam,inverse-sqrt,cosine,linear,constant"]).ok();
    for kind in ["full", "causal", "padding", "window", "dilated", "global"] {
        draw(&["mask", "--kind", kind, "--causal", "--out", &format!("{kind}.svg")]).ok();
    }
    draw(&["mask", "--out", "mask.png"]).ok();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(
        read("positions.svg").contains("8 positions") && read("schedule.svg").contains("inverse square root")
    );
    // Of 12 × 12 pairs 78 are not in the future.
    assert_eq!(read("causal.svg").matches("h26v26h-26z").count(), 78);
    assert_eq!(read("padding.svg").matches("sentence ").count(), 3);
    assert!(fs::read(folder.path().join("mask.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(draw(&["mask", "--out", "mask.gif"]).failed(2).contains(".svg or .png"));
    assert!(
        draw(&["mask", "--kind", "padding", "--lengths", "9", "--length", "4"])
            .failed(2)
            .contains("expected at most 8")
    );
    assert!(draw(&["schedule", "--peak", "-1"]).failed(2).contains("hint: "));
}
