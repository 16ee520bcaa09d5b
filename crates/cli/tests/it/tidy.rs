//! House rules that the compiler does not know.

use std::fs;
use std::path::{Path, PathBuf};

/// Crates in the order in which they may use each other; those in one row know nothing of each other.
const ORDER: &[&[&str]] = &[
    &["random", "lanes"],
    &["text", "tensor"],
    &["words", "attention"],
    &["models"],
    &["engine"],
    &["translate"],
    &["train", "inspect"],
    &["serve"],
    &["cli"],
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn rank(name: &str) -> Option<usize> {
    ORDER.iter().position(|row| row.contains(&name))
}

/// Every text file of the repository with its path below the root, less what tools leave behind.
pub(crate) fn files() -> Vec<(String, String)> {
    let root = root();
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let fuzzed =
                ["corpus", "artifacts", "coverage"].iter().any(|left| path == root.join("fuzz").join(left));
            // In a second working tree `.git` is a file. A link leads out of the repository, as to data that lie elsewhere.
            let left = [".git", "node_modules", "target", "proptest-regressions"].contains(&name.as_str());
            let produced = ["data", "runs"].iter().any(|left| path == root.join(left));
            if fuzzed || left || produced || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
                found.push((name, text));
            }
        }
    }
    assert!(found.len() > 20, "only {} files found", found.len());
    found
}

fn rust_files() -> impl Iterator<Item = (String, String)> {
    files()
        .into_iter()
        .filter(|(name, _)| Path::new(name).extension().is_some_and(|extension| extension == "rs"))
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<String> =
        rust_files().filter(|(_, text)| !text.starts_with("//! ")).map(|(name, _)| name).collect();
    assert!(silent.is_empty(), "files without a first line `//! …`: {silent:?}");
}

#[test]
fn files_stay_small() {
    let long: Vec<String> = rust_files()
        .filter(|(_, text)| text.lines().count() > 700)
        .map(|(name, text)| format!("{name} ({} lines)", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "files over 700 lines: {long:?}");
}

#[test]
fn crates_use_only_what_stands_before_them() {
    for (name, text) in
        files().into_iter().filter(|(name, _)| name.starts_with("crates/") && name.ends_with("Cargo.toml"))
    {
        let own = name.split('/').nth(1).expect("crates/NAME/Cargo.toml");
        let own_rank = rank(own).unwrap_or_else(|| panic!("{own} has no place in the order of crates"));
        let used = text.lines().filter_map(|line| line.strip_prefix("polyhead-"));
        for used in used.filter_map(|line| line.split(['.', ' ', '=']).next()) {
            let used_rank =
                rank(used).unwrap_or_else(|| panic!("{name} uses {used}, which has no place in the order"));
            assert!(used_rank < own_rank, "{own} must not use {used}");
        }
    }
}

/// Files of the crates above `below`, without their tests.
fn sources_above(below: &str) -> Vec<(String, String)> {
    let least = rank(below).expect("a crate in the order");
    let is_above = |name: &str| {
        let parts: Vec<&str> = name.split('/').collect();
        matches!(parts[..], ["crates", own, "src", ..] if rank(own).is_some_and(|rank| rank > least))
    };
    rust_files()
        .filter(|(name, _)| is_above(name))
        .map(|(name, text)| {
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
            (name, code)
        })
        .collect()
}

#[test]
fn no_family_of_models_is_named_above_them() {
    let models = root().join("crates/models/src");
    let read = |name: &str| fs::read_to_string(models.join(name)).expect("a file of the crate");
    // The configs of families, and the models in the views.
    let (model, family) = (read("model.rs"), read("family.rs"));
    let configs: Vec<String> = family
        .split("impl Family for ")
        .skip(1)
        .map(|rest| rest.split_whitespace().next().expect("a name").to_owned())
        .collect();
    let views = [read("sequence_to_sequence.rs"), read("encoder.rs"), read("language_model.rs")];
    let of_views = views.iter().flat_map(|text| text.split("impl From<").skip(1));
    let families: Vec<String> = of_views
        .map(|rest| rest.split('>').next().expect("a name").to_owned())
        .chain(configs.iter().cloned())
        .chain(["StackConfig".to_owned()])
        .collect();
    assert!(families.len() > 6, "{families:?}");
    // A family that is not among them is held to no law.
    for config in &configs {
        let listed = format!("({config}::default())");
        assert!(model.contains(&listed), "{config} is missing in ModelConfig::families");
    }
    let modules = [
        "polyhead_models::averaging",
        "polyhead_models::recurrent",
        "polyhead_models::transformer",
        "polyhead_models::window",
    ];
    for (name, code) in sources_above("models") {
        let words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let found = words.into_iter().find(|word| families.iter().any(|family| family == word));
        assert!(found.is_none(), "{name} names {found:?}: use a view of polyhead_models::Model");
        let found = modules.iter().find(|module| code.contains(**module));
        assert!(found.is_none(), "{name} uses {found:?}: use a view of polyhead_models::Model");
    }
}

#[test]
fn no_kind_of_attention_is_known_to_the_layers() {
    for (name, code) in sources_above("tensor").into_iter().filter(|(name, _)| name.contains("/attention/")) {
        let code: String =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        for stack in ["\"encoder\"", "\"decoder\"", "\"cross\""] {
            assert!(!code.contains(stack), "{name} names the stack {stack}: models publish their sites");
        }
    }
}

#[test]
fn devices_are_told_apart_in_the_tensor_crate_alone() {
    for (name, code) in sources_above("tensor") {
        for branch in ["is_cpu(", "Device::Cuda", "feature = \"cuda\""] {
            assert!(!code.contains(branch), "{name} has {branch:?}: ask Device::policy");
        }
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("dependencies");
    let section = section.split("\n[").next().expect("the rest of the section");
    let silent: Vec<&str> = section
        .lines()
        .filter(|line| line.contains(" = ") && !line.starts_with("polyhead-") && !line.contains(" # "))
        .collect();
    assert!(silent.is_empty(), "dependencies without a reason: {silent:?}");
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    let mut silent = Vec::new();
    for (name, text) in rust_files() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let starts = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "];
            if !starts.iter().any(|start| code.contains(start)) || code.contains('"') {
                continue;
            }
            let near = lines[index.saturating_sub(12)..=index].iter();
            if !near.into_iter().any(|line| line.contains("SAFETY") || line.contains("# Safety")) {
                silent.push(format!("{name}:{}", index + 1));
            }
        }
    }
    assert!(silent.is_empty(), "{} unsafe blocks without a reason: {silent:?}", silent.len());
}

