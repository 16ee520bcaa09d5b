//! Captures attention weights of a translation and prints its word alignment: `cargo run --release --example alignment`

use std::error::Error;

use polyhead_inspect::trace::{AttentionWeights, Trace, TraceOptions};
use polyhead_translate::{Engine, LoadOptions};

/// The model folder of this repository.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/default");

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::load(MODEL, &LoadOptions::default())?;
    let options = TraceOptions { to: Some("tr".into()), ..TraceOptions::default() };
    let trace = Trace::new(&engine, "The cat ate the mouse.", &options)?;

    // The cross-attention that alignments are read from, averaged over its heads: target tokens × source tokens.
    let site = trace.alignment_site().ok_or("the model has no cross-attention")?;
    let weights = trace.attention(site).and_then(AttentionWeights::mean).ok_or("no weights")?;
    let [targets, sources] = trace.labels(site.kind);
    for (target, row) in targets.iter().zip(weights.rows()) {
        let strongest = row.iter().zip(&sources).max_by(|a, b| a.0.total_cmp(b.0));
        if let Some((weight, source)) = strongest {
            println!("{target:>6} attends to {source:<8} {weight:.2}");
        }
    }

    // Pairs of words, counted from 0.
    for (source, target) in trace.alignment().unwrap_or_default() {
        println!("source word {source} - target word {target}");
    }
    Ok(())
}
