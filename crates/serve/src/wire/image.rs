//! Requests and answers of the explorer of an image classifier.

use std::collections::BTreeMap;

use polyhead_inspect::export::SiteJson;
use serde::{Deserialize, Serialize};

use super::{ExplorerLimits, InterventionRequest, StackAnswer};

/// The description of an image classifier.
#[derive(Debug, Serialize)]
pub struct ImageModelAnswer {
    /// `image`.
    pub task: &'static str,
    /// The name of its folder.
    pub name: String,
    /// Its stacks of layers by name.
    #[serde(flatten)]
    pub stacks: BTreeMap<&'static str, StackAnswer>,
    /// Its attention sites.
    pub sites: Vec<SiteJson>,
    /// Width of its layers.
    pub d_model: usize,
    /// Number of parameters.
    pub parameters: usize,
    /// Number of classes.
    pub labels: usize,
    /// Most pixels of an image in millions.
    pub megapixels: f64,
    /// Limits on one request.
    pub limits: ExplorerLimits,
}

/// An image to classify.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRequest {
    /// A PNG or JPEG file in base64.
    pub image: String,
    /// Its name, for labels; default: none.
    #[serde(default)]
    pub name: String,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}

/// One attention site of an image.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageAttentionRequest {
    /// A PNG or JPEG file in base64.
    pub image: String,
    /// Kind of attention: `encoder`.
    pub kind: String,
    /// Layer, from 0.
    pub layer: usize,
    /// Intervention on the model; default: none.
    #[serde(default)]
    pub intervention: InterventionRequest,
}
