//! The sizes and choices of an encoder-decoder Transformer.
//!
//! The defaults are those of Vaswani et al. 2017 (`base`): post-norm, ReLU, sinusoidal positions, all embeddings tied.
//!
//! ```
//! use polyhead_models::transformer::TransformerConfig;
//! let config = TransformerConfig { final_norm: true, ..TransformerConfig::base(37_000) };
//! assert_eq!((config.d_model, config.encoder.n_heads), (512, 8));
//! ```

use polyhead_attention::Mask;
use polyhead_attention::multi_head::HeadShape;
use polyhead_tensor::ops::linear::Activation;
use serde::{Deserialize, Serialize};

/// Sizes of one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackConfig {
    /// Layers; 6.
    pub n_layers: usize,
    /// Attention heads of each layer; 8.
    pub n_heads: usize,
    /// Width inside the feed-forward layers; 2048.
    pub d_ff: usize,
    /// Heads of keys and values, each shared by several query heads (Ainslie et al. 2023); as many as heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_key_heads: Option<usize>,
    /// Width of a head's queries and keys; d_model / n_heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Width of a head's values; d_model / n_heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
}

impl StackConfig {
    /// Its heads in a model of that width.
    pub fn heads(self, d_model: usize) -> HeadShape {
        HeadShape {
            d_model,
            n_heads: self.n_heads,
            n_key_heads: self.n_key_heads.unwrap_or(self.n_heads),
            d_key: self.d_key.unwrap_or(d_model / self.n_heads.max(1)),
            d_value: self.d_value.unwrap_or(d_model / self.n_heads.max(1)),
        }
    }

    /// A stack with heads that share d_model evenly.
    pub const fn new(n_layers: usize, n_heads: usize, d_ff: usize) -> Self {
        Self { n_layers, n_heads, d_ff, n_key_heads: None, d_key: None, d_value: None }
    }
}

/// Where the norms stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormOrder {
    /// After the residual sum, as in the paper: LayerNorm(x + f(x)).
    #[default]
    Post,
    /// Before the sub-layer: x + f(LayerNorm(x)) (Wang et al. 2019, Xiong et al. 2020).
    Pre,
}

/// Which embeddings are one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tie {
    /// Source, target and output have one each.
    None,
    /// Target and output share one (Press & Wolf 2017).
    TargetOutput,
    /// Source and target share one, the output has its own.
    SourceTarget,
    /// All three share one, as in the paper.
    #[default]
    All,
}

/// Where the decoder's cross-attention takes its keys and values from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossProjection {
    /// Each layer projects the encoder's output itself.
    #[default]
    PerLayer,
    /// One projection is shared by all layers.
    Shared,
}

/// How the model knows the order of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PositionConfig {
    /// It does not.
    None {},
    /// Sines and cosines added to the embeddings (Vaswani et al. 2017).
    Sinusoidal {
        /// In which order they stand.
        layout: SinusoidalLayout,
    },
    /// A learned vector for each of max_len positions, added to the embeddings.
    Learned {},
    /// Learned vectors for distances, added to keys and values of self-attention (Shaw et al. 2018).
    Relative {
        /// Distances beyond this count as this.
        max_distance: usize,
    },
    /// Queries and keys of self-attention turned by their position (Su et al. 2021).
    Rotary {
        /// The slowest pair turns about base times slower than the fastest.
        base: f32,
        /// Which numbers form a pair.
        pairing: RotaryPairing,
    },
}

/// In which order sines and cosines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinusoidalLayout {
    /// sin, cos, sin, cos, …
    Interleaved,
    /// All sines, then all cosines.
    Concatenated,
    /// As concatenated, with fairseq's frequencies and positions that count from the padding id + 1.
    Fairseq,
}

/// Which numbers of a head form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotaryPairing {
    /// Neighbours, as in the paper.
    Interleaved,
    /// i and i + d_head/2, as in Hugging Face's models.
    Halves,
}

/// Which tokens self-attention sees, besides padding and the future.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Sight {
    /// All.
    #[default]
    Full,
    /// Those at most so far away (Beltagy et al. 2020).
    Window {
        /// The largest distance.
        distance: usize,
    },
    /// Every `dilation`-th token, `distance` of them to each side.
    Dilated {
        /// How many to each side.
        distance: usize,
        /// From one to the next.
        dilation: usize,
    },
    /// A window, and some positions that see all and are seen by all.
    GlobalWindow {
        /// The largest distance.
        distance: usize,
        /// These positions.
        global: Vec<usize>,
    },
}

impl Sight {
    /// The same as a mask.
    pub(crate) fn mask(&self) -> Mask {
        match self {
            Self::Full => Mask::full(),
            Self::Window { distance } => Mask::window(*distance),
            Self::Dilated { distance, dilation } => Mask::dilated(*distance, *dilation),
            Self::GlobalWindow { distance, global } => {
                Mask::window(*distance).or(Mask::global(global.clone()))
            }
        }
    }
}

/// Probabilities of dropping numbers in training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dropout {
    /// The embeddings with their positions.
    pub embedding: f32,
    /// The output of each sub-layer before it meets the residual.
    pub residual: f32,
    /// Attention weights.
    pub attention: f32,
    /// After the activation of the feed-forward layers.
    pub activation: f32,
}

impl Default for Dropout {
    fn default() -> Self {
        Self { embedding: 0.1, residual: 0.1, attention: 0.0, activation: 0.0 }
    }
}

