//! The config of a captioner.

use polyhead_tensor::ops::linear::Activation;
use serde::{Deserialize, Serialize};

use crate::transformer::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, SinusoidalLayout, StackConfig, activation_name,
};
use crate::transformer::describe::stack;
use crate::transformer::stack::LayerOptions;
use crate::transformer::validate::{size, stack_options, token};
use crate::vision::patches::PatchOptions;
use crate::vision::{ImageSpec, ImageStem, ImageTokens};
use crate::{Error, Result};

/// Standard deviation of the initial positions of patches. It is that of the projected patches: captions say where things are, and
/// positions that begin far smaller are learned long after colours and shapes.
const POSITION_DEVIATION: f32 = 0.5;

/// The config of a captioner: a pre-norm encoder over patches and a pre-norm decoder with tied embeddings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaptionConfig {
    /// Size of the vocabulary of texts.
    pub vocab_size: usize,
    /// Width of the input and output of every layer; default: 256.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 6 layers, 4 heads, d_ff 1024.
    pub encoder: StackConfig,
    /// Sizes of the decoder stack; default: 3 layers, 4 heads, d_ff 1024.
    pub decoder: StackConfig,
    /// Height and width of a patch in pixels; default: 16.
    pub patch_size: usize,
    /// How pixels become the vectors of patches; default: a projection of each patch.
    pub stem: ImageStem,
    /// Height and width of an image in pixels, which give the number of positions.
    pub image_size: [usize; 2],
    /// Number of colour channels.
    pub channels: usize,
    /// Positions of the text; default: sinusoidal. Those of patches are learned.
    pub position: PositionConfig,
    /// Added to the variance in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: GELU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Longest text in tokens; default: 128.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id of the end token.
    pub end_id: u32,
    /// Id of the token that decoding starts from.
    pub start_id: u32,
    /// Dropout probabilities in training.
    pub dropout: Dropout,
}

impl Default for CaptionConfig {
    fn default() -> Self {
        let ImageSpec { size, channels } = ImageSpec::default();
        Self {
            vocab_size: 0,
            d_model: 256,
            encoder: StackConfig::new(6, 4, 1024),
            decoder: StackConfig::new(3, 4, 1024),
            patch_size: 16,
            stem: ImageStem::Projection,
            image_size: size,
            channels,
            position: PositionConfig::Sinusoidal { layout: SinusoidalLayout::Concatenated },
            norm_epsilon: 1e-5,
            activation: Activation::Gelu,
            max_len: 128,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            dropout: Dropout::default(),
        }
    }
}

impl CaptionConfig {
    /// The preset called `name`.
    pub fn named(name: &str) -> Option<Self> {
        let (d_model, encoder, decoder) = match name {
            "tiny" => (128, StackConfig::new(3, 4, 512), StackConfig::new(2, 4, 512)),
            "small" => return Some(Self::default()),
            "base" => (512, StackConfig::new(12, 8, 2048), StackConfig::new(6, 8, 2048)),
            _ => return None,
        };
        Some(Self { d_model, encoder, decoder, ..Self::default() })
    }

    /// Rows and columns of the patches of an image of the model's own size.
    pub fn grid(&self) -> [usize; 2] {
        self.image_size.map(|size| size / self.patch_size.max(1))
    }

    /// Number of patches of an image of the model's own size.
    pub fn n_patches(&self) -> usize {
        self.grid()[0] * self.grid()[1]
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let [height, width] = self.image_size;
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("max_len", self.max_len),
            ("patch_size", self.patch_size),
            ("image_size[0]", height),
            ("image_size[1]", width),
            ("channels", self.channels),
        ];
        for (name, value) in sizes {
            size(name, value, &mut problems);
        }
        if problems.is_empty() {
            size("patch_size² · channels", self.channels * self.patch_size * self.patch_size, &mut problems);
        }
        if self.patch_size > height.min(width) {
            let size = self.patch_size;
            problems.push(format!("patch_size is {size}, but images are {width}×{height} pixels"));
        }
        problems.extend(self.stem.problem(self.patch_size));
        let ids = [("pad_id", self.pad_id), ("end_id", self.end_id), ("start_id", self.start_id)];
        for (name, id) in ids {
            token(name, id, self.vocab_size, &mut problems);
        }
        let stacks = [
            ("encoder", &self.encoder, PositionConfig::None {}, self.n_patches()),
            ("decoder", &self.decoder, self.position, self.max_len),
        ];
        for (name, stack, position, max_len) in stacks {
            let full = ("attention", &AttentionPattern::Full);
            let options = (self.norm_epsilon, position, full);
            stack_options((name, stack), (self.d_model, max_len), options, &self.dropout, &mut problems);
        }
        if !matches!(self.position, PositionConfig::Learned {} | PositionConfig::Sinusoidal { .. }) {
            problems.push("position: other than learned or sinusoidal".to_owned());
        }
        problems.dedup();
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Options of the layers of both stacks.
    pub(super) fn layer(&self) -> LayerOptions {
        LayerOptions {
            d_model: self.d_model,
            norm_order: NormOrder::Pre,
            final_norm: true,
            norm_epsilon: self.norm_epsilon,
            activation: self.activation,
            dropout: self.dropout,
            ..LayerOptions::default()
        }
    }

    /// Options of the encoder.
    pub(super) fn patches(&self) -> PatchOptions {
        PatchOptions {
            channels: self.channels,
            patch_size: self.patch_size,
            stem: self.stem,
            grid: self.grid(),
            tokens: ImageTokens::None,
            sizes: self.encoder,
            layer: self.layer(),
            position_deviation: POSITION_DEVIATION,
        }
    }

    /// Elements of the K/V cache per target token and per patch.
    pub(crate) fn cache_elements(&self) -> [usize; 2] {
        let heads = self.decoder.heads(self.d_model);
        [self.decoder.n_layers * heads.n_key_heads * (heads.d_key + heads.d_value); 2]
    }

    /// Activations, in elements, that a training step stores per patch and per target token.
    pub(crate) fn activation_elements(&self) -> [usize; 2] {
        let of = |stack: StackConfig, width: usize| stack.n_layers * (width * self.d_model + 2 * stack.d_ff);
        [
            of(self.encoder, 10) + self.patches().activation_elements(),
            of(self.decoder, 16) + 2 * self.vocab_size,
        ]
    }

    /// The description, as (label, text).
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let [height, width] = self.image_size;
        let [rows, columns] = self.grid();
        let colour = if self.channels == 1 { "grey" } else { "colour" };
        let size = self.patch_size;
        vec![
            ("images", format!("{width}×{height} pixels, {colour} ({} channels)", self.channels)),
            ("patches", format!("{columns}×{rows} of {size}×{size} pixels{}", self.patches().stem_text())),
            ("encoder", stack(self.encoder, self.d_model)),
            ("decoder", stack(self.decoder, self.d_model)),
            ("activation", self.activation.name().to_owned()),
            ("vocabulary", format!("{} ids", self.vocab_size)),
            ("max length", format!("{} tokens", self.max_len)),
        ]
    }
}
