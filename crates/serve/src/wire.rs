//! The explorer's API: the requests of the page, and the description of the model.
//!
//! Requests with a body are POST with JSON; all errors are `{"error": "…", "hint": "…"}`.
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`ModelAnswer`] |
//! | `POST /api/trace` | [`TraceRequest`] | `{"translation", "trace"}`: a [`TranslationAnswer`], and the JSON of [`polyhead_inspect::export`] for one segment |
//! | `POST /api/translate` | [`TraceRequest`] | lines of JSON: `{"text", "tokens"}` of the best hypothesis so far, then `{"translation", "trace"}` or `{"error", "hint"}` |
//! | `POST /api/embeddings` | [`EmbeddingsRequest`] | [`EmbeddingsAnswer`] |
//! | `POST /api/attention` | [`AttentionRequest`] | one entry of the trace's `attention`; large ones have `f16` in place of `base64` |
//! | `POST /api/neurons` | [`AttentionRequest`] with a `head` | one entry of the trace's `vectors`, with queries and keys of that head |
//!
//! The explorer of a language model has these instead:
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`TextModelAnswer`] |
//! | `POST /api/text` | [`TextRequest`] | lines of JSON: `{"text", "tokens"}` of the continuation so far, then `{"trace"}` or `{"error", "hint"}` |
//! | `POST /api/text/trace` | [`TextRequest`] | `{"trace"}` |
//! | `POST /api/text/lens` | [`LensRequest`] | the trace's `lens` at some positions |
//! | `POST /api/text/contributions` | [`ContributionsRequest`] | the trace's `contributions` with one target |
//! | `POST /api/text/attention` | [`TextAttentionRequest`] | one entry of the trace's `attention` |
//! | `POST /api/text/neurons` | [`TextAttentionRequest`] with a `head` | one entry of the trace's `vectors` |
//!
//! The explorer of an encoder has these:
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`EncoderModelAnswer`] |
//! | `POST /api/encoder` | [`EncoderRequest`] | a line of JSON: `{"trace"}` or `{"error", "hint"}` |
//! | `POST /api/encoder/trace` | [`EncoderRequest`] | `{"trace"}` |
//! | `POST /api/encoder/states` | [`StatesRequest`] | the trace's `states`; large ones have `f16` in place of `base64` |
//! | `POST /api/encoder/attention` | [`TextAttentionRequest`] | one entry of the trace's `attention` |
//! | `POST /api/encoder/neurons` | [`TextAttentionRequest`] with a `head` | one entry of the trace's `vectors` |
//!
//! The explorer of an image classifier has these:
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`ImageModelAnswer`] |
//! | `POST /api/image` | [`ImageRequest`] | a line of JSON: `{"trace"}` or `{"error", "hint"}` |
//! | `POST /api/image/attention` | [`ImageAttentionRequest`] | one entry of the trace's `attention` |
//!
//! The explorer of a speech recogniser has these:
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`SoundModelAnswer`] |
//! | `POST /api/sound` | [`SoundRequest`] | a line of JSON: `{"notes", "trace"}` or `{"error", "hint"}` |
//! | `POST /api/sound/attention` | [`SoundAttentionRequest`] | one entry of the trace's `attention` |
//!
//! All models of text have `POST /api/compare`: [`CompareRequest`] → the JSON of [`polyhead_inspect::states::json`].

mod encoder;
mod image;
mod sound;

use std::collections::BTreeMap;

use polyhead_attention::{Intervention, Site, SiteGroup, Sites};
use polyhead_inspect::export::SiteJson;
use polyhead_translate::Route;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub use encoder::{CompareRequest, EncoderModelAnswer, EncoderRequest, StatesRequest};
pub use image::{ImageAttentionRequest, ImageModelAnswer, ImageRequest};
pub use sound::{SoundAttentionRequest, SoundModelAnswer, SoundRequest};

/// Limits on one request of the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExplorerLimits {
    /// Characters of a text; default: 20,000.
    pub text: usize,
    /// Tokens of source or target; default: 4096.
    pub tokens: usize,
    /// Tokens of source or target in the Neurons view; default: 512.
    pub neurons: usize,
    /// Bytes of a request; default: 262,144.
    pub body: usize,
    /// Tokens of source and given target up to which a trace has the weights of all layers; beyond, it has those of one layer, and the
    /// others are fetched on demand; default: 192.
    pub whole: usize,
    /// Hypotheses of beam search; default: 16.
    pub beam_size: usize,
}

impl Default for ExplorerLimits {
    fn default() -> Self {
        Self { text: 20_000, tokens: 4096, neurons: 512, body: 256 << 10, whole: 192, beam_size: 16 }
    }
}

