//! Licences and versions of all dependencies, as `cargo metadata` lists them; `deny.toml` has the same rules for cargo-deny.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Licences that allow what MIT and Apache-2.0 allow.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates in two versions, with those who need the older one; a new one needs a reason to be here.
const DOUBLED: &[(&str, &str)] = &[
    ("base64", "spm_precompiled of tokenizers"),
    ("cpufeatures", "sha2"),
    ("getrandom", "tokenizers and our own; tests have the newer"),
    ("miniz_oxide", "png of resvg"),
    ("rand", "tokenizers; tests have the newer"),
    ("rand_core", "rand"),
    ("syn", "macros of tokenizers"),
    ("winnow", "toml; its parser has the newer"),
];

/// The packages of the workspace and its dependencies; none where cargo cannot list them without a network.
fn packages() -> Option<Vec<Value>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(crate::tidy::root())
        .output()
        .ok()?;
    if !output.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    Some(std::mem::take(metadata["packages"].as_array_mut().expect("packages")))
}

/// True if an SPDX expression can be met with allowed licences: one of each list joined by OR.
fn is_allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let parts = plain.split(" AND ");
    parts.into_iter().all(|part| {
        part.split(" OR ")
            .any(|licence| ALLOWED.contains(&licence.trim().split(" WITH ").next().unwrap_or_default()))
    })
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    for package in packages().into_iter().flatten() {
        let licence = package["license"].as_str().unwrap_or("no licence");
        assert!(is_allowed(licence), "{}: {licence}, expected one of {ALLOWED:?}", package["name"]);
    }
    assert!(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0") && is_allowed("MIT/Apache-2.0"));
    assert!(!is_allowed("GPL-3.0-only") && !is_allowed("MIT AND GPL-2.0") && !is_allowed("no licence"));
}

#[test]
fn only_known_crates_come_in_two_versions() {
    let Some(packages) = packages() else { return };
    let mut versions: BTreeMap<String, usize> = BTreeMap::new();
    for package in &packages {
        *versions.entry(package["name"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let doubled: Vec<&str> =
        versions.iter().filter(|(_, count)| **count > 1).map(|(name, _)| name.as_str()).collect();
    let known: Vec<&str> = DOUBLED.iter().map(|(name, _)| *name).collect();
    let new: Vec<&&str> = doubled.iter().filter(|name| !known.contains(name)).collect();
    assert!(new.is_empty(), "crates in two versions: {new:?}; align them, or add the reason");
    let gone: Vec<&&str> = known.iter().filter(|name| !doubled.contains(name)).collect();
    assert!(gone.is_empty(), "one version of these is left: {gone:?}; remove them from the list");
}

#[test]
fn cargo_deny_has_the_same_rules() {
    let text = std::fs::read_to_string(crate::tidy::root().join("deny.toml")).expect("deny.toml");
    for name in ALLOWED.iter().chain(DOUBLED.iter().map(|(name, _)| name)) {
        assert!(text.contains(&format!("\"{name}\"")), "deny.toml does not know {name}");
    }
}
