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

use std::collections::BTreeMap;

use polyhead_attention::{Intervention, Site, SiteGroup, Sites};
use polyhead_inspect::export::SiteJson;
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
    /// Its stacks of layers by name: `encoder` and `decoder`.
    #[serde(flatten)]
    pub stacks: BTreeMap<&'static str, StackAnswer>,
    /// Its attentions.
    pub sites: Vec<SiteJson>,
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
    /// The name of a kind of attention: `encoder`, `decoder` or `cross`.
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
    /// The name of a kind of attention: `encoder`, `decoder` or `cross`.
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
    /// The same for the model that has these attentions.
    ///
    /// # Errors
    /// If a name, a layer or a head does not exist, or a factor is not finite.
    pub fn intervention(&self, sites: &Sites) -> Result<Intervention> {
        let mut found = Intervention::default();
        for HeadChange { kind, layer, head, factor } in &self.heads {
            let (site, group) = site(kind, *layer, sites)?;
            check("head", *head, group.heads.n_heads)?;
            if !factor.is_finite() || factor.abs() > 100.0 {
                let message = format!("a factor of {factor}, expected a number from −100 to 100");
                return Err(Error::Request { message, hint: "0 switches a head off, 1 leaves it".into() });
            }
            found = found.head(site, *head, *factor);
        }
        for LayerChange { stack, layer } in &self.layers {
            let stacks = sites.stacks();
            let Some(group) = stacks.iter().find(|group| group.kind.stack == stack) else {
                return Err(unknown("stack", stack, stacks.iter().map(|group| group.kind.stack)));
            };
            check("layer", *layer, group.n_layers)?;
            found = found.without_layer(group.kind.stack, *layer);
        }
        Ok(found)
    }
}

/// An attention by its name and layer, and the group that it belongs to.
///
/// # Errors
/// If there is none.
pub fn site<'a>(kind: &str, layer: usize, sites: &'a Sites) -> Result<(Site, &'a SiteGroup)> {
    let names = sites.groups().iter().map(|group| group.kind.name);
    let group = sites.named(kind).ok_or_else(|| unknown("kind of attention", kind, names))?;
    check("layer", layer, group.n_layers)?;
    Ok((Site { kind: group.kind, layer }, group))
}

/// An error unless there is such a place.
pub(crate) fn check(what: &str, place: usize, count: usize) -> Result<()> {
    if place < count {
        return Ok(());
    }
    let message = format!("{what} {place}, expected one of 0 to {}", count.saturating_sub(1));
    Err(Error::Request { message, hint: "GET /api/model tells the sizes".into() })
}

fn unknown<'a>(what: &str, found: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    let expected = match known.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => known.concat(),
    };
    Error::Request {
        message: format!("{what} {found:?}, expected {expected}"),
        hint: "GET /api/model tells the sizes".into(),
    }
}
