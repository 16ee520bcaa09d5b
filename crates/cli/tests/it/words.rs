//! The glossary of CONVENTIONS.md, held: words of a private dialect are absent from code, help, documents and pages.

use std::collections::HashSet;
use std::fs;

use crate::tidy::{files, root};

/// What not to write, and what to write instead.
const GLOSSARY: &[(&str, &str)] = &[
    ("card", "GPU"),
    ("cards", "GPUs"),
    ("processor", "CPU"),
    ("processors", "CPUs"),
    ("way back", "backward pass"),
    ("hangs on", "depends on"),
    ("hang on", "depend on"),
    ("made small", "objective"),
    ("make small", "minimise"),
    ("numbers to compute with", "compute dtype"),
    ("matrices bytes", "quantise"),
    ("folders of bytes", "int8 models"),
    ("whom to thank", "attribution"),
    ("made again", "reproduced"),
    ("make again", "reproduce"),
    ("journey", "route"),
    ("errand", "step input"),
    ("leg", "hop"),
    ("mend", "repair"),
    ("mended", "repaired"),
    ("sight", "attention pattern"),
    ("desk", "scheduler"),
    ("shelf", "model registry"),
    ("workshop", "worker pool"),
    ("tally", "counters"),
    ("likeness", "similarity"),
    ("kept things", "preserved text"),
    ("layers that write", "decoder stack"),
    ("layers that read", "encoder stack"),
    ("no number any more", "NaN or infinite"),
    ("no numbers any more", "NaN or infinite"),
    ("breaks down", "panics"),
    ("opens up", "inspects"),
    ("look after", "manage"),
    ("looks at", "attends to"),
    ("is told", "is printed"),
    ("put away", "unload"),
    ("guesses", "detections"),
];

/// Files that readers see: code, documents, recipes, scripts, pages. Runs and golden files are records.
fn is_prose(name: &str) -> bool {
    let records = ["bench/runs/", "/golden/", "package-lock.json", "Cargo.lock", "LICENSE", "CONVENTIONS.md"];
    let own = ["tests/it/words.rs", "tests/it/words.allow"];
    let endings =
        [".rs", ".md", ".toml", ".sh", ".js", ".mjs", ".html", ".css", ".cu", ".service", "openapi.json"];
    (name == "check" || endings.iter().any(|ending| name.ends_with(ending)))
        && !records.iter().chain(&own).any(|record| name.contains(record))
}

/// The words of a line in lower case, with a space around each; names are split where their words begin.
fn words(line: &str) -> String {
    let mut out = String::from(" ");
    let mut before = ' ';
    for letter in line.chars() {
        if letter.is_alphabetic() {
            if letter.is_uppercase() && before.is_lowercase() && !out.ends_with(' ') {
                out.push(' ');
            }
            out.extend(letter.to_lowercase());
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
        before = letter;
    }
    if !out.ends_with(' ') {
        out.push(' ');
    }
    out
}

#[test]
fn nothing_is_said_in_a_private_dialect() {
    let list = fs::read_to_string(root().join("crates/cli/tests/it/words.allow")).expect("the allow-list");
    let allowed: Vec<(&str, &str)> = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let mut columns = line.split('\t');
            let entry = (columns.next().expect("a phrase"), columns.next().expect("a file"));
            assert!(columns.next().is_some_and(|reason| !reason.is_empty()), "no reason: {line}");
            entry
        })
        .collect();
    let mut used = HashSet::new();
    let mut found = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| is_prose(name)) {
        for (index, line) in text.lines().enumerate() {
            let mut words = words(line);
            for entry in &allowed {
                let phrase = format!(" {} ", entry.0);
                if name.starts_with(entry.1) && words.contains(&phrase) {
                    used.insert(*entry);
                    words = words.replace(&phrase, " | ");
                }
            }
            for (word, instead) in GLOSSARY {
                if words.contains(&format!(" {word} ")) {
                    found.push(format!(
                        "{name}:{}: \"{word}\", say \"{instead}\": {}",
                        index + 1,
                        line.trim()
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
    let unused: Vec<_> = allowed.iter().filter(|entry| !used.contains(*entry)).collect();
    assert!(unused.is_empty(), "the allow-list names what is nowhere: {unused:?}");
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words("let card_rows = CardFacts::of(x);"), " let card rows card facts of x ");
    assert_eq!(words("GPUs"), " gpus ");
}
