//! The encoder of images: patches and learned tokens → linear projection, positions → encoder stack. Image classifiers and
//! captioners share it.

use polyhead_attention::layers::Linear;
use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Mask, Pass, SiteGroup};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Init, ParameterId, Var};

use super::positions::interpolation;
use super::{ImageTokens, Images};
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
    fn length(&self) -> usize {
        self.tokens.names().len() + self.grid[0] * self.grid[1]
    }
}

/// The encoder of images.
#[derive(Debug, Clone)]
pub(crate) struct PatchEncoder {
    options: PatchOptions,
    patches: Linear,
    /// The learned tokens, 1 × d_model each.
    tokens: Vec<ParameterId>,
    positions: Learned,
    stack: Stack,
}

impl PatchEncoder {
    /// Declares the projection, the learned tokens, the positions and the stack.
    pub(crate) fn new(builder: &mut Builder<'_>, options: &PatchOptions) -> Result<Self> {
        let &PatchOptions { channels, patch_size, sizes, layer, .. } = options;
        let (d_model, length) = (layer.d_model, options.length());
        let width = channels * patch_size * patch_size;
        let patches = Linear::new(&mut builder.at("patches"), width, d_model);
        let mut tokens = builder.at("tokens");
        let names = options.tokens.names().iter();
        let tokens = names.map(|name| tokens.declare(name, &[1, d_model], Init::Normal(0.02))).collect();
        let mut encoder = builder.at("encoder");
        let deviation = options.position_deviation;
        let positions = Learned::with_deviation(&mut encoder.at("positions"), length, d_model, deviation);
        let stack = StackOptions {
            kind: ENCODER,
            sizes,
            layer: LayerOptions { max_len: length, ..layer },
            mask: Mask::full(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let stack = Stack::new(&mut encoder, &stack)?;
        Ok(Self { options: *options, patches, tokens, positions, stack })
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
        [height, width]: [usize; 2],
    ) -> Images {
        let PatchOptions { channels, patch_size, .. } = self.options;
        Images::new(rows, [channels, height, width], patch_size, self.tokens.len())
    }

    /// The states of the last layer after the final norm: rows × (tokens + patches) × d_model.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn forward(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let mut x = self.patches.forward(pass, &Var::constant(images.patches()))?;
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
