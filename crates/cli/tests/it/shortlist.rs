//! `polyhead shortlist train`, and the use of its file.

use std::fs;
use std::path::Path;

use crate::program::polyhead;

const PAIRS: &str = "The teacher reads a book today.\tKardeşim pazar günü evin arkasında iyi uyudu.\n\
                     Nobody slept well!\tKimse iyi uyumadı!\n";

/// A copy of a golden model, and pairs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus");
    for entry in fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, model.join(path.file_name().unwrap())).unwrap();
    }
    fs::write(folder.path().join("pairs.tsv"), PAIRS.repeat(60)).unwrap();
    folder
}

#[test]
fn a_shortlist_is_trained_used_copied_and_turned_off() {
    let folder = folder();
    let run = |arguments: &[&str]| polyhead(folder.path(), arguments, "");
    let text = "The teacher reads a book today.";
    let train = ["shortlist", "train", "-m", "model", "--tsv", "pairs.tsv", "--languages", "en,tr"];
    let few = ["--frequent", "4", "--per-token", "9"];
    let before = run(&["translate", "-m", "model", "--to", "tr", "--scores", text]).ok();
    let summary = run(&[&train[..], &few].concat()).ok();
    assert!(
        summary.starts_with(">>tur<< (en-tr): 119 pairs, ") && summary.contains(" coverage "),
        "{summary}"
    );
    let bytes = fs::read(folder.path().join("model/shortlist.safetensors")).unwrap();
    let again = [&train[..], &few, &["--overwrite", "--threads", "1"]].concat();
    assert_eq!(run(&again).ok(), summary);
    assert_eq!(fs::read(folder.path().join("model/shortlist.safetensors")).unwrap(), bytes);
    // Scores are those among listed tokens.
    let listed = run(&["translate", "-m", "model", "--to", "tr", "--scores", text]).ok();
    assert_ne!(listed, before);
    assert_eq!(listed.split(" ||| ").next(), before.split(" ||| ").next());
    let off = run(&["translate", "-m", "model", "--to", "tr", "--scores", "--shortlist", "none", text]).ok();
    assert_eq!(off, before);
    run(&["quantize", "model", "--out", "int8"]).ok();
    assert_eq!(fs::read(folder.path().join("int8/shortlist.safetensors")).unwrap(), bytes);
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder();
    let run = |arguments: &[&str], code| {
        let train = ["shortlist", "train", "-m", "model", "--tsv", "pairs.tsv"];
        let error = polyhead(folder.path(), &[&train[..], arguments].concat(), "").failed(code);
        assert!(error.contains("\nhint: "), "{error}");
        error
    };
    let error = run(&["--languages", "de,tr"], 2);
    assert!(error.contains("\"de\": the model translates from eng"), "{error}");
    let error = run(&["--languages", "en"], 2);
    assert!(error.contains("expected two languages, separated by a comma, such as en,de"), "{error}");
    let error =
        run(&["--tsv", "pairs.tsv", "--tsv", "pairs.tsv", "--languages", "en,tr", "--languages", "en,tr"], 2);
    assert!(error.contains("2 --languages for 3 --tsv, expected 1 or 3"), "{error}");
    fs::write(folder.path().join("model/shortlist.safetensors"), "damaged").unwrap();
    let error = run(&["--languages", "en,tr"], 1);
    assert!(error.contains("shortlist.safetensors: already exists, expected a new file"), "{error}");
    let error = polyhead(folder.path(), &["translate", "-m", "model", "a"], "").failed(1);
    assert!(error.contains("shortlist.safetensors") && error.contains("\nhint: "), "{error}");
    fs::write(folder.path().join("pairs.tsv"), "").unwrap();
    let error = run(&["--languages", "en,tr", "--overwrite"], 1);
    assert!(error.contains("no pairs in en,tr, expected text to learn from"), "{error}");
}
