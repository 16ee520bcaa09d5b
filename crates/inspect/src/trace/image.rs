//! The trace of an image: its patches are the tokens.

use std::path::Path;

use polyhead_attention::Intervention;
use polyhead_engine::ImageClassifier;
use polyhead_engine::classify::Class;
use polyhead_engine::image::Picture;
use polyhead_text::tokenizer::Encoding;

use super::observe::weights_of;
use super::{Trace, TraceOutcome, TraceSide};
use crate::Result;
use crate::heat_map::{HeatMap, ValueRange};
use crate::matrix::Matrix;
use crate::rollout::Rollout;

/// Name of the sequence that the model reads.
const IMAGE: &str = "image";
/// Title of the rollout from the last layer to the patches.
pub(crate) const ROLLOUT: &str = "attention rollout";
/// Labels of the learned tokens before the patches.
const TOKENS: [&str; 2] = ["[CLS]", "[DIST]"];

/// The classes of an image, and the image as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageTrace {
    /// The image, resized and cropped.
    pub picture: Picture,
    /// Rows and columns of its patches.
    pub grid: [usize; 2],
    /// Number of learned tokens before the patches.
    pub tokens: usize,
    /// The classes, the most probable first.
    pub classes: Vec<Class>,
}

impl ImageTrace {
    /// What the class scores attend to, for each patch: the row of the class token, or without one the mean of all rows.
    pub fn of_patches(&self, weights: &Matrix) -> Vec<f32> {
        let n_patches = self.grid[0] * self.grid[1];
        let rows = if self.tokens > 0 { 1 } else { weights.n_rows() };
        let mut sums = vec![0.0; n_patches];
        for row in 0..rows {
            let patches = weights.row(row).iter().skip(self.tokens);
            sums.iter_mut().zip(patches).for_each(|(sum, weight)| *sum += weight / rows as f32);
        }
        sums
    }

    /// Heat-maps of tokens as heat-maps of patches in their places: the attention rollout, if there is one, and each of `maps`.
    pub fn grids(&self, maps: &[HeatMap], rollout: Option<Rollout>) -> Vec<HeatMap> {
        let grid = |title: String, weights: &Matrix| grid(title, self.grid, self.of_patches(weights));
        let rolled = rollout.and_then(|rollout| rollout.parts.into_iter().next());
        let rolled = rolled.map(|(_, weights)| grid(ROLLOUT.to_owned(), &weights));
        rolled.into_iter().chain(maps.iter().map(|map| grid(map.title.clone(), &map.numbers))).collect()
    }
}

/// Weights of patches in their places.
pub(super) fn grid(title: String, [rows, columns]: [usize; 2], weights: Vec<f32>) -> HeatMap {
    let labels = |count: usize| (0..count).map(|index| index.to_string()).collect();
    HeatMap {
        title,
        numbers: Matrix::new(columns, weights),
        rows: labels(rows),
        columns: labels(columns),
        range: ValueRange::Weights,
    }
}

impl Trace {
    /// The pass of an image; `name` is its name in labels.
    ///
    /// # Errors
    /// If the device fails.
    pub fn of_image(
        classifier: &ImageClassifier,
        picture: &Picture,
        name: &Path,
        intervention: &Intervention,
    ) -> Result<Self> {
        let found = classifier.attend(picture, Some(intervention))?;
        let trace = ImageTrace {
            picture: found.picture,
            grid: found.grid,
            tokens: found.tokens,
            classes: found.classes,
        };
        Ok(Self {
            sites: classifier.model().sites(),
            d_model: classifier.model().config().d_model,
            sides: vec![patch_side(trace.tokens, trace.grid, name)],
            outcome: TraceOutcome::Image(trace),
            attentions: weights_of(found.trace.weights),
            vectors: Vec::new(),
            intervention: intervention.clone(),
        })
    }

    /// The image and its classes, if the model is an image classifier.
    pub fn image(&self) -> Option<&ImageTrace> {
        match &self.outcome {
            TraceOutcome::Image(found) => Some(found),
            _ => None,
        }
    }
}

/// Learned tokens and patches, named by row and column; the text is the name of the image.
pub(super) fn patch_side(tokens: usize, grid: [usize; 2], name: &Path) -> TraceSide {
    let patches = (0..grid[0] * grid[1]).map(|patch| format!("{},{}", patch / grid[1], patch % grid[1]));
    let pieces: Vec<String> = TOKENS[..tokens].iter().map(|name| (*name).to_owned()).chain(patches).collect();
    let ids = (0..pieces.len() as u32).collect();
    let offsets = vec![0..0; pieces.len()];
    TraceSide::new(IMAGE, &name.display().to_string(), Encoding { ids, pieces, offsets })
}
