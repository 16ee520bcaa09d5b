//! The config of a Vision Transformer.

use polyhead_attention::layers::Bias;
use polyhead_attention::multi_head::ProjectionBiases;
use polyhead_tensor::ops::linear::Activation;
use serde::{Deserialize, Serialize};

use super::patches::PatchOptions;
use crate::transformer::config::{
    AttentionPattern, Dropout, NormOrder, PositionConfig, StackConfig, activation_name,
};
use crate::transformer::describe::stack;
use crate::transformer::stack::LayerOptions;
use crate::transformer::validate;
use crate::{Error, Result};

/// Learned tokens before the patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageTokens {
    /// None.
    None,
    /// The class token.
    #[default]
    Class,
    /// The class token and the distillation token (Touvron et al. 2021).
    Distilled,
}

/// How pixels become the vectors of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageStem {
    /// A projection of each patch.
    #[default]
    Projection,
    /// Convolutions with kernels of 3 × 3 and strides of 2, each with GELU and a norm, as many as halve the patch to a pixel; their
    /// widths double up to `d_model` (Xiao et al. 2021, "Early Convolutions Help Transformers See Better").
    Convolutions,
}

impl ImageStem {
    /// What is wrong with a patch size.
    pub(crate) fn problem(self, patch_size: usize) -> Option<String> {
        let fits = self == Self::Projection || (patch_size >= 2 && patch_size.is_power_of_two());
        (!fits)
            .then(|| format!("patch_size is {patch_size} with stem = \"convolutions\", expected 2, 4, 8, …"))
    }
}

impl ImageTokens {
    /// Their names in files.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Class => &["class"],
            Self::Distilled => &["class", "distillation"],
        }
    }
}

/// The states that the class scores are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImagePooling {
    /// The state of the class token.
    #[default]
    First,
    /// The mean over the patches.
    Mean,
    /// The states of the class token and of the distillation token, each with a linear layer; the scores are the mean of both.
    Both,
}

/// The config of a Vision Transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VisionConfig {
    /// Width of the input and output of every layer; default: 768.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 12 layers, 12 heads, d_ff 3072.
    pub encoder: StackConfig,
    /// Added to the variance in norms; default: 1e-12.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: GELU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// True if the projections to queries, keys and values have biases; default: true.
    pub query_key_value_bias: bool,
    /// Height and width of a patch in pixels; default: 16.
    pub patch_size: usize,
    /// How pixels become the vectors of patches; default: a projection of each patch.
    pub stem: ImageStem,
    /// Height and width of an image in pixels, which give the number of positions.
    pub image_size: [usize; 2],
    /// Number of colour channels.
    pub channels: usize,
    /// Learned tokens before the patches; default: the class token.
    pub tokens: ImageTokens,
    /// The states that the class scores are computed from; default: that of the class token.
    pub pooling: ImagePooling,
    /// Probability that the last layer is skipped in training; that of earlier layers rises to it from 0 (stochastic depth, Huang
    /// et al. 2016); default: 0.
    pub stochastic_depth: f32,
    /// Dropout probabilities in training.
    pub dropout: Dropout,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for VisionConfig {
    fn default() -> Self {
        let ImageSpec { size, channels } = ImageSpec::default();
        Self {
            d_model: 768,
            encoder: StackConfig::new(12, 12, 3072),
            norm_epsilon: 1e-12,
            activation: Activation::Gelu,
            query_key_value_bias: true,
            patch_size: 16,
            stem: ImageStem::Projection,
            image_size: size,
            channels,
            tokens: ImageTokens::Class,
            pooling: ImagePooling::First,
            stochastic_depth: 0.0,
            dropout: Dropout { embedding: 0.0, residual: 0.0, attention: 0.0, activation: 0.0 },
            labels: Vec::new(),
        }
    }
}

/// What the training data determine of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSpec {
    /// Height and width in pixels.
    pub size: [usize; 2],
    /// Number of colour channels.
    pub channels: usize,
}

impl Default for ImageSpec {
    fn default() -> Self {
        Self { size: [224, 224], channels: 3 }
    }
}

impl VisionConfig {
    /// The preset called `name`: `tiny`, `small` and `base` have the sizes of DeiT's models.
    pub fn named(name: &str) -> Option<Self> {
        let of_size = |d_model, encoder| Self { d_model, encoder, norm_epsilon: 1e-6, ..Self::default() };
        match name {
            "small" => Some(of_size(384, StackConfig::new(12, 6, 1536))),
            "tiny" => Some(of_size(192, StackConfig::new(12, 3, 768))),
            "base" => Some(of_size(768, StackConfig::new(12, 12, 3072))),
            _ => None,
        }
    }

    /// Number of learned tokens before the patches.
    pub fn n_tokens(&self) -> usize {
        self.tokens.names().len()
    }

