//! `polyhead train`: a recipe of the repository learns its task, and every recipe is valid.

use std::path::Path;

use serde_json::Value;

use crate::program::{folder, polyhead};

#[test]
fn the_recipe_reverse_learns_to_reverse_strings() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let recipe = recipes.join("reverse.toml");
    let folder = folder(&[]);
    let run = polyhead(folder.path(), &["train", recipe.to_str().unwrap(), "--out", "run"], "");
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);

    let metrics = std::fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
    let lines: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<f64> = lines.iter().filter_map(|line| line["scores"]["SER"].as_f64()).collect();
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors.iter().any(|&percent| percent <= 1.0), "percent of strings that are wrong: {errors:?}");

    let valid = std::fs::read_to_string(recipes.join("reverse/valid.tsv")).unwrap();
    let pairs: Vec<(&str, &str)> = valid.lines().map(|line| line.split_once('\t').unwrap()).collect();
    let input: String = pairs.iter().map(|(source, _)| format!("{source}\n")).collect();
    let out = polyhead(folder.path(), &["translate", "--model", "run/model"], &input).ok();
    let right = out.lines().zip(&pairs).filter(|(found, (_, expected))| found == expected).count();
    assert!(pairs.len() == 200 && right >= 198, "{right} of {}:\n{out}", pairs.len());
}

#[test]
fn every_recipe_is_valid() {
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let folder = folder(&[]);
    let mut count = 0;
    for entry in std::fs::read_dir(recipes).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let out = polyhead(folder.path(), &["train", path.to_str().unwrap(), "--dump-config"], "").ok();
            assert!(out.contains("[data]"), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 6, "{count} recipes");
}
