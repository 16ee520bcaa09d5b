//! `polyhead data check` of labels, and training on CSV files and on tagged words.

use crate::program::{folder, polyhead};

const TRAIN: &str =
    "id,text,label\n1,\"great, film\",good\n2,fine,good\n3,fine,bad\n4,\"two\nlines\",good\n5,dull,bad\n";

#[test]
fn labels_of_a_csv_file_are_checked() {
    let folder = folder(&[("train.csv", TRAIN), ("valid.csv", "id,text,label\n7,fine,good\n8,odd,ugly\n")]);
    let check = ["data", "check", "--labels", "--csv", "train.csv", "--columns", "text,label"];
    let out = polyhead(folder.path(), &check, "").ok();
    assert!(out.starts_with("5 texts, 2 labels, the most frequent 1.5 times the least\n"), "{out}");
    let conflict = "    train.csv:4  also train.csv:3: fine";
    assert!(out.contains("! same text, different labels") && out.contains(conflict), "{out}");
    let with_valid: Vec<&str> =
        check.into_iter().chain(["--valid", "valid.csv", "--format", "json"]).collect();
    let run = polyhead(folder.path(), &with_valid, "");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let problems: Vec<&str> = findings.map(|finding| finding["problem"].as_str().unwrap()).collect();
    assert_eq!(problems, ["unseen_label", "conflicting_labels", "leak"]);
    assert_eq!(report["findings"][0]["examples"][0]["line"], 3);
    let error = run.failed(1);
    assert!(error.contains("hint: correct the labels that training lacks"), "{error}");
}

#[test]
fn wrong_options_of_labels_are_misuse() {
    let folder = folder(&[("train.csv", TRAIN), ("a.conll", "Ada B-PER\nslept\n")]);
    let failed = |arguments: &[&str], code: i32| polyhead(folder.path(), arguments, "").failed(code);
    let error = failed(&["data", "check", "--csv", "train.csv", "--valid", "train.csv"], 2);
    assert!(error.contains("--valid without labels"), "{error}");
    let error = failed(&["data", "check", "--tsv", "train.csv", "--columns", "text,label"], 2);
    assert!(error.contains("--columns: \"text\", expected a number"), "{error}");
    let error = failed(&["data", "check", "--labels", "--csv", "train.csv", "--columns", "text,lable"], 1);
    assert!(error.contains("did you mean \"label\"?"), "{error}");
    let run = polyhead(folder.path(), &["data", "check", "--conll", "a.conll"], "");
    assert!(run.out.contains("✗ unreadable row"), "{}", run.out);
    run.failed(1);
    let words = r#"{"tokens": ["Ada", "slept"], "tags": ["B-PER", "O"]}"#;
    std::fs::write(folder.path().join("a.jsonl"), words).unwrap();
    let out = polyhead(folder.path(), &["data", "check", "--tags", "--jsonl", "a.jsonl"], "").ok();
    assert!(out.starts_with("1 sentence, 2 labels\n"), "{out}");
}

#[test]
fn pairs_of_a_csv_file_are_checked_with_their_lines() {
    let folder = folder(&[("a.csv", "en,de\n\"a\nb\",c\nd,\ne,e\n")]);
    let out = polyhead(folder.path(), &["data", "check", "--csv", "a.csv"], "").ok();
    assert!(out.contains("line 4          d") && out.contains("line 5          e"), "{out}");
}

const RECIPE: &str = r#"
out = "run"
task = "tag"
data = { train = { conll = "a.conll", repeat = 16 }, valid = { conll = "a.conll" } }
tokenizer = { kind = "word", vocab_size = 0, min_frequency = 1 }
model = { preset = "tiny", d_model = 16, n_layers = 1, d_ff = 16 }
schedule = { curve = "constant", peak = 0.01, warmup_steps = 5 }
train = { max_tokens = 64, max_epochs = 12 }
validation = { every_epochs = 12 }
classes = { weights = "balanced" }
"#;

#[test]
fn a_tagger_is_trained_and_finds_names() {
    let words = "Ada B-PER\nslept O\n. O\n\nRome B-LOC\nslept O\n. O\n\n";
    let folder = folder(&[("a.conll", words), ("a.toml", RECIPE)]);
    let run = polyhead(folder.path(), &["train", "a.toml", "--device", "cpu"], "");
    let told = run.err.clone();
    run.ok();
    assert!(told.contains("validation text in training") && told.contains("F1 100.00"), "{told}");
    assert!(told.contains("    PER        100.0   100.0  100.0        1"), "{told}");
    let out =
        polyhead(folder.path(), &["tag", "--model", "run/model", "--words", "Rome slept .  Ada"], "").ok();
    let rows = out.lines().filter(|line| !line.is_empty()).map(|line| line.split('\t').collect::<Vec<_>>());
    let found: Vec<[String; 4]> =
        rows.map(|row| [row[0], row[1], row[2], row[4]].map(str::to_owned)).collect();
    assert_eq!(found, [["0", "4", "LOC", "Rome"], ["14", "17", "PER", "Ada"]]);
    let out = polyhead(folder.path(), &["info", "run/model"], "").ok();
    assert!(out.contains("classes of each token"), "{out}");
}
