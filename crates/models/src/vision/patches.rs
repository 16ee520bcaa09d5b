//! The encoder of images: patches and learned tokens → linear projection, positions → encoder stack. Image classifiers and
//! captioners share it.

use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Mask, Pass, SiteGroup};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Init, ParameterId, Var};

use super::positions::interpolation;
use super::stem::Stem;
use super::{ImageStem, ImageTokens, Images};
use crate::Result;
use crate::transformer::config::StackConfig;
use crate::transformer::stack::{LayerOptions, SpecialLayers, Stack, StackOptions};

/// Self-attention over learned tokens and patches.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "image");

/// Options of an encoder of images.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatchOptions {
    /// Number of colour channels.
    pub(crate) channels: usize,
    /// Height and width of a patch in pixels.
    pub(crate) patch_size: usize,
    /// How pixels become the vectors of patches.
    pub(crate) stem: ImageStem,
    /// Rows and columns of the patches that have a position.
    pub(crate) grid: [usize; 2],
    /// Learned tokens before the patches.
    pub(crate) tokens: ImageTokens,
    /// Sizes of the stack.
    pub(crate) sizes: StackConfig,
    /// Width, norms, activation and dropout of the layers.
    pub(crate) layer: LayerOptions,
    /// Standard deviation of the initial positions.
    pub(crate) position_deviation: f32,
}

impl PatchOptions {
    /// Inputs and outputs of each convolution of the stem.
    pub(super) fn convolutions(&self) -> Vec<[usize; 2]> {
        let count = match self.stem {
            ImageStem::Projection => 0,
            ImageStem::Convolutions => self.patch_size.max(1).ilog2(),
        };
        let width = |level: u32| (self.layer.d_model >> (count - level)).max(1);
        (0..count)
            .map(|level| [if level == 0 { self.channels } else { width(level) }, width(level + 1)])
            .collect()
    }

    /// Width of what is projected to the vector of a patch: the last convolution's output, or the patch.
    pub(super) fn projected_width(&self) -> usize {
        let patch = self.channels * self.patch_size * self.patch_size;
        self.convolutions().last().map_or(patch, |[_, outputs]| *outputs)
    }

    /// Activations of the stem, in elements, that a training step stores per patch.
    pub(crate) fn activation_elements(&self) -> usize {
        // Of the outputs of convolution i of n, 4^(n − 1 − i) belong to a patch: nine inputs each, and what GELU and the norm store.
        let levels = self.convolutions().into_iter().rev().zip(0..);
        let convolutions = levels.map(|([inputs, outputs], level)| (9 * inputs + 3 * outputs) << (2 * level));
        2 * self.channels * self.patch_size * self.patch_size + convolutions.sum::<usize>()
    }

    /// The stem as the end of a description of patches.
    pub(crate) fn stem_text(&self) -> String {
        match self.convolutions().len() {
            0 => String::new(),
            count => format!(", from {count} convolutions"),
        }
    }

    fn length(&self) -> usize {
        self.tokens.names().len() + self.grid[0] * self.grid[1]
    }
}

/// The encoder of images.
#[derive(Debug, Clone)]
pub(crate) struct PatchEncoder {
    options: PatchOptions,
    stem: Stem,
    /// The learned tokens, 1 × d_model each.
    tokens: Vec<ParameterId>,
    positions: Learned,
    stack: Stack,
}

impl PatchEncoder {
    /// Declares the projection, the learned tokens, the positions and the stack.
    pub(crate) fn new(builder: &mut Builder<'_>, options: &PatchOptions) -> Result<Self> {
        let &PatchOptions { sizes, layer, .. } = options;
        let (d_model, length) = (layer.d_model, options.length());
        let stem = Stem::new(builder, options);
        let mut tokens = builder.at("tokens");
        let names = options.tokens.names().iter();
        let tokens = names.map(|name| tokens.declare(name, &[1, d_model], Init::Normal(0.02))).collect();
        let mut encoder = builder.at("encoder");
        let deviation = options.position_deviation;
        let positions = Learned::with_deviation(&mut encoder.at("positions"), length, d_model, deviation);
        let stack_options = StackOptions {
            kind: ENCODER,
            sizes,
            layer: LayerOptions { max_len: length, ..layer },
            mask: Mask::full(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let stack = Stack::new(&mut encoder, &stack_options)?;
        Ok(Self { options: *options, stem, tokens, positions, stack })
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.stack.sites()
    }

    /// A batch of images of one size (channels × height × width, normalised); `None` is a padding row.
    ///
    /// # Panics
    /// If an image has another size.
    pub(crate) fn images<'a>(
        &self,
        rows: impl Iterator<Item = Option<&'a [f32]>>,
        size: [usize; 2],
    ) -> Images {
        Images::new(rows, size, &self.options)
    }

    /// The states of the last layer after the final norm: rows × (tokens + patches) × d_model.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn forward(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let mut x = self.stem.forward(pass, images)?;
        if !self.tokens.is_empty() {
            let all: Vec<Var> = self.tokens.iter().map(|id| pass.parameter(*id)).collect();
            let table = concat(pass.tape, &all.iter().collect::<Vec<_>>(), 0)?;
            let options = EmbeddingOptions::default();
            let tokens = embedding(pass.tape, images.tokens(), self.tokens.len(), &table, &options)?;
            x = concat(pass.tape, &[&tokens, &x], 1)?;
        }
        x = if images.grid() == self.options.grid {
            self.positions.add(pass, &x, 0)?
        } else {
            add(pass.tape, &x, &self.interpolated(pass, images.grid())?)?
        };
        let x = dropout(pass.tape, &x, self.options.layer.dropout.embedding)?;
        pass.capture.activation(|| format!("{}.embedding", ENCODER.stack), &x);
        Ok(self.stack.forward(pass, x, None, None)?)
    }

    /// The positions of learned tokens and of a grid of another size.
    fn interpolated(&self, pass: &Pass<'_>, grid: [usize; 2]) -> Result<Var> {
        let table = pass.parameter(self.positions.weight());
        let n_tokens = self.tokens.len();
        let matrix = interpolation(self.options.grid, grid).to_device(&pass.parameters.device())?;
        let patches = slice(pass.tape, &table, 0, n_tokens..self.options.length())?;
        let patches = matmul(pass.tape, &Var::constant(matrix), &patches, MatmulOptions::default())?;
        if n_tokens == 0 {
            return Ok(patches);
        }
        let tokens = slice(pass.tape, &table, 0, 0..n_tokens)?;
        Ok(concat(pass.tape, &[&tokens, &patches], 0)?)
    }
}
