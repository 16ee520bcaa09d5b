//! Labels of texts: weights in the loss, F1, CSV files, and the checks before a run.

use std::path::Path;

use polyhead_models::ModelConfig;
use polyhead_text::csv::Column;
use polyhead_train::RunOptions;
use polyhead_train::config::{ClassWeighting, CorpusConfig, Metric, RunConfig, WeightRule, dump, parse};
use serde_json::Value;

use crate::{families, toy};

fn config(folder: &Path) -> RunConfig {
    let example =
        ModelConfig::examples().into_iter().find(|own| own.model_type() == "polyhead_averaging_encoder");
    let mut config = families::config(folder, &example.unwrap());
    (config.train.r_drop, config.train.ema, config.train.label_smoothing) = (0.0, 0.0, 0.0);
    config
}

/// The lines of one kind in the log.
fn lines(config: &RunConfig, kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(config.out.join("metrics.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|line| line["kind"] == kind).collect()
}

#[test]
fn the_loss_of_a_step_is_the_weighted_mean_whatever_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    // Without dropout, which is that of a batch.
    let keys = serde_json::json!({
        "model_type": "transformer_encoder", "preset": "tiny", "dropout": { "embedding": 0.0, "residual": 0.0 },
    });
    config.model = ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap();
    (config.train.max_steps, config.train.log_every) = (1, 1);
    let mut loss = |name: &str, weights: Option<ClassWeighting>, max_tokens: usize, accumulate: usize| {
        config.out = folder.path().join(name);
        config.classes.weights = weights;
        (config.train.max_tokens, config.train.accumulate) = (max_tokens, accumulate);
        toy::run(&config, RunOptions::default(), 1).0.unwrap();
        lines(&config, "train")[0]["loss"].as_f64().unwrap()
    };
    let table = |yes, no| Some(ClassWeighting::Table([("yes".into(), yes), ("no".into(), no)].into()));
    let plain = loss("plain", None, 10_000, 1);
    assert!((loss("equal", table(3.0, 3.0), 10_000, 1) - plain).abs() < 1e-6);
    let weighted = loss("weighted", table(5.0, 1.0), 10_000, 1);
    assert!((weighted - plain).abs() > 1e-3, "{weighted}, {plain}");
    assert!((loss("parts", table(5.0, 1.0), 100, 50) - weighted).abs() < 1e-6);
    // The loss is linear in the losses of both labels, and balanced weights are their mean.
    let [yes, no] = [table(1e6, 1e-6), table(1e-6, 1e6)]
        .into_iter()
        .enumerate()
        .map(|(index, table)| loss(&index.to_string(), table, 10_000, 1))
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let balanced = loss("balanced", Some(ClassWeighting::Rule(WeightRule::Balanced)), 10_000, 1);
    assert!((balanced - f64::midpoint(yes, no)).abs() < 1e-5, "{balanced}: {yes}, {no}");
}

#[test]
fn f1_chooses_the_best_checkpoint_and_each_label_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.validation.metric = Metric::F1;
    config.classes.weights = Some(ClassWeighting::Rule(WeightRule::Balanced));
    let (outcome, told) = toy::run(&config, RunOptions::default(), 1);
    outcome.unwrap();
    let valid = lines(&config, "valid");
    assert!(
        valid.iter().all(|line| line["scores"]["macro F1"].is_f64() && line["scores"]["accuracy"].is_f64())
    );
    let finished = told.iter().rev().find(|line| line.starts_with("Finished")).unwrap();
    assert!(
        finished.contains("LabelScore { label: \"no\"") && finished.contains("LabelScore { label: \"yes\"")
    );
    let readme = std::fs::read_to_string(config.out.join("model/README.md")).unwrap();
    assert!(readme.contains("\n| yes | "), "{readme}");
}

#[test]
fn csv_reads_the_same_texts_as_tsv() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let [texts, labels] = ["source", "target"]
        .map(|side| std::fs::read_to_string(folder.path().join(format!("train.{side}"))).unwrap());
    let rows: String =
        labels.lines().zip(texts.lines()).map(|(label, text)| format!("{label},\"{text}\"\r\n")).collect();
    let path = folder.path().join("train.csv");
    std::fs::write(&path, format!("label,text\r\n{rows}")).unwrap();
    let whole = config.clone();
    toy::run(&whole, RunOptions::default(), 1).0.unwrap();
    config.out = folder.path().join("csv");
    let [source_column, target_column] = [Some(Column::Name("text".into())), Some(Column::Number(1))];
    config.data.train = vec![CorpusConfig {
        csv: Some(path.clone()),
        source_column,
        target_column,
        ..CorpusConfig::default()
    }];
    toy::run(&config, RunOptions::default(), 1).0.unwrap();
    assert!(toy::weights(&config.out) == toy::weights(&whole.out));
    // As a recipe.
    let text = "[data]\ntrain = { csv = \"a.csv\", source_column = \"text\", target_column = 3 }\n[train]\nmax_steps = 3\n[model]\nmodel_type = \"bert\"\n[classes]\nweights = { spam = 4.0 }\n";
    let read = parse(text, "x.toml", Path::new("folder"), &[]).unwrap();
    assert_eq!(read.data.train[0].csv, Some("folder/a.csv".into()));
    assert_eq!(parse(&dump(&read), "dump", Path::new(""), &[]).unwrap(), read);
    let refused =
        |more: &str| parse(&format!("{text}{more}"), "x.toml", Path::new(""), &[]).unwrap_err().to_string();
    assert!(refused("[classes.weights]\nb = 1.0").contains("duplicate"));
    let wrong = text.replace("{ spam = 4.0 }", "\"even\"");
    let error = parse(&wrong, "x.toml", Path::new(""), &[]).unwrap_err().to_string();
    assert!(error.contains("expected \"balanced\", or a table of labels"), "{error}");
    let error = parse(&text.replace("4.0", "-1.0"), "x.toml", Path::new(""), &[]).unwrap_err().to_string();
    assert_eq!(error, "classes.weights: \"spam\" has weight -1, expected a number above 0");
    let error = parse(&text.replace("csv =", "tsv ="), "x.toml", Path::new(""), &[])
        .and_then(|own| own.data.train[0].corpus("data.train").map(|_| ()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("column \"text\", expected its number"), "{error}");
}

#[test]
fn labels_are_checked_before_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let path = folder.path().join("train.target");
    let mut labels: Vec<String> =
        std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    labels[4] = "Yes".into();
    std::fs::write(&path, labels.join("\n")).unwrap();
    let (outcome, told) = toy::run(&config, RunOptions::default(), 1);
    outcome.unwrap();
    let told = told.iter().find(|line| line.starts_with("Labels")).unwrap();
    assert!(told.contains("problem: SimilarLabels") && told.contains("problem: RareLabel"), "{told}");
    std::fs::write(folder.path().join("valid.target"), "maybe\n".repeat(20)).unwrap();
    config.out = folder.path().join("unseen");
    let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string();
    assert!(error.contains("line 1: label \"maybe\", expected one of the training text"), "{error}");
}