    /// Rows and columns of the patches of an image of the model's own size.
    pub fn grid(&self) -> [usize; 2] {
        self.image_size.map(|size| size / self.patch_size.max(1))
    }

    /// Number of positions: learned tokens and patches of an image of the model's own size.
    pub fn length(&self) -> usize {
        self.n_tokens() + self.grid()[0] * self.grid()[1]
    }

    /// Width of a patch: all its pixels in all channels.
    pub fn patch_width(&self) -> usize {
        self.channels * self.patch_size * self.patch_size
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let [height, width] = self.image_size;
        let sizes = [
            ("d_model", self.d_model),
            ("patch_size", self.patch_size),
            ("image_size[0]", height),
            ("image_size[1]", width),
            ("channels", self.channels),
            ("labels", self.labels.len()),
        ];
        for (name, value) in sizes {
            validate::size(name, value, &mut problems);
        }
        if problems.is_empty() {
            validate::size("patch_size² · channels", self.patch_width(), &mut problems);
            validate::size("the number of patches and tokens", self.length(), &mut problems);
        }
        if self.patch_size > height.min(width) {
            let size = self.patch_size;
            problems.push(format!("patch_size is {size}, but images are {width}×{height} pixels"));
        }
        if self.stem == ImageStem::Convolutions && (self.patch_size < 2 || !self.patch_size.is_power_of_two())
        {
            let size = self.patch_size;
            problems.push(format!("patch_size is {size} with stem = \"convolutions\", expected 2, 4, 8, …"));
        }
        match (self.pooling, self.tokens) {
            (ImagePooling::First, ImageTokens::None) => {
                problems.push("pooling is \"first\" without a class token, expected \"mean\"".to_owned());
            }
            (ImagePooling::Both, ImageTokens::None | ImageTokens::Class) => {
                problems.push("pooling is \"both\", which needs tokens = \"distilled\"".to_owned());
            }
            _ => {}
        }
        validate::dropout("stochastic_depth", self.stochastic_depth, &mut problems);
        validate::stack_options(
            ("encoder", &self.encoder),
            (self.d_model, self.length()),
            (self.norm_epsilon, PositionConfig::None {}, ("attention", &AttentionPattern::Full)),
            &self.dropout,
            &mut problems,
        );
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Options of the encoder.
    pub(super) fn patches(&self) -> PatchOptions {
        let query_key_value = if self.query_key_value_bias { Bias::Present } else { Bias::Absent };
        let layer = LayerOptions {
            d_model: self.d_model,
            norm_order: NormOrder::Pre,
            final_norm: true,
            norm_epsilon: self.norm_epsilon,
            activation: self.activation,
            biases: ProjectionBiases { query_key_value, ..ProjectionBiases::default() },
            dropout: self.dropout,
            stochastic_depth: self.stochastic_depth,
            ..LayerOptions::default()
        };
        PatchOptions {
            channels: self.channels,
            patch_size: self.patch_size,
            stem: self.stem,
            grid: self.grid(),
            tokens: self.tokens,
            sizes: self.encoder,
            layer,
            position_deviation: 0.02,
        }
    }

    /// Activations, in elements, that a training step stores per position.
    pub(crate) fn activation_elements(&self) -> usize {
        self.encoder.n_layers * (10 * self.d_model + 2 * self.encoder.d_ff)
            + self.patches().activation_elements()
    }

    /// The description, as (label, text).
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let [height, width] = self.image_size;
        let [rows, columns] = self.grid();
        let colour = if self.channels == 1 { "grey" } else { "colour" };
        let size = self.patch_size;
        let tokens = match self.tokens {
            ImageTokens::None => "none",
            ImageTokens::Class => "class token",
            ImageTokens::Distilled => "class token and distillation token",
        };
        let pooling = match self.pooling {
            ImagePooling::First => "the class token's state",
            ImagePooling::Mean => "the mean over all patches",
            ImagePooling::Both => "the states of both tokens, a linear layer each",
        };
        let shown: Vec<&str> = self.labels.iter().take(12).map(String::as_str).collect();
        let more = if self.labels.len() > 12 {
            format!(", … ({} labels)", self.labels.len())
        } else {
            String::new()
        };
        vec![
            ("images", format!("{width}×{height} pixels, {colour} ({} channels)", self.channels)),
            ("patches", format!("{columns}×{rows} of {size}×{size} pixels{}", self.patches().stem_text())),
            ("tokens", tokens.to_owned()),
            ("encoder", stack(self.encoder, self.d_model)),
            ("activation", self.activation.name().to_owned()),
            ("pooling", pooling.to_owned()),
            ("labels", format!("{}{more}", shown.join(", "))),
        ]
    }
}
