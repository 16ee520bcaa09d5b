//! What goes over the wire: the requests that the page sends, and the description of the model that it gets.
//!
//! What carries a request is POST with JSON, and all errors are `{"error": "…", "hint": "…"}`.
//!
//! | path | request | answer |
//! |---|---|---|
//! | `GET /api/model` | | [`ModelAnswer`] |
//! | `POST /api/trace` | [`TraceRequest`] | the JSON of [`polyhead_inspect::export`] |
//! | `POST /api/translate` | [`TraceRequest`] | lines of JSON: `{"text", "tokens"}` of the best translation so far, at last `{"trace": …}` or `{"error", "hint"}` |
//! | `POST /api/attention` | [`AttentionRequest`] | one entry of the trace's `attention`; large ones have `f16` in place of `base64` |
//! | `POST /api/neurons` | [`AttentionRequest`] with a `head` | one entry of the trace's `vectors`, with that head alone and without values |

use polyhead_attention::{Intervention, Kind, Site, Stack};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How much is taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Characters of a text; 20,000.
    pub text: usize,
    /// Tokens of a side; 4096.
    pub tokens: usize,
    /// Tokens of a side in the view of neurons; 512.
    pub neurons: usize,
    /// Bytes of a request; 262,144.
    pub body: usize,
    /// Tokens of source and given target up to which a trace has the weights of all layers; beyond, of one, and the others on demand; 192.
    pub whole: usize,
    /// Hypotheses of a search; 16.
    pub beam_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: 20_000, tokens: 4096, neurons: 512, body: 256 << 10, whole: 192, beam_size: 16 }
    }
}

/// What model is served.
#[derive(Debug, Serialize)]
pub struct ModelAnswer {
    /// The name of its folder.
    pub name: String,
    /// Its encoder.
    pub encoder: StackAnswer,
    /// Its decoder.
    pub decoder: StackAnswer,
    /// The width of its layers.
    pub d_model: usize,
    /// Pieces that it can write.
    pub vocab_size: usize,
    /// Its parameters.
    pub parameters: usize,
    /// Codes of the languages that a sentence can be in; none if there is no choice.
    pub sources: Vec<String>,
    /// Codes of the languages that can be chosen to translate into.
    pub languages: Vec<String>,
    /// Hypotheses followed unless one asks for another number.
    pub beam_size: usize,
    /// How much is taken at once.
    pub limits: Limits,
}

/// A stack of layers.
#[derive(Debug, Serialize)]
pub struct StackAnswer {
    /// Layers.
    pub n_layers: usize,
    /// Heads of each.
    pub n_heads: usize,
    /// Numbers of a query.
    pub d_key: usize,
}

/// A sentence to look at.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceRequest {
    /// The sentence.
    pub text: String,
    /// The language of the sentence; guessed where the model knows several.
    pub from: Option<String>,
    /// The language to translate into; as the model knows it.
    pub to: Option<String>,
    /// A translation that is given; none, so it is searched for.
    pub target: Option<String>,
    /// Ids that the translation begins with; none.
    pub prefix: Vec<u32>,
    /// Hypotheses followed; as the folder says.
    pub beam_size: Option<usize>,
    /// What is changed in the model; nothing.
    pub intervention: Changes,
    /// Whether attention weights are left out; no.
    pub without_weights: bool,
}

/// An attention to look at, of a source and a translation by their ids.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionRequest {
    /// What the model read.
    pub source: Vec<u32>,
    /// What it wrote.
    pub target: Vec<u32>,
    /// `encoder`, `decoder` or `cross`.
    pub kind: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0; all.
    #[serde(default)]
    pub head: Option<usize>,
    /// What is changed in the model; nothing.
    #[serde(default)]
    pub intervention: Changes,
}

/// What is changed in the model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// Heads with a factor.
    pub heads: Vec<HeadChange>,
    /// Layers that are passed over.
    pub layers: Vec<LayerChange>,
}

/// A head with a factor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadChange {
    /// `encoder`, `decoder` or `cross`.
    pub kind: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
    /// What its output is multiplied by.
    pub factor: f32,
}

/// A layer that is passed over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerChange {
    /// `encoder` or `decoder`.
    pub stack: String,
    /// The layer, from 0.
    pub layer: usize,
}

impl Changes {
    /// The same for the model, `[encoder, decoder]` layers and heads of which there are so many.
    ///
    /// # Errors
    /// If a name, a layer or a head does not exist, or a factor is no number.
    pub fn intervention(&self, sizes: [[usize; 2]; 2]) -> Result<Intervention> {
        let mut found = Intervention::default();
        for HeadChange { kind, layer, head, factor } in &self.heads {
            let site = site(kind, *layer, sizes)?;
            let [_, n_heads] = sizes[usize::from(site.stack() == Stack::Decoder)];
            check("head", *head, n_heads)?;
            if !factor.is_finite() || factor.abs() > 100.0 {
                let message = format!("a factor of {factor}, expected a number from −100 to 100");
                return Err(Error::Request { message, hint: "0 switches a head off, 1 leaves it".into() });
            }
            found = found.head(site, *head, *factor);
        }
        for LayerChange { stack, layer } in &self.layers {
            let (stack, [n_layers, _]) = match stack.as_str() {
                "encoder" => (Stack::Encoder, sizes[0]),
                "decoder" => (Stack::Decoder, sizes[1]),
                other => return Err(unknown("stack", other, "encoder or decoder")),
            };
            check("layer", *layer, n_layers)?;
            found = found.without_layer(stack, *layer);
        }
        Ok(found)
    }
}

/// An attention by its name and layer, of a model with `[encoder, decoder]` layers and heads.
///
/// # Errors
/// If there is none.
pub fn site(kind: &str, layer: usize, sizes: [[usize; 2]; 2]) -> Result<Site> {
    let (kind, [n_layers, _]) = match kind {
        "encoder" => (Kind::EncoderSelf, sizes[0]),
        "decoder" => (Kind::DecoderSelf, sizes[1]),
        "cross" => (Kind::Cross, sizes[1]),
        other => return Err(unknown("kind of attention", other, "encoder, decoder or cross")),
    };
    check("layer", layer, n_layers)?;
    Ok(Site { kind, layer })
}

/// An error unless there is such a place.
pub(crate) fn check(what: &str, place: usize, count: usize) -> Result<()> {
    if place < count {
        return Ok(());
    }
    let message = format!("{what} {place}, expected one of 0 to {}", count.saturating_sub(1));
    Err(Error::Request { message, hint: "GET /api/model tells the sizes".into() })
}

fn unknown(what: &str, found: &str, expected: &str) -> Error {
    Error::Request {
        message: format!("{what} {found:?}, expected {expected}"),
        hint: "GET /api/model tells the sizes".into(),
    }
}