/// The description of the model.
#[derive(Debug, Serialize)]
pub struct ModelAnswer {
    /// The name of its folder.
    pub name: String,
    /// Its stacks of layers by name: `encoder` and `decoder`.
    #[serde(flatten)]
    pub stacks: BTreeMap<&'static str, StackAnswer>,
    /// Its attention sites.
    pub sites: Vec<SiteJson>,
    /// Width of its layers.
    pub d_model: usize,
    /// Size of the target vocabulary.
    pub vocab_size: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Codes of the source languages; empty if there is no choice.
    pub sources: Vec<String>,
    /// Codes of the target languages to choose from.
    pub languages: Vec<String>,
    /// Default beam size.
    pub beam_size: usize,
    /// Limits on one request.
    pub limits: ExplorerLimits,
}

/// A stack of layers.
#[derive(Debug, Serialize)]
pub struct StackAnswer {
    /// Number of layers.
    pub n_layers: usize,
    /// Heads of each layer.
    pub n_heads: usize,
    /// Size of a query or key of one head.
    pub d_key: usize,
}

/// A text to translate, and the segment of it to trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceRequest {
    /// The text.
    pub text: String,
    /// True to give the text to the model as one sentence, as it is, like `polyhead inspect`; default: false, prepared like
    /// `polyhead translate`.
    pub as_is: bool,
    /// The segment to trace, an index into [`TranslationAnswer::segments`]; default: the first that the model decoded.
    pub segment: Option<usize>,
    /// Source language; default: detected if the model knows several.
    pub from: Option<String>,
    /// Target language; default: the model's.
    pub to: Option<String>,
    /// A given translation of the text as it is; default: none, so that beam search finds one.
    pub target: Option<String>,
    /// Ids that the translation of the segment begins with; default: none.
    pub prefix: Vec<u32>,
    /// Beam size; default: the model folder's.
    pub beam_size: Option<usize>,
    /// Intervention on the model while it decodes the segment; default: none.
    pub intervention: InterventionRequest,
    /// True to omit attention weights; default: false.
    pub without_weights: bool,
}

/// The translation of a text, as `polyhead translate` gives it.
#[derive(Debug, Serialize)]
pub struct TranslationAnswer {
    /// The translation.
    pub text: String,
    /// The languages, if known.
    pub route: Option<Route>,
    /// Notes on what was done besides decoding, or went wrong.
    pub notes: Vec<NoteAnswer>,
    /// The segments that the model decoded, or that were copied.
    pub segments: Vec<SegmentAnswer>,
    /// The traced segment; none where the model decoded none.
    pub segment: Option<usize>,
}

/// A note on a translation.
#[derive(Debug, Serialize)]
pub struct NoteAnswer {
    /// The note.
    pub message: String,
    /// True if something may be missing or wrong.
    pub is_warning: bool,
}

/// A sentence, or a part of one.
#[derive(Debug, Serialize)]
pub struct SegmentAnswer {
    /// Its sentence in the text, from 0.
    pub sentence: usize,
    /// Its hop, from 0.
    pub hop: usize,
    /// Languages of the hop, if known.
    pub from: Option<String>,
    /// The same.
    pub to: Option<String>,
    /// Its text.
    pub text: String,
    /// The text that the model read; none where it was copied.
    pub read: Option<String>,
    /// Its translation.
    pub translation: String,
}

/// Words to look up in the source embeddings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingsRequest {
    /// The words, 12 at most.
    pub words: Vec<String>,
}

/// Rows of the source embeddings.
#[derive(Debug, Serialize)]
pub struct EmbeddingsAnswer {
    /// Rows of the table.
    pub vocab_size: usize,
    /// Columns of the table.
    pub d_model: usize,
    /// The words that are one token, in order.
    pub rows: Vec<EmbeddingRow>,
    /// Words that are several tokens.
    pub split: Vec<String>,
}

/// A word's row of the embeddings.
#[derive(Debug, Serialize)]
pub struct EmbeddingRow {
    /// The word.
    pub word: String,
    /// Its token.
    pub id: u32,
    /// The row.
    pub vector: Vec<f32>,
    /// Cosine similarity with each of the rows.
    pub similarities: Vec<f32>,
    /// The most similar tokens of the vocabulary, and their similarity.
    pub nearest: Vec<(String, f32)>,
}

/// An attention site to trace, for source and target given as ids.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionRequest {
    /// Source ids.
    pub source: Vec<u32>,
    /// Target ids.
    pub target: Vec<u32>,
    /// Kind of attention: `encoder`, `decoder` or `cross`.
    pub kind: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0; default: all.
    #[serde(default)]
    pub head: Option<usize>,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// The description of a language model.
