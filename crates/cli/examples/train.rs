//! Trains a tiny Transformer to write three digits backwards, then uses it: `cargo run --release --example train`

use std::error::Error;
use std::fs;

use polyhead_train::{RunOptions, config, train};
use polyhead_translate::{Engine, LoadOptions, TranslateOptions};

/// A recipe, as in `recipes/`; `docs/recipes.md` has every key.
const RECIPE: &str = r#"
out = "run"
data.train = { tsv = "train.tsv" }
data.valid = { tsv = "valid.tsv" }
tokenizer = { kind = "character", vocab_size = 0 }
model = { d_model = 32, n_layers = 1, n_heads = 2, d_ff = 64, dropout = { embedding = 0.0, residual = 0.0 } }
schedule = { curve = "cosine", peak = 0.01, warmup_steps = 50 }
train = { device = "cpu", max_tokens = 256, label_smoothing = 0.0, max_steps = 300 }
validation = { metric = "errors", every_steps = 100 }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let [mut training, mut validation] = [String::new(), String::new()];
    for number in 100..1000 {
        let source = number.to_string();
        let target: String = source.chars().rev().collect();
        let part = if number % 9 == 0 { &mut validation } else { &mut training };
        *part += &format!("{source}\t{target}\n");
    }
    fs::write(folder.path().join("train.tsv"), training)?;
    fs::write(folder.path().join("valid.tsv"), validation)?;

    // Paths of a recipe are relative to its folder. The closure receives progress events; this program ignores them.
    let recipe = config::parse(RECIPE, "the recipe", folder.path(), &[])?;
    let outcome = train(&recipe, RunOptions::default(), &mut |_| {})?;
    println!("{} steps in {:.1} s", outcome.step, outcome.seconds);

    // 126 and 909 are in the validation set.
    let engine = Engine::load(outcome.folder.join("model"), &LoadOptions::default())?;
    for translation in engine.translate(&["126", "909"], &TranslateOptions::default())? {
        println!("{}", translation.text());
    }
    Ok(())
}
