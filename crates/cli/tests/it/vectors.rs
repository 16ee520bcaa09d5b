//! `polyhead vectors` and `polyhead embed`.

use std::fs;

use crate::program::{folder, polyhead};

/// A text of two topics, animals and numbers.
fn text() -> String {
    let lines = [
        "the cat and the dog saw a mouse",
        "one and two make three not four",
        "a dog saw the cat and a mouse",
    ];
    (0..60).map(|at| format!("{}\n", lines[at % 3])).collect()
}

fn trained() -> tempfile::TempDir {
    let folder = folder(&[("text", &text())]);
    let train = [
        "vectors",
        "train",
        "text",
        "--dimensions",
        "6",
        "--epochs",
        "3",
        "--out",
        "v.txt",
        "--threads",
        "1",
    ];
    polyhead(folder.path(), &train, "").ok();
    folder
}

#[test]
fn trains_compares_converts_and_draws() {
    let folder = trained();
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    assert!(file("v.txt").starts_with("13 6\na "), "{}", file("v.txt"));
    let again = [
        "vectors",
        "train",
        "text",
        "--dimensions",
        "6",
        "--epochs",
        "3",
        "--out",
        "w.txt",
        "--threads",
        "2",
    ];
    polyhead(folder.path(), &again, "").ok();
    assert_eq!(file("v.txt"), file("w.txt"));
    let nearest = polyhead(folder.path(), &["vectors", "nearest", "v.txt", "cat", "-n", "3"], "");
    assert_eq!(nearest.ok().lines().count(), 4);
    let nearest = polyhead(folder.path(), &["vectors", "nearest", "v.txt", "cat", "--format", "jsonl"], "");
    let json: serde_json::Value = serde_json::from_str(&nearest.ok()).expect("JSON");
    assert_eq!(json["nearest"].as_array().map(Vec::len), Some(10));
    polyhead(folder.path(), &["vectors", "convert", "v.txt", "--out", "v.bin"], "").ok();
    polyhead(folder.path(), &["vectors", "convert", "v.bin", "--out", "u.txt"], "").ok();
    assert_eq!(file("v.txt"), file("u.txt"));
    for out in ["map.html", "map.svg"] {
        polyhead(folder.path(), &["vectors", "map", "v.txt", "--clusters", "3", "--out", out], "").ok();
        assert!(file(out).contains("mouse"));
    }
}

/// Skip-gram and CBOW have learning rates of their own, as in word2vec.
#[test]
fn the_learning_rate_follows_the_method() {
    let folder = folder(&[("text", &text())]);
    let file = |arguments: &[&str]| {
        let train = ["vectors", "train", "text", "--dimensions", "6", "--overwrite", "--out", "v.txt"];
        polyhead(folder.path(), &[&train[..], arguments].concat(), "").ok();
        fs::read_to_string(folder.path().join("v.txt")).expect("a file")
    };
    assert_eq!(file(&[]), file(&["--learning-rate", "0.025"]));
    let cbow = file(&["--method", "cbow"]);
    assert_eq!(cbow, file(&["--method", "cbow", "--learning-rate", "0.05"]));
    assert_ne!(cbow, file(&["--method", "cbow", "--learning-rate", "0.025"]));
}

#[test]
fn every_method_trains() {
    let folder = trained();
    for method in [&["cbow"][..], &["glove"], &["one-hot"], &["skip-gram", "--subwords", "--buckets", "50"]] {
        let mut arguments =
            vec!["vectors", "train", "text", "--dimensions", "5", "--overwrite", "--out", "m.bin"];
        arguments.extend(["--method"].iter().chain(method));
        polyhead(folder.path(), &arguments, "").ok();
        let nearest = polyhead(folder.path(), &["vectors", "nearest", "m.bin", "cat"], "");
        assert!(nearest.ok().contains("dog"), "{method:?}");
    }
    let unseen = polyhead(folder.path(), &["vectors", "nearest", "m.bin", "mousetrap"], "");
    assert!(unseen.ok().starts_with("mousetrap\n"));
}

#[test]
fn evaluates_and_embeds() {
    let folder = trained();
    fs::write(folder.path().join("pairs"), "cat dog 9\ncat one 1\ndog two 1\nmouse horse 5\n")
        .expect("a file");
    let scores = polyhead(folder.path(), &["vectors", "evaluate", "v.txt", "pairs"], "");
    assert!(scores.ok().contains("3 of 4 pairs"));
    let embedded =
        polyhead(folder.path(), &["embed", "--vectors", "v.txt", "--format", "jsonl"], "A cat!\nxyz\n");
    let lines: Vec<serde_json::Value> =
        embedded.ok().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["text"], "A cat!");
    assert_eq!(lines[0]["vector"].as_array().map(Vec::len), Some(6));
    assert!(lines[1]["vector"].as_array().expect("numbers").iter().all(|number| number == 0.0));
}

#[test]
fn wrong_input_is_refused_with_a_hint() {
    let folder = trained();
    fs::write(folder.path().join("bad.txt"), "2 3\na 1 2 3\nb 1 2\n").expect("a file");
    fs::write(folder.path().join("once"), "every word stands here once\n").expect("a file");
    let cases: [(&[&str], i32, &str, &str); 7] = [
        (&["vectors", "nearest", "v.txt", "mousse"], 2, "unknown word \"mousse\"", "\"mouse\""),
        (&["vectors", "nearest", "bad.txt", "a"], 1, "bad.txt:3: 2 numbers, expected 3", "word2vec"),
        (&["vectors", "train", "once", "--out", "x"], 2, "no word of 5", "no word occurs twice"),
        (&["vectors", "train", "text", "--out", "v.txt"], 1, "already exists", "--overwrite"),
        (&["vectors", "analogy", "v.txt", "cat", "dog"], 2, "2 words, expected three", "man king woman"),
        (&["vectors", "map", "v.txt", "--out", "map.gif"], 2, "expected a name that ends in .html", "zooms"),
        (
            &["vectors", "convert", "v.txt", "--file-format", "fasttext", "--out", "y"],
            2,
            "without character",
            "--subwords",
        ),
    ];
    for (arguments, code, message, hint) in cases {
        let found = polyhead(folder.path(), arguments, "").failed(code);
        assert!(found.contains(message) && found.contains(hint), "{arguments:?}: {found}");
    }
    assert!(!folder.path().join("x").exists() && !folder.path().join("y").exists());
}