#[derive(Debug, Serialize)]
pub struct TextModelAnswer {
    /// `language-model`.
    pub task: &'static str,
    /// The name of its folder.
    pub name: String,
    /// Its stacks of layers by name; empty without attention.
    #[serde(flatten)]
    pub stacks: BTreeMap<&'static str, StackAnswer>,
    /// Its attention sites.
    pub sites: Vec<SiteJson>,
    /// Width of its layers.
    pub d_model: usize,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Longest text in tokens; null if there is no limit.
    pub max_len: Option<usize>,
    /// Number of parameters.
    pub parameters: usize,
    /// Most tokens that a request generates.
    pub max_generated: usize,
    /// True if the logit lens applies.
    pub has_lens: bool,
    /// True if logits can be divided among the layers.
    pub has_contributions: bool,
    /// Limits on one request.
    pub limits: ExplorerLimits,
}

/// A text to read, or to continue.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextRequest {
    /// The text.
    pub text: String,
    /// Tokens to read instead of the text, the start token included; default: none.
    pub ids: Vec<u32>,
    /// Number of tokens to generate; default: 0.
    pub generate: usize,
    /// Random seed of sampling; default: none, the most probable token is taken.
    pub seed: Option<u64>,
    /// Intervention on the model; default: none.
    pub intervention: InterventionRequest,
    /// True to omit attention weights; default: false.
    pub without_weights: bool,
}

/// Positions of a text to read the logit lens at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LensRequest {
    /// The tokens of the text.
    pub ids: Vec<u32>,
    /// The first position.
    pub first: usize,
    /// The number of positions.
    pub count: usize,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// A logit to divide among the layers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContributionsRequest {
    /// The tokens of the text.
    pub ids: Vec<u32>,
    /// The position.
    pub position: usize,
    /// The token; default: the one that follows, after the last position the most probable one.
    #[serde(default)]
    pub token: Option<u32>,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// An attention site of a language model to trace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextAttentionRequest {
    /// The tokens of the text.
    pub ids: Vec<u32>,
    /// Kind of attention: `decoder`.
    pub kind: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0; default: all.
    #[serde(default)]
    pub head: Option<usize>,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// Changes to the model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InterventionRequest {
    /// Heads to scale.
    pub heads: Vec<HeadChange>,
    /// Layers to skip.
    pub layers: Vec<LayerChange>,
}

/// A head to scale.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadChange {
    /// Kind of attention: `encoder`, `decoder` or `cross`.
    pub kind: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// Factor of its output.
    pub factor: f32,
}

/// A layer to skip.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerChange {
    /// `encoder` or `decoder`.
    pub stack: String,
    /// The layer, from 0.
    pub layer: usize,
}

impl InterventionRequest {
    /// The intervention for a model with these attention sites.
    ///
    /// # Errors
    /// If a name, a layer or a head does not exist, or a factor is not finite.
    pub fn intervention(&self, sites: &Sites) -> Result<Intervention> {
        let mut found = Intervention::default();
        for HeadChange { kind, layer, head, factor } in &self.heads {
            let (site, group) = site(kind, *layer, sites)?;
            check_index("head", *head, group.heads.n_heads)?;
            if !factor.is_finite() || factor.abs() > 100.0 {
                let message = format!("a factor of {factor}, expected −100 to 100");
                return Err(Error::request(message, "0 switches a head off, 1 leaves it unchanged"));
            }
            found = found.head(site, *head, *factor);
        }
        for LayerChange { stack, layer } in &self.layers {
            let stacks = sites.stacks();
            let Some(group) = stacks.iter().find(|group| group.kind.stack == stack) else {
                return Err(unknown("stack", stack, stacks.iter().map(|group| group.kind.stack)));
            };
            check_index("layer", *layer, group.n_layers)?;
            found = found.without_layer(group.kind.stack, *layer);
        }
        Ok(found)
    }
}

/// The attention site of a kind and layer, and its group.
///
/// # Errors
/// If there is none.
pub fn site<'a>(kind: &str, layer: usize, sites: &'a Sites) -> Result<(Site, &'a SiteGroup)> {
    let names = sites.groups().iter().map(|group| group.kind.name);
    let group = sites.named(kind).ok_or_else(|| unknown("kind of attention", kind, names))?;
    check_index("layer", layer, group.n_layers)?;
    Ok((Site { kind: group.kind, layer }, group))
}

/// Checks that an index is less than `count`.
pub(crate) fn check_index(what: &str, index: usize, count: usize) -> Result<()> {
    if index < count {
        return Ok(());
    }
    let message = format!("{what} {index}, expected one of 0 to {}", count.saturating_sub(1));
    Err(Error::request(message, "GET /api/model lists the sizes"))
}

fn unknown<'a>(what: &str, found: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    let expected = match known.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => known.concat(),
    };
    Error::request(format!("{what} {found:?}, expected {expected}"), "GET /api/model lists the sizes")
}
