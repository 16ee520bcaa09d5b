//! The description of a model as text.

use polyhead_models::View;
use polyhead_models::checkpoint::{CheckpointLayout, pegasus_compatible};

use super::description::{MarianSupport, ModelDescription, SentenceVectors};
use crate::report::{aligned, bytes, counted, grouped};

/// Two aligned columns: name and value.
pub(super) fn text(description: &ModelDescription) -> String {
    let mut rows = Vec::new();
    if let Some(folder) = &description.folder {
        rows.push(("folder", folder.display().to_string()));
    }
    if let Some(layout) = description.layout {
        rows.push(("layout", layout_name(layout).to_owned()));
    }
    rows.extend(description.architecture.describe());
    sizes(description, &mut rows);
    for vocabulary in &description.tokenizers {
        let text = format!(
            "{}{}, {} for {}",
            vocabulary.side.adjective(),
            vocabulary.kind,
            counted(vocabulary.vocab_size as u64, "entry"),
            counted(vocabulary.embedding_rows as u64, "row")
        );
        rows.push(("tokeniser", text));
    }
    if let Some(SentenceVectors { pooling, normalised, max_length, prompt }) = &description.sentence_vectors {
        let mut text = format!("{} pooling", pooling.join(" and "));
        text += if *normalised { ", normalised" } else { "" };
        if let Some(max_length) = max_length {
            text += &format!(", at most {}", counted(*max_length as u64, "token"));
        }
        if !prompt.is_empty() {
            text += &format!(", after the prompt {prompt:?}");
        }
        rows.push(("vectors of texts", text));
    }
    if !description.directions.is_empty() {
        rows.push(("directions", description.directions.join(", ")));
    }
    if let Some(settings) = &description.generation {
        let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} {value}")).collect();
        rows.push(("generation", settings.join(", ")));
    }
    if is_generative(description) {
        rows.push(("MarianMTModel", marian(&description.marian, description.layout)));
        if pegasus_compatible(&description.architecture).is_ok() {
            rows.push(("Pegasus", pegasus(description).to_owned()));
        }
    }
    rows.extend(description.notes.iter().map(|note| ("note", note.clone())));
    aligned(&rows)
}

/// True for sequence-to-sequence models.
fn is_generative(description: &ModelDescription) -> bool {
    match description.architecture.view() {
        View::SequenceToSequence => true,
        View::Encoder | View::LanguageModel | View::Pointer | View::Image | View::Speech | View::Caption => {
            false
        }
    }
}

fn layout_name(layout: CheckpointLayout) -> &'static str {
    match layout {
        CheckpointLayout::Polyhead => "polyhead",
        CheckpointLayout::Marian => "marian (Hugging Face)",
        CheckpointLayout::Pegasus => "pegasus (Hugging Face)",
        CheckpointLayout::Fairseq => "fairseq",
        CheckpointLayout::Torch => "torch (PyTorch's nn.Transformer)",
        CheckpointLayout::Gpt2 => "gpt2 (Hugging Face)",
        CheckpointLayout::Llama => "llama (Hugging Face: Llama, Mistral, Qwen2)",
        CheckpointLayout::Bert => "bert (Hugging Face)",
        CheckpointLayout::Roberta => "roberta (Hugging Face: RoBERTa, XLM-RoBERTa)",
        CheckpointLayout::Distilbert => "distilbert (Hugging Face)",
        CheckpointLayout::Mpnet => "mpnet (Hugging Face)",
        CheckpointLayout::Modernbert => "modernbert (Hugging Face)",
        CheckpointLayout::Vit => "vit (Hugging Face)",
        CheckpointLayout::Deit | CheckpointLayout::DeitWithTeacher => "deit (Hugging Face)",
        CheckpointLayout::Whisper => "whisper (Hugging Face)",
    }
}

fn sizes(description: &ModelDescription, rows: &mut Vec<(&str, String)>) {
    let counts = &description.parameters;
    let is_generative = is_generative(description);
    let groups = [
        ("embeddings", counts.embeddings),
        ("encoder", counts.encoder),
        ("decoder", counts.decoder),
        ("output", counts.output),
    ];
    let groups = groups.into_iter().filter(|(_, count)| *count > 0 || is_generative);
    let groups: Vec<String> = groups.map(|(name, count)| format!("{name} {}", grouped(count))).collect();
    rows.push(("parameters", format!("{} ({})", grouped(counts.total), groups.join(", "))));
    if let Some(weights) = &description.weights {
        rows.push((
            "weights",
            format!(
                "{}, {} bytes, {}",
                counted(weights.files.len() as u64, "file"),
                grouped(weights.bytes),
                weights.dtypes.join(" and ")
            ),
        ));
    }
    let memory = &description.memory_bytes;
    rows.push((
        "memory",
        format!(
            "{} as f32, {} as bf16, {} as int8",
            bytes(memory.f32),
            bytes(memory.bf16),
            bytes(memory.int8)
        ),
    ));
    let cache = &description.cache_bytes;
    if !is_generative {
        return;
    }
    rows.push((
        "K/V cache",
        format!(
            "{} bytes per target token and hypothesis, {} bytes per source token",
            grouped(cache.per_target_token),
            grouped(cache.per_source_token)
        ),
    ));
}

/// Support of Hugging Face's `PegasusForConditionalGeneration` for a model that it can represent.
fn pegasus(description: &ModelDescription) -> &'static str {
    match description.layout {
        Some(CheckpointLayout::Pegasus) if description.weights.is_some() => "loads this folder",
        None | Some(CheckpointLayout::Pegasus) => "can represent this model",
        Some(_) => "can represent this model, after polyhead export --layout pegasus",
    }
}

fn marian(marian: &MarianSupport, layout: Option<CheckpointLayout>) -> String {
    if !marian.compatible {
        format!("cannot represent this model: {}", marian.reasons.join("; "))
    } else if marian.loads_folder {
        "loads this folder".to_owned()
    } else if layout.is_none_or(|layout| layout == CheckpointLayout::Marian) {
        "can represent this model".to_owned()
    } else {
        "can represent this model, after polyhead export --layout marian".to_owned()
    }
}
