//! Requests and answers of the explorer of a speech recogniser.

use std::collections::BTreeMap;

use polyhead_inspect::export::SiteJson;
use serde::{Deserialize, Serialize};

use super::{ExplorerLimits, StackAnswer};

/// The description of a speech recogniser.
#[derive(Debug, Serialize)]
pub struct SoundModelAnswer {
    /// `speech`.
    pub task: &'static str,
    /// The name of its folder.
    pub name: String,
    /// The stack of layers whose attention is shown.
    #[serde(flatten)]
    pub stacks: BTreeMap<&'static str, StackAnswer>,
    /// Its cross-attention.
    pub sites: Vec<SiteJson>,
    /// Width of its layers.
    pub d_model: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Codes of the languages to choose from; empty for a model of one language.
    pub languages: Vec<String>,
    /// True if it can write English, whatever is spoken.
    pub translates: bool,
    /// Seconds of a window, of which the explorer shows the first.
    pub seconds: f64,
    /// Limits on one request.
    pub limits: ExplorerLimits,
}

/// A sound to transcribe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoundRequest {
    /// A WAV file in base64.
    pub sound: String,
    /// Its name; default: none.
    #[serde(default)]
    pub name: String,
    /// Code of the language that is spoken; default: detected.
    #[serde(default)]
    pub language: Option<String>,
    /// True to write English; default: false.
    #[serde(default)]
    pub translate: bool,
}

/// One layer of the cross-attention of a sound.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoundAttentionRequest {
    /// The request of the trace.
    pub request: SoundRequest,
    /// Kind of attention: `cross`.
    pub kind: String,
    /// Layer, from 0.
    pub layer: usize,
}
