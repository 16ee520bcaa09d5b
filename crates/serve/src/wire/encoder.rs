//! Requests and answers of the explorer of an encoder, and comparisons of words in context.

use std::collections::BTreeMap;

use polyhead_inspect::export::SiteJson;
use serde::{Deserialize, Serialize};

use super::{ExplorerLimits, InterventionRequest, StackAnswer};

/// The description of an encoder.
#[derive(Debug, Serialize)]
pub struct EncoderModelAnswer {
    /// `encoder`.
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
    /// Longest text in tokens; the end of a longer one is cut off.
    pub max_len: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// `none`, `classes`, `token_classes` or `masked_words`.
    pub head: &'static str,
    /// The names of the classes.
    pub labels: Vec<String>,
    /// The spelling of the mask token, if the head is for masked words.
    pub mask: Option<String>,
    /// Limits on one request.
    pub limits: ExplorerLimits,
}

/// A text to read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncoderRequest {
    /// The text; what is too long for the model is cut off.
    pub text: String,
    /// Intervention on the model; default: none.
    pub intervention: InterventionRequest,
    /// True to omit attention weights; default: false.
    pub without_weights: bool,
}

/// Tokens whose states to describe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatesRequest {
    /// The tokens of the text.
    pub ids: Vec<u32>,
    /// Indices of the tokens that get places: those with text.
    pub shown: Vec<usize>,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// Words to compare in their contexts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// The texts, 16 at most.
    pub texts: Vec<String>,
    /// The words, 8 at most.
    pub words: Vec<String>,
}