#[test]
fn nothing_is_left_unfinished() {
    // Spelled in halves so that this file does not find itself.
    let marks =
        [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["todo", "!("], ["unimplemented", "!("], ["dbg", "!("]];
    for (name, text) in rust_files() {
        for mark in marks.map(|halves| halves.concat()) {
            assert!(!text.contains(&mark), "{name} contains {mark}");
        }
    }
}

#[test]
fn no_path_of_a_machine_is_written_down() {
    let roots = ["home", "root", "Users", "work", "tmp", "mnt"];
    for (name, text) in files() {
        for (index, line) in text.lines().enumerate() {
            for root in roots {
                for start in ["\"", "'", " ", "(", "`", "="] {
                    let path = format!("{start}/{root}/");
                    assert!(!line.contains(&path), "{name}:{}: a path of one machine: {line}", index + 1);
                }
            }
        }
    }
}

#[test]
fn runs_that_are_named_exist() {
    let runs = root().join("bench/runs");
    let is_in_a_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut missing = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| !name.starts_with("bench/runs/")) {
        for rest in text.split("bench/runs/").skip(1) {
            let run = rest.split(|letter| !is_in_a_name(letter)).next().unwrap_or_default();
            // A name may end a sentence; one that ends with a dash stands before an asterisk.
            let run = run.trim_end_matches('.');
            let is_name = run.starts_with("20") && !run.ends_with('-');
            if is_name && !runs.join(run).exists() {
                missing.push(format!("{name}: {run}"));
            }
        }
    }
    assert!(missing.is_empty(), "runs that are not under bench/runs: {missing:?}");
}

#[test]
fn one_integration_binary_per_crate() {
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let tests = entry.expect("an entry").path().join("tests");
        let binaries = fs::read_dir(&tests)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"));
        assert_eq!(binaries.count(), 0, "{} should hold it/main.rs only", tests.display());
    }
}
