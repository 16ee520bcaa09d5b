//! Runs that start from a model folder, and documents of language models.

use std::path::{Path, PathBuf};

use polyhead_engine::generate::{GenerateOptions, TextUnits};
use polyhead_engine::perplexity::{PerplexityOptions, perplexity};
use polyhead_engine::{Generator, LoadOptions};
use polyhead_train::config::{Override, RunConfig, parse};
use polyhead_train::event::Event;
use polyhead_train::{Result, RunOptions, Start, train};

use crate::toy;

/// A random model of transformers: `gpt2` (byte BPE) or `llama`.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden").join(name).canonicalize().unwrap()
}

const RECIPE: &str = r#"
task = "language-model"
out = "run"
[data]
train = { text = "train.txt" }
valid = { text = "valid.txt" }
max_length = 24
[schedule]
curve = "constant"
peak = 0.01
warmup_steps = 1
[train]
device = "cpu"
max_tokens = 200
max_steps = 240
[validation]
every_steps = 120
[checkpoint]
every_steps = 60
final = "last"
"#;

fn recipe(folder: &Path, overrides: &[String]) -> Result<RunConfig> {
    let text = "The cat sat.\nThe dog ran.\n\nThe cat ran.\nThe dog sat.\n\n".repeat(20);
    std::fs::write(folder.join("train.txt"), &text).unwrap();
    std::fs::write(folder.join("valid.txt"), &text[..200]).unwrap();
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    parse(RECIPE, "recipe.toml", folder, &overrides)
}

fn out(folder: &Path, name: &str) -> String {
    format!("out={}", folder.join(name).display())
}

fn validation_losses(config: &RunConfig, options: RunOptions<'_>) -> Vec<f64> {
    let mut losses = Vec::new();
    train(config, options, &mut |event| {
        if let Event::Validated { line, .. } = event {
            losses.push(line.loss);
        }
    })
    .unwrap();
    losses
}

#[test]
fn a_run_starts_from_the_weights_and_the_tokeniser_of_a_folder() {
    for name in ["gpt2", "llama"] {
        let (folder, from) = (tempfile::tempdir().unwrap(), golden(name));
        let init = format!("init={}", from.display());
        // A learning rate that changes nothing.
        let still = ["schedule.peak=1e-12", "train.max_steps=1"].map(str::to_owned);
        let config = recipe(folder.path(), &[&still[..], std::slice::from_ref(&init)].concat()).unwrap();
        validation_losses(&config, RunOptions::default());
        let model = config.out.join("model");
        let options = LoadOptions::default();
        let (before, after) =
            (Generator::load(&from, &options).unwrap(), Generator::load(&model, &options).unwrap());
        assert_eq!(after.units(), TextUnits::Documents, "{name}");
        assert_eq!(after.start_id(), before.start_id(), "{name}");
        let text = "The cat sat.\nThe dog <|endoftext|> ran.";
        let of = |generator: &Generator| {
            let measured = perplexity(generator, text, PerplexityOptions::default(), |_, _| {}).unwrap();
            (generator.encode(text).unwrap(), measured.nats_per_token)
        };
        let ((ids, nats), (same_ids, same_nats)) = (of(&before), of(&after));
        assert_eq!(ids, same_ids, "{name}");
        assert!((nats - same_nats).abs() < 1e-5, "{name}: {nats} {same_nats}");
        for file in ["tokenizer_config.json", "generation_config.json"] {
            assert_eq!(std::fs::read(model.join(file)).unwrap(), std::fs::read(from.join(file)).unwrap());
        }

        // It learns, and a killed run resumes with the same bits.
        let learning = recipe(folder.path(), &[init.clone(), out(folder.path(), "learning")]).unwrap();
        let losses = validation_losses(&learning, RunOptions::default());
        assert!(losses[losses.len() - 1] < 0.5, "{name}: {losses:?}");
        let first =
            recipe(folder.path(), &[init.clone(), out(folder.path(), "parts"), "train.max_steps=120".into()])
                .unwrap();
        validation_losses(&first, RunOptions::default());
        let rest = RunConfig { out: first.out.clone(), ..learning.clone() };
        validation_losses(&rest, RunOptions { start: Start::Resume, ..RunOptions::default() });
        assert!(toy::weights(&rest.out) == toy::weights(&learning.out), "{name}");
        let generator = Generator::load(learning.out.join("model"), &options).unwrap();
        let greedy =
            GenerateOptions { temperature: 0.0, max_new_tokens: Some(12), ..GenerateOptions::default() };
        let found = &generator.generate(&["The cat sat."], &greedy).unwrap()[0][0];
        assert!(found.text.starts_with("\nThe dog"), "{name}: {found:?}");
        std::fs::remove_dir_all(folder.path().join("run")).unwrap();
    }
}

#[test]
fn documents_end_and_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let init = format!("init={}", golden("gpt2").display());
    let read = |overrides: &[&str], name: &str| {
        let mut overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        overrides.extend([init.clone(), "train.max_steps=1".into(), out(folder.path(), name)]);
        let config = recipe(folder.path(), &overrides).unwrap();
        let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
        outcome.unwrap();
        told.into_iter().find(|line| line.starts_with("Read")).unwrap()
    };
    let whole = read(&[], "whole");
    let documents = read(&["data.rows=documents"], "documents");
    // 40 documents: 39 end tokens more; two line breaks between each and one at the end less.
    let tokens = |line: &str| -> usize {
        let rest = line.split("tokens: [").nth(1).unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    assert_eq!(tokens(&whole) + 39 - (2 * 39 + 1), tokens(&documents), "{whole} {documents}");
    let records = folder.path().join("train.jsonl");
    let line = "{\"text\": \"The cat sat.\\nThe dog ran.\", \"id\": 1}\n";
    std::fs::write(&records, line.repeat(40)).unwrap();
    let jsonl = format!("data.train={{ jsonl = {records:?} }}");
    assert_eq!(tokens(&read(&[&jsonl], "records")), tokens(&documents));
}

#[test]
fn settings_that_contradict_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let init = format!("init={}", golden("gpt2").display());
    let refused = |overrides: &[&str]| {
        let overrides: Vec<String> =
            overrides.iter().map(|text| (*text).to_owned()).chain([init.clone()]).collect();
        recipe(folder.path(), &overrides).unwrap_err().to_string()
    };
    let error = refused(&["model.d_model=24"]);
    assert!(error.starts_with("model.d_model: 24, but the run starts from "), "{error}");
    assert!(error.ends_with("d_model = 16"), "{error}");
    let error = refused(&["model.preset=gpt2"]);
    assert!(error.starts_with("model.preset: \"gpt2\", but the run starts from "), "{error}");
    let error = refused(&["tokenizer.kind=character"]);
    assert!(error.starts_with("tokenizer: settings for a new model"), "{error}");
    let error = refused(&["task=translate"]);
    assert!(error.starts_with("task: \"translate\", but model.model_type is"), "{error}");
    // The recipe of a run names what it started from, and all keys.
    let config = recipe(folder.path(), std::slice::from_ref(&init)).unwrap();
    let again = parse(&polyhead_train::config::dump(&config), "dumped", Path::new(""), &[]).unwrap();
    assert_eq!(again, config);
    let none = recipe(folder.path(), &["init=nowhere".into()]).unwrap_err().to_string();
    assert!(none.contains("nowhere"), "{none}");
}
