//! The explorer of an image classifier: an image, its classes, and what each head attends to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_attention::{Filter, SiteGroup};
use polyhead_engine::ImageClassifier;
use polyhead_engine::image::{ImageLimits, Picture, decode};
use polyhead_inspect::export::{SiteJson, json};
use polyhead_inspect::trace::Trace;

use super::call::Call;
use super::inspect::{MAX_F32, WEIGHT_MEMORY, skipped};
use super::routes::{self, ExplorerOptions};
use super::{Listening, Port, bind};
use crate::packed::{self, PackedDtype};
use crate::wire::{
    self, ExplorerLimits, ImageAttentionRequest, ImageModelAnswer, ImageRequest, InterventionRequest,
    StackAnswer,
};
use crate::{Error, Result};

/// Bytes of the largest request: an image in base64.
pub(super) const BODY: usize = 48 << 20;
/// Bytes for each pixel of an image while it is decoded.
const PIXEL: usize = 16;
/// Outputs that a pass keeps of each layer, as captured and on the host.
const LAYER_OUTPUTS: usize = 8;

/// The explorer of an image classifier.
#[derive(Debug)]
pub struct ImageExplorer {
    classifier: Arc<ImageClassifier>,
    name: String,
    limits: ExplorerLimits,
}

impl ImageExplorer {
    /// The explorer of a loaded model; `name` is shown on the page.
    pub fn new(classifier: Arc<ImageClassifier>, name: impl Into<String>) -> Self {
        let limits = ExplorerLimits { body: BODY, ..ExplorerLimits::default() };
        Self { classifier, name: name.into(), limits }
    }

    /// Binds a port of the loopback address, which only this machine can reach.
    ///
    /// # Errors
    /// If the port is in use, or all that were tried.
    pub fn listen(self, port: Port) -> Result<Listening> {
        let listener = bind(port)?;
        Listening::new(routes::image_routes(Arc::new(self), ExplorerOptions::default()), listener)
    }

    /// The description of the model.
    pub(super) fn model(&self) -> ImageModelAnswer {
        let model = self.classifier.model();
        let sites = model.sites();
        let stack = |group: &SiteGroup| {
            let SiteGroup { kind, n_layers, heads } = *group;
            (kind.stack, StackAnswer { n_layers, n_heads: heads.n_heads, d_key: heads.d_key })
        };
        let shapes = self.classifier.parameters().declared();
        ImageModelAnswer {
            task: "image",
            name: self.name.clone(),
            stacks: sites.stacks().into_iter().map(stack).collect::<BTreeMap<_, _>>(),
            sites: sites.groups().iter().map(SiteJson::from).collect(),
            d_model: model.config().d_model,
            parameters: shapes.map(|(_, _, shape)| shape.iter().product::<usize>()).sum(),
            labels: model.labels().len(),
            megapixels: ImageLimits::default().max_megapixels,
            limits: self.limits,
        }
    }

    /// The JSON of an image's trace: `{"trace"}`, with the weights of the last layer if there are many.
    pub(super) fn trace(&self, request: &ImageRequest, call: &mut Call) -> Result<String> {
        let ImageRequest { image, name, intervention } = request;
        let picture = self.read(image, call)?;
        let trace = self.traced(&picture, name, intervention, call)?;
        let last = self.sites().iter().map(|group| group.n_layers).max().unwrap_or(0).saturating_sub(1);
        let is_long = self.classifier.length() > self.limits.whole;
        let filter = Filter { layers: is_long.then(|| vec![last]), ..Filter::default() };
        Ok(format!("{{\"trace\":{}}}", json(&trace, &filter)))
    }

    /// The JSON of one attention site.
    pub(super) fn attention(&self, request: &ImageAttentionRequest, call: &mut Call) -> Result<String> {
        let ImageAttentionRequest { image, kind, layer, intervention } = request;
        let (site, _) = wire::site(kind, *layer, &self.classifier.model().sites())?;
        let picture = self.read(image, call)?;
        let trace = self.traced(&picture, "", intervention, call)?;
        let filter = Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), ..Filter::default() };
        let found = trace.selected(&filter);
        let Some(found) = found.first() else { return Err(skipped()) };
        let size: usize = found.weights.iter().map(|own| own.numbers().len()).sum();
        let dtype = if size > MAX_F32 { PackedDtype::F16 } else { PackedDtype::F32 };
        Ok(packed::attention(found.site, &found.heads, &found.weights, dtype).to_string())
    }

    fn sites(&self) -> Vec<SiteGroup> {
        self.classifier.model().sites().groups().to_vec()
    }

    /// The image of a request; its size is checked, and its memory reserved, before it is decoded.
    fn read(&self, image: &str, call: &mut Call) -> Result<Picture> {
        let bytes = STANDARD.decode(image).map_err(|_| {
            Error::request(
                "an image that is not base64, expected PNG or JPEG in base64",
                "choose the file again",
            )
        })?;
        let (name, limits) = (Path::new("the image"), ImageLimits::default());
        let unreadable = |error: polyhead_engine::Error| Error::request(error.to_string(), error.hint());
        let size = decode::measure(&bytes, name, limits).map_err(unreadable)?;
        call.reserve(bytes.len() + PIXEL * size[0] * size[1] + self.pass_memory())?;
        call.check()?;
        decode::decode(&bytes, name, limits).map_err(unreadable)
    }

    fn traced(
        &self,
        picture: &Picture,
        name: &str,
        intervention: &InterventionRequest,
        call: &Call,
    ) -> Result<Trace> {
        let intervention = intervention.intervention(&self.classifier.model().sites())?;
        call.check()?;
        let trace = Trace::of_image(&self.classifier, picture, Path::new(name), &intervention)?;
        call.check()?;
        Ok(trace)
    }

    /// Memory of a pass that captures all attention, in bytes.
    fn pass_memory(&self) -> usize {
        let length = self.classifier.length();
        let heads: usize = self.sites().iter().map(|group| group.n_layers * group.heads.n_heads).sum();
        let layers: usize = self.sites().iter().map(|group| group.n_layers).sum();
        let width = self.classifier.model().config().d_model * size_of::<f32>();
        heads * length * length * WEIGHT_MEMORY + length * width * LAYER_OUTPUTS * (layers + 1)
    }
}
