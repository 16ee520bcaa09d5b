//! The description of a model for people.

use polyhead_models::checkpoint::Layout;
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{
    CrossProjection, NormOrder, PositionConfig, RotaryPairing, Sight, SinusoidalLayout, StackConfig, Tie,
};

use super::description::{Description, Marian};
use crate::report::{aligned, bytes, grouped};

/// One row for each thing that is known.
pub(super) fn text(description: &Description) -> String {
    let mut rows = Vec::new();
    if let Some(folder) = &description.folder {
        rows.push(("folder", folder.display().to_string()));
    }
    if let Some(layout) = description.layout {
        rows.push(("layout", layout_name(layout).to_owned()));
    }
    architecture(&description.architecture, &mut rows);
    sizes(description, &mut rows);
    for vocabulary in &description.tokenizers {
        let text = format!(
            "{}{}, {} entries for {} rows",
            vocabulary.side.adjective(),
            vocabulary.kind,
            grouped(vocabulary.vocab_size as u64),
            grouped(vocabulary.embedding_rows as u64)
        );
        rows.push(("tokeniser", text));
    }
    if !description.directions.is_empty() {
        rows.push(("directions", description.directions.join(", ")));
    }
    if let Some(settings) = &description.generation {
        let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} {value}")).collect();
        rows.push(("generation", settings.join(", ")));
    }
    rows.push(("MarianMTModel", marian(&description.marian, description.layout)));
    rows.extend(description.notes.iter().map(|note| ("note", note.clone())));
    aligned(&rows)
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Polyhead => "polyhead, our own",
        Layout::Marian => "Marian, Hugging Face",
        Layout::Fairseq => "fairseq",
        Layout::Torch => "torch, PyTorch's nn.Transformer",
    }
}

fn architecture(config: &TransformerConfig, rows: &mut Vec<(&str, String)>) {
    rows.push(("encoder", stack(config.encoder, config.d_model)));
    rows.push(("decoder", stack(config.decoder, config.d_model)));
    let order = match config.norm_order {
        NormOrder::Post => "after the residual sum (post-norm)",
        NormOrder::Pre => "before each sub-layer (pre-norm)",
    };
    let last = if config.final_norm { ", one at the end of each stack" } else { "" };
    rows.push(("norms", format!("{order}{last}, epsilon {:e}", config.norm_epsilon)));
    rows.push(("activation", config.activation.name().to_owned()));
    rows.push(("positions", position(config)));
    let sights = [sight(&config.encoder_sight), sight(&config.decoder_sight)];
    let [encoder, decoder] = &sights;
    rows.push(("sight", format!("encoder {encoder}; decoder {decoder} up to the token itself")));
    if config.cross_projection == CrossProjection::Shared {
        rows.push(("cross-attention", "one projection of keys and values for all layers".to_owned()));
    }
    let tie = match config.tie {
        Tie::None => "source, target and output have a table each",
        Tie::TargetOutput => "target and output share a table, the source has its own",
        Tie::SourceTarget => "source and target share a table, the output has its own",
        Tie::All => "source, target and output share one table",
    };
    let scale = if config.scale_embedding { ", times √d_model" } else { "" };
    let bias = if config.output_bias { ", a bias on the logits" } else { "" };
    rows.push(("embeddings", format!("{tie}{scale}{bias}")));
    let [source, target] =
        [config.source_vocab_size, config.target_vocab_size].map(|size| grouped(size as u64));
    let TransformerConfig { pad_id, end_id, start_id, max_len, .. } = config;
    rows.push((
        "ids",
        format!(
            "{source} of the source, {target} of the target; padding {pad_id}, end {end_id}, start {start_id}"
        ),
    ));
    rows.push(("longest", format!("{} tokens", grouped(*max_len as u64))));
}

fn stack(stack: StackConfig, d_model: usize) -> String {
    let StackConfig { n_layers, n_heads, d_ff, .. } = stack;
    let heads = stack.heads(d_model);
    let width = if heads.d_key == heads.d_value {
        format!("width {}", heads.d_key)
    } else {
        format!("width {} (values {})", heads.d_key, heads.d_value)
    };
    let shared = if heads.n_key_heads == n_heads {
        String::new()
    } else {
        format!(", {} of keys and values", heads.n_key_heads)
    };
    format!("{n_layers} layers, d_model {d_model}, {n_heads} heads of {width}{shared}, d_ff {d_ff}")
}

fn position(config: &TransformerConfig) -> String {
    match config.position {
        PositionConfig::None {} => "none".to_owned(),
        PositionConfig::Sinusoidal { layout } => {
            let order = match layout {
                SinusoidalLayout::Interleaved => "sines and cosines in turn",
                SinusoidalLayout::Concatenated => "sines, then cosines",
                SinusoidalLayout::Fairseq => "sines, then cosines, as fairseq counts",
            };
            format!("sinusoidal ({order})")
        }
        PositionConfig::Learned {} => format!("learned, {} of them", config.max_len),
        PositionConfig::Relative { max_distance } => format!("relative, up to a distance of {max_distance}"),
        PositionConfig::Rotary { base, pairing } => {
            let pairs = match pairing {
                RotaryPairing::Interleaved => "neighbours",
                RotaryPairing::Halves => "halves",
            };
            format!("rotary, base {base}, {pairs} in pairs")
        }
    }
}

fn sight(sight: &Sight) -> String {
    match sight {
        Sight::Full => "sees everything".to_owned(),
        Sight::Window { distance } => format!("sees tokens up to {distance} away"),
        Sight::Dilated { distance, dilation } => {
            format!("sees {distance} tokens to each side, {dilation} apart")
        }
        Sight::GlobalWindow { distance, global } => {
            format!("sees tokens up to {distance} away and {} positions for all", global.len())
        }
    }
}

fn sizes(description: &Description, rows: &mut Vec<(&str, String)>) {
    let counts = &description.parameters;
    let groups = [
        ("embeddings", counts.embeddings),
        ("encoder", counts.encoder),
        ("decoder", counts.decoder),
        ("output", counts.output),
    ];
    let groups = groups.map(|(name, count)| format!("{name} {}", grouped(count)));
    rows.push(("parameters", format!("{} ({})", grouped(counts.total), groups.join(", "))));
    if let Some(weights) = &description.weights {
        let files = if weights.files.len() == 1 { "file" } else { "files" };
        rows.push((
            "weights",
            format!(
                "{} {files}, {} bytes, {}",
                weights.files.len(),
                grouped(weights.bytes),
                weights.dtypes.join(" and ")
            ),
        ));
    }
    let memory = &description.memory_bytes;
    rows.push((
        "memory",
        format!(
            "{} as f32; forecast: {} as bf16, {} as int8",
            bytes(memory.f32),
            bytes(memory.bf16),
            bytes(memory.int8)
        ),
    ));
    let cache = &description.cache_bytes;
    rows.push((
        "cache",
        format!(
            "{} bytes a target token and hypothesis, {} bytes a source token",
            grouped(cache.per_target_token),
            grouped(cache.per_source_token)
        ),
    ));
}

fn marian(marian: &Marian, layout: Option<Layout>) -> String {
    if !marian.compatible {
        format!("cannot be this model: {}", marian.reasons.join("; "))
    } else if marian.loads_folder {
        "loads this folder".to_owned()
    } else if layout.is_none_or(|layout| layout == Layout::Marian) {
        "can be this model".to_owned()
    } else {
        "can be this model, after polyhead export --layout marian".to_owned()
    }
}
