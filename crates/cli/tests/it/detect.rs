//! `polyhead detect`: languages of texts, and training of an identifier.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::program::{folder, names, polyhead};

#[test]
fn a_text_gives_a_line() {
    let folder = folder(&[]);
    let texts =
        ["The cat ate the mouse.", "je suis etudiant", "KEDI FAREYI YEDI", "Wie\ngeht es dir?", "12:30", ""];
    let out = polyhead(folder.path(), &[&["detect"][..], &texts].concat(), "").ok();
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["en", "fr", "tr", "de", "und", "und"]);
    assert_eq!(rows[0][2], texts[0]);
    assert_eq!(rows[3][2], "Wie geht es dir?");
    assert!(rows[..4].iter().all(|row| row[1].parse::<f64>().unwrap() > 0.9), "{out}");
    assert_eq!(rows[4], ["und", "0.000", "12:30"]);

    let piped = polyhead(folder.path(), &["detect"], "The cat ate the mouse.\r\n\nmerci").ok();
    let codes: Vec<&str> = piped.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(codes, ["en", "und", "fr"]);
    assert_eq!(piped.lines().next(), out.lines().next());
}

#[test]
fn json_has_all_probabilities() {
    let folder = folder(&[]);
    let out = polyhead(folder.path(), &["detect", "--format", "jsonl", "Hand", "5"], "").ok();
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = rows[0]["probabilities"].as_object().unwrap();
    assert_eq!(all.len(), 4);
    assert!((all.values().map(|p| p.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-9, "{out}");
    assert_eq!(all[rows[0]["code"].as_str().unwrap()], rows[0]["probability"]);
    assert_eq!(rows[1]["code"], serde_json::Value::Null);
    assert_eq!((&rows[1]["id"], &rows[1]["text"]), (&1.into(), &"5".into()));

    let among = ["detect", "--among", "de, fr", "--format", "jsonl", "the cat"];
    let out: serde_json::Value = serde_json::from_str(&polyhead(folder.path(), &among, "").ok()).unwrap();
    assert_eq!(out["probabilities"].as_object().unwrap().len(), 2);
}

#[test]
fn an_identifier_of_other_languages_is_trained() {
    let folder = folder(&[
        ("es.txt", "el perro y el gato duermen en la casa\n¿dónde está el niño?\n"),
        ("it.tsv", "1\til cane e il gatto dormono nella casa\n2\tdov'è il bambino?\n"),
    ]);
    let train =
        ["detect", "--train", "es=es.txt", "--train", "it=it.tsv:2", "--rows", "2000", "--examples", "500"];
    for name in ["a", "b"] {
        let run = polyhead(folder.path(), &[&train[..], &["--out", name]].concat(), "");
        assert!(run.err.contains(&format!("wrote {name} (es, it; 4.1 kB)")), "{}", run.err);
        run.ok();
    }
    let bytes = ["a", "b"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert_eq!(bytes[0], bytes[1]);
    let err = polyhead(folder.path(), &[&train[..], &["--out", "a"]].concat(), "").failed(1);
    assert!(err.starts_with("error: a: already exists, expected a new file\nhint: "), "{err}");
    polyhead(folder.path(), &[&train[..], &["--out", "a", "--overwrite"]].concat(), "").ok();
    let out = polyhead(folder.path(), &["detect", "--model", "a"], "donde esta el gato\nil bambino\n").ok();
    let codes: Vec<&str> = out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(codes, ["es", "it"]);

    std::fs::write(folder.path().join("short"), &bytes[0][..1000]).unwrap();
    let err = polyhead(folder.path(), &["detect", "--model", "short", "x"], "").failed(1);
    assert!(err.contains("checksum, expected a language identifier\nhint: the file is damaged"), "{err}");
    let err = polyhead(folder.path(), &["detect", "--model", "es.txt", "x"], "").failed(1);
    assert!(err.contains("unknown file format") && err.contains("hint: polyhead detect --train"), "{err}");
}

#[test]
fn wrong_use_is_explained() {
    let folder = folder(&[("a.txt", "hello\n"), ("b.tsv", "one\n"), ("no.txt", "12\n")]);
    let failed = |arguments: &[&str], code| {
        let err = polyhead(folder.path(), &[&["detect"], arguments].concat(), "").failed(code);
        assert!(err.starts_with("error: ") && err.contains("\nhint: "), "{err}");
        err
    };
    let err = failed(&["--among", "en,xx", "hello"], 2);
    assert!(err.contains("\"xx\", expected some of en, de, fr, tr"), "{err}");
    failed(&["--train", "en=a.txt"], 2);
    failed(&["--out", "x", "hello"], 2);
    failed(&["--rows", "5", "hello"], 2);
    failed(&["--overwrite", "hello"], 2);
    failed(&["--train", "a.txt", "--out", "x"], 2);
    failed(&["--train", "en=a.txt", "--out", "x", "hello"], 2);
    let err = failed(&["--train", "en=a.txt", "--out", "x"], 2);
    assert!(err.contains("languages: 1, expected 2 to 1000"), "{err}");
    let err = failed(&["--train", "en=a.txt", "--train", "de=b.tsv", "--out", "x"], 2);
    assert!(err.contains("de=b.tsv:1"), "{err}");
    let err = failed(&["--train", "en=a.txt", "--train", "de=b.tsv:2", "--out", "x"], 1);
    assert!(err.contains("b.tsv:1: 1 tab-separated column, expected a column 2"), "{err}");
    let err = failed(&["--train", "en=a.txt", "--train", "de=no.txt", "--out", "x"], 1);
    assert!(err.contains("the text of de: no text found"), "{err}");
    failed(&["--train", "en=a.txt", "--train", "de=gone.txt", "--out", "x"], 1);
    failed(&["--model", "gone", "hello"], 1);
    assert_eq!(names(folder.path()), ["a.txt", "b.tsv", "no.txt"]);
}

#[test]
fn invalid_utf8_is_replaced_and_a_closed_pipe_is_no_failure() {
    let start = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_polyhead"));
        program.arg("detect").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        program.spawn().unwrap()
    };
    let mut child = start();
    child.stdin.take().unwrap().write_all(b"good morning\nd\xfcr fen the\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert_eq!(err, "note: standard input:2: invalid UTF-8 at byte 2, replaced by U+FFFD\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);

    let mut child = start();
    drop(child.stdout.take());
    // The program may be gone before it has read everything.
    let _ = child.stdin.take().unwrap().write_all("good morning\n".repeat(1000).as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
