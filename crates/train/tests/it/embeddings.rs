//! Embeddings initialised from word vectors, trained or frozen, in whole runs.

use std::path::{Path, PathBuf};

use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_train::config::{self, Override};
use polyhead_train::event::Event;
use polyhead_train::{RunOptions, Start, train};

const RECIPE: &str = r#"
[data]
train = { tsv = "pairs.tsv" }
[tokenizer]
kind = "word"
vocab_size = 0
[model]
d_model = 8
n_layers = 1
n_heads = 2
d_ff = 16
[embeddings]
init = "vectors.txt"
frozen = true
[optimizer]
weight_decay = 0.1
[schedule]
peak = 0.01
warmup_steps = 2
[train]
max_tokens = 16
max_steps = 6
ema = 0.9
[checkpoint]
every_steps = 3
"#;

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let words = ["one", "two", "three", "four", "five", "six"];
        let pairs: String =
            (0..36).map(|n| format!("{0} {1}\t{1} {0}\n", words[n % 6], words[n / 6])).collect();
        std::fs::write(folder.path().join("pairs.tsv"), pairs).unwrap();
        std::fs::write(folder.path().join("vectors.txt"), "one 1 2 3 4 5 6 7 8\nsix 8 7 6 5 4 3 2 1\n")
            .unwrap();
        Self { folder }
    }

    /// Trains; returns the run folder, and (found, entries) of each embedding table.
    fn train(&self, out: &str, set: &[&str], start: Start) -> (PathBuf, Vec<(usize, usize)>) {
        let overrides: Vec<Override> = set.iter().map(|text| text.parse().unwrap()).collect();
        let mut config = config::parse(RECIPE, "recipe", self.folder.path(), &overrides).unwrap();
        config.out = self.folder.path().join(out);
        let mut told = Vec::new();
        train(&config, RunOptions { start, ..RunOptions::default() }, &mut |event| {
            if let Event::Embedded { tables, .. } = event {
                told.extend(tables.iter().map(|table| (table.found, table.entries)));
            }
        })
        .unwrap();
        (config.out, told)
    }
}

/// Bits of an array in a checkpoint's trainer folder.
fn bits(run: &Path, step: u64, name: &str) -> Vec<u32> {
    let file = run.join(format!("checkpoints/step-{step:08}/trainer/model.safetensors"));
    let tensor = TensorFile::open(file).unwrap().tensor(name).unwrap();
    tensor.data().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn a_frozen_table_keeps_its_bits_while_other_parameters_train() {
    let case = Case::new();
    let (run, told) = case.train("whole", &[], Start::New);
    assert_eq!(told, [(2, 6)]);
    let table = "embedding.weight";
    for kind in ["parameter", "average"] {
        let name = format!("{kind}.{table}");
        assert_eq!(bits(&run, 3, &name), bits(&run, 6, &name), "{kind}");
    }
    let file = TensorFile::open(run.join("checkpoints/step-00000006/trainer/model.safetensors")).unwrap();
    assert!(file.shape(&format!("adam_m.{table}")).is_none());
    let learned = file.names().filter(|name| name.starts_with("parameter.") && !name.ends_with(table));
    for name in learned.map(str::to_owned).collect::<Vec<_>>() {
        assert_ne!(bits(&run, 3, &name), bits(&run, 6, &name), "{name}");
    }
}

#[test]
fn a_resumed_run_has_the_same_bits_and_needs_no_vectors() {
    let case = Case::new();
    let (whole, _) = case.train("whole", &[], Start::New);
    let (parts, _) = case.train("parts", &["train.max_steps=3"], Start::New);
    std::fs::remove_file(case.folder.path().join("vectors.txt")).unwrap();
    let (_, told) = case.train("parts", &[], Start::Resume);
    assert!(told.is_empty());
    let model = |run: &Path| std::fs::read(run.join("model/model.safetensors")).unwrap();
    assert!(model(&whole) == model(&parts));
}

#[test]
fn a_table_that_is_not_frozen_is_trained() {
    let case = Case::new();
    let (run, told) = case.train("free", &["embeddings.frozen=false"], Start::New);
    assert_eq!(told, [(2, 6)]);
    let name = "parameter.embedding.weight";
    assert_ne!(bits(&run, 3, name), bits(&run, 6, name));
}

#[test]
fn frozen_without_vectors_is_refused() {
    let overrides = ["embeddings.frozen=true".parse().unwrap()];
    let text = RECIPE.replace("init = \"vectors.txt\"", "");
    let error = config::parse(&text, "recipe", Path::new(""), &overrides).unwrap_err();
    assert_eq!(error.to_string(), "embeddings.frozen: true, expected embeddings.init as well");
}
