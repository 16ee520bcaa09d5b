//! `polyhead data make` and `polyhead point`: puzzles, and a pointer network from training to its picture.

use serde_json::Value;

use crate::program::{folder, polyhead};

const RECIPE: &str = r#"
task = "pointer"
out = "run"
[data]
train = { jsonl = "train.jsonl" }
valid = { jsonl = "valid.jsonl" }
[model]
d_model = 16
[schedule]
peak = 0.01
warmup_steps = 10
[train]
device = "cpu"
max_tokens = 200
max_steps = 30
[validation]
every_steps = 30
"#;

#[test]
fn puzzles_are_the_same_for_a_seed_and_wrong_sizes_are_refused() {
    let folder = folder(&[]);
    for puzzle in ["sort", "hull", "delaunay", "tsp"] {
        let make = ["data", "make", puzzle, "--count", "3", "--size", "5-7", "--seed", "4"];
        let out = polyhead(folder.path(), &make, "").ok();
        assert_eq!(out, polyhead(folder.path(), &make, "").ok());
        assert_eq!(out.lines().count(), 3);
        let row: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert!(row["order"].as_array().unwrap().len() >= 3, "{out}");
    }
    let err = polyhead(folder.path(), &["data", "make", "tsp", "--size", "13"], "").failed(2);
    assert!(err.contains("13 points, expected 2 to 12 for tsp"), "{err}");
    polyhead(folder.path(), &["data", "make", "tsp", "--size", "9-3"], "").failed(2);
    polyhead(folder.path(), &["data", "make", "knapsack"], "").failed(2);
}

#[test]
fn a_pointer_network_is_trained_run_scored_drawn_and_inspected() {
    let folder = folder(&[("sort.toml", RECIPE)]);
    let run = |arguments: &[&str], input: &str| polyhead(folder.path(), arguments, input);
    for (name, count, seed) in [("train.jsonl", "300", "1"), ("valid.jsonl", "20", "2")] {
        run(&["data", "make", "sort", "--count", count, "--size", "4", "--seed", seed, "--out", name], "")
            .ok();
    }
    run(&["train", "sort.toml"], "").ok();
    let out = run(&["point", "-m", "run", "--beam", "2", "--n-best", "2"], "{\"numbers\": [5, 3, 9]}\n").ok();
    let row: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(row["numbers"], serde_json::json!([5, 3, 9]));
    let mut order: Vec<u64> =
        row["order"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2], "every number once");
    assert_eq!(row["answers"].as_array().unwrap().len(), 2);
    let scores = run(&["point", "-m", "run", "--score", "valid.jsonl"], "").ok();
    assert!(scores.contains("sequences right") && scores.contains("positions right"), "{scores}");
    run(&["point", "-m", "run", "--picture", "a.svg", "--line", "3", "valid.jsonl"], "").ok();
    let picture = std::fs::read_to_string(folder.path().join("a.svg")).unwrap();
    assert!(picture.contains("attends to points"), "{picture}");
    let shown = run(&["inspect", "-m", "run", "{\"numbers\": [5, 3, 9]}"], "").ok();
    assert!(shown.contains("points") && shown.contains("order"), "{shown}");
    run(&["info", "run"], "").ok();
    run(&["verify-run", "run", "--steps", "30"], "").ok();

    let err = run(&["point", "-m", "run"], "{\"numbers\": [1]}\n{\"points\": [[1, 2]]}\n").failed(1);
    assert!(err.contains("standard input:2: points of 2 coordinates, expected 1\nhint: this model"), "{err}");
    let err = run(&["point", "-m", "run", "--n-best", "3"], "").failed(2);
    assert!(err.contains("--n-best 3, but --beam 1"), "{err}");
    let err = run(&["point", "-m", "run", "--picture", "a.gif"], "").failed(2);
    assert!(err.contains("expected a name that ends in .svg or .png"), "{err}");
    let err = run(&["point", "-m", "run", "--picture", "b.svg", "--line", "99", "valid.jsonl"], "").failed(2);
    assert!(err.contains("--line 99, but the input has 20 lines"), "{err}");
    let err = run(&["classify", "-m", "run", "text"], "").failed(1);
    assert!(
        err.contains(
            "a pointer network, expected a text encoder or classifier\nhint: use it with polyhead point"
        ),
        "{err}"
    );
}