/// An encoder-decoder Transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransformerConfig {
    /// Ids of the source.
    pub source_vocab_size: usize,
    /// Ids of the target.
    pub target_vocab_size: usize,
    /// Width of every layer's input and output; 512.
    pub d_model: usize,
    /// The layers that read.
    pub encoder: StackConfig,
    /// The layers that write.
    pub decoder: StackConfig,
    /// Where the norms stand; after the residual sum.
    pub norm_order: NormOrder,
    /// Whether each stack ends with a norm of its own; it does not. Pre-norm stacks want it.
    pub final_norm: bool,
    /// Added to the variance in norms; 1e-5.
    pub norm_epsilon: f32,
    /// Between the two products of a feed-forward layer; ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// How the order of tokens is known; sines then cosines.
    pub position: PositionConfig,
    /// What self-attention of the encoder sees; everything.
    pub encoder_sight: Sight,
    /// What self-attention of the decoder sees of the past; everything.
    pub decoder_sight: Sight,
    /// Where cross-attention takes keys and values from; each layer's own projection.
    pub cross_projection: CrossProjection,
    /// Which embeddings are one table; all.
    pub tie: Tie,
    /// Whether embeddings are multiplied with √d_model; they are.
    pub scale_embedding: bool,
    /// Whether something is added to the logits; nothing is.
    pub output_bias: bool,
    /// Most tokens of a sentence that learned positions suffice for, and the longest expected; 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id that ends a sentence.
    pub end_id: u32,
    /// Id that the decoder starts from.
    pub start_id: u32,
    /// What is dropped in training.
    pub dropout: Dropout,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self {
            source_vocab_size: 0,
            target_vocab_size: 0,
            d_model: 512,
            encoder: StackConfig::new(6, 8, 2048),
            decoder: StackConfig::new(6, 8, 2048),
            norm_order: NormOrder::Post,
            final_norm: false,
            norm_epsilon: 1e-5,
            activation: Activation::Relu,
            position: PositionConfig::Sinusoidal { layout: SinusoidalLayout::Concatenated },
            encoder_sight: Sight::Full,
            decoder_sight: Sight::Full,
            cross_projection: CrossProjection::PerLayer,
            tie: Tie::All,
            scale_embedding: true,
            output_bias: false,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            dropout: Dropout::default(),
        }
    }
}

impl TransformerConfig {
    /// Layers 3 + 3, d_model 128, 4 heads, d_ff 512: for tests and very small corpora.
    pub fn tiny(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 128, StackConfig::new(3, 4, 512))
    }

    /// Layers 3 + 3, d_model 256, 4 heads, d_ff 1024: for corpora of some ten thousand pairs.
    pub fn small(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 256, StackConfig::new(3, 4, 1024))
    }

    /// The paper's base model: layers 6 + 6, d_model 512, 8 heads, d_ff 2048.
    ///
    /// At 37,000 shared pieces it has 63.1 million parameters, counted with all biases and norms. The paper prints 65
    /// million; no counting of the published sizes gives that number.
    pub fn base(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 512, StackConfig::new(6, 8, 2048))
    }

    /// The paper's big model: layers 6 + 6, d_model 1024, 16 heads, d_ff 4096.
    ///
    /// At 37,000 shared pieces it has 214.2 million parameters; the paper prints 213 million.
    pub fn big(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 1024, StackConfig::new(6, 16, 4096))
    }

    /// The decoder layer whose cross-attention, averaged over its heads, agrees best with human word alignments: the last
    /// but one (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models"), or the last of two, where
    /// the first has seen too little of the sentence.
    ///
    /// ```
    /// # use polyhead_models::transformer::{TransformerConfig, config::StackConfig};
    /// let layer = |n_layers| {
    ///     let decoder = StackConfig::new(n_layers, 4, 512);
    ///     TransformerConfig { decoder, ..TransformerConfig::tiny(100) }.alignment_layer()
    /// };
    /// assert_eq!([1, 2, 3, 6].map(layer), [0, 1, 1, 4]);
    /// ```
    pub fn alignment_layer(&self) -> usize {
        let n_layers = self.decoder.n_layers;
        n_layers.saturating_sub(if n_layers > 2 { 2 } else { 1 })
    }

    /// The preset called `name`.
    pub fn named(name: &str, vocab_size: usize) -> Option<Self> {
        match name {
            "tiny" => Some(Self::tiny(vocab_size)),
            "small" => Some(Self::small(vocab_size)),
            "base" => Some(Self::base(vocab_size)),
            "big" => Some(Self::big(vocab_size)),
            _ => None,
        }
    }

    fn preset(vocab_size: usize, d_model: usize, stack: StackConfig) -> Self {
        Self {
            source_vocab_size: vocab_size,
            target_vocab_size: vocab_size,
            d_model,
            encoder: stack,
            decoder: stack,
            ..Self::default()
        }
    }
}

/// Activations are written by name.
pub(crate) mod activation_name {
    use polyhead_tensor::ops::linear::Activation;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn serialize<S: Serializer>(
        activation: &Activation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(activation.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Activation, D::Error> {
        let name = String::deserialize(deserializer)?;
        Activation::from_name(&name).ok_or_else(|| {
            let known: Vec<&str> = Activation::names().collect();
            serde::de::Error::custom(format!("activation {name:?}, expected one of {}", known.join(", ")))
        })
    }
}
