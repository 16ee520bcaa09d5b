//! The config of an encoder-decoder Transformer.
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

use crate::copying::Copying;

/// Sizes of one stack of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackConfig {
    /// Number of layers; default: 6.
    pub n_layers: usize,
    /// Number of attention heads of each layer; default: 8.
    pub n_heads: usize,
    /// Width of the hidden layer of each feed-forward layer; default: 2048.
    pub d_ff: usize,
    /// Number of key/value heads, each shared by several query heads (Ainslie et al. 2023); default: `n_heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_key_heads: Option<usize>,
    /// Width of a head's queries and keys; default: d_model / n_heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_key: Option<usize>,
    /// Width of a head's values; default: d_model / n_heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d_value: Option<usize>,
}

impl StackConfig {
    /// Sizes of the heads in a model of width `d_model`.
    pub fn heads(self, d_model: usize) -> HeadShape {
        HeadShape {
            d_model,
            n_heads: self.n_heads,
            n_key_heads: self.n_key_heads.unwrap_or(self.n_heads),
            d_key: self.d_key.unwrap_or(d_model / self.n_heads.max(1)),
            d_value: self.d_value.unwrap_or(d_model / self.n_heads.max(1)),
        }
    }

    /// A stack with heads of width d_model / n_heads.
    pub const fn new(n_layers: usize, n_heads: usize, d_ff: usize) -> Self {
        Self { n_layers, n_heads, d_ff, n_key_heads: None, d_key: None, d_value: None }
    }
}

/// The position of the layer norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormOrder {
    /// After the residual sum, as in the paper: LayerNorm(x + f(x)).
    #[default]
    Post,
    /// Before the sub-layer: x + f(LayerNorm(x)) (Wang et al. 2019, Xiong et al. 2020).
    Pre,
}

/// The embedding tables that are tied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tie {
    /// Source, target and output have a table each.
    None,
    /// Target and output share a table (Press & Wolf 2017).
    TargetOutput,
    /// Source and target share a table, the output has its own.
    SourceTarget,
    /// All three share one table, as in the paper.
    #[default]
    All,
}

/// The projection of the encoder's output to keys and values of the cross-attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrossProjection {
    /// Each layer has its own projection.
    #[default]
    PerLayer,
    /// One projection is shared by all layers.
    Shared,
}

/// How the attentions to several sources are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combination {
    /// One softmax over the tokens of all sources, with a projection for each (Libovický & Helcl 2017).
    #[default]
    Flat,
    /// An attention to each source, and a second one to their contexts (Libovický & Helcl 2017).
    Hierarchical,
    /// An attention to each source, whose contexts are added.
    Parallel,
    /// An attention to each source, one after the other, each with a residual connection of its own.
    Serial,
}

/// The positional encoding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PositionConfig {
    /// None: the model does not see the order of tokens.
    None {},
    /// Sines and cosines added to the embeddings (Vaswani et al. 2017).
    Sinusoidal {
        /// The order of sines and cosines.
        layout: SinusoidalLayout,
    },
    /// A learned vector for each of max_len positions, added to the embeddings.
    Learned {},
    /// Learned vectors for distances, added to keys and values of self-attention (Shaw et al. 2018).
    Relative {
        /// Larger distances are clipped to this.
        max_distance: usize,
    },
    /// Queries and keys of self-attention rotated by their positions (Su et al. 2021).
    Rotary {
        /// The slowest pair rotates about `base` times slower than the fastest.
        base: f32,
        /// The components that form a pair.
        pairing: RotaryPairing,
        /// Scaling for texts longer than in the first training; default: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scaling: Option<RotaryScale>,
    },
}

/// Scaling of rotary positions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RotaryScale {
    /// All angles are divided by `factor`.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// The rule of Llama 3: slow pairs are divided by `factor`, fast ones are not.
    Llama3 {
        /// The divisor of slow pairs.
        factor: f32,
        /// Turns over the original positions up to which a pair is slow.
        low: f32,
        /// Turns over the original positions from which a pair is fast.
        high: f32,
        /// Positions of the first training.
        original: usize,
    },
    /// YaRN (Peng et al. 2023): the same, interpolated by the index of the pair.
    Yarn {
        /// The divisor of slow pairs.
        factor: f32,
        /// Turns over the original positions from which a pair is fast.
        fast: f32,
        /// Turns over the original positions up to which a pair is slow.
        slow: f32,
        /// Positions of the first training.
        original: usize,
        /// Factor of the rotated queries and keys.
        attention: f32,
    },
}

/// The order of sines and cosines in a sinusoidal position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinusoidalLayout {
    /// sin, cos, sin, cos, …
    Interleaved,
    /// All sines, then all cosines.
    Concatenated,
    /// Same as concatenated, with fairseq's frequencies and positions counted from the padding id + 1.
    Fairseq,
}

/// The components of a head that form a rotary pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotaryPairing {
    /// Neighbours, as in the paper.
    Interleaved,
    /// i and i + d_head/2, as in Hugging Face's models.
    Halves,
}

/// The pattern of self-attention: the tokens that a token attends to, apart from padding and causal masks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AttentionPattern {
    /// Full attention: all tokens.
    #[default]
    Full,
    /// A sliding window of `distance` tokens to each side (Beltagy et al. 2020).
    Window {
        /// The largest distance.
        distance: usize,
    },
    /// Every `dilation`-th token, `distance` of them to each side.
    Dilated {
        /// Number of tokens to each side.
        distance: usize,
        /// Distance between neighbouring tokens.
        dilation: usize,
    },
    /// A sliding window, and global positions that attend to all and are attended to by all.
    GlobalWindow {
        /// The largest distance.
        distance: usize,
        /// The global positions.
        global: Vec<usize>,
    },
}

impl AttentionPattern {
    /// The pattern as a mask.
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

/// Dropout probabilities in training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dropout {
    /// Embeddings plus positions; default: 0.1.
    pub embedding: f32,
    /// The output of each sub-layer, before the residual sum; default: 0.1.
    pub residual: f32,
    /// Attention weights; default: 0.
    pub attention: f32,
    /// The hidden layer of the feed-forward layers; default: 0.
    pub activation: f32,
}

impl Default for Dropout {
    fn default() -> Self {
        Self { embedding: 0.1, residual: 0.1, attention: 0.0, activation: 0.0 }
    }
}

/// The config of an encoder-decoder Transformer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a recipe, each with its own default")]
pub struct TransformerConfig {
    /// Size of the source vocabulary.
    pub source_vocab_size: usize,
    /// Size of the target vocabulary.
    pub target_vocab_size: usize,
    /// Width of the input and output of every layer; default: 512.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 6 layers, 8 heads, d_ff 2048.
    pub encoder: StackConfig,
    /// Sizes of the decoder stack; default: 6 layers, 8 heads, d_ff 2048.
    pub decoder: StackConfig,
    /// Position of the norms; default: post-norm.
    pub norm_order: NormOrder,
    /// True if each stack ends with a final norm, as pre-norm stacks should; default: false.
    pub final_norm: bool,
    /// Added to the variance in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Positional encoding; default: sinusoidal, all sines first.
    pub position: PositionConfig,
    /// Pattern of the encoder's self-attention; default: full attention.
    pub encoder_sight: AttentionPattern,
    /// Pattern of the decoder's causal self-attention; default: full attention.
    pub decoder_sight: AttentionPattern,
    /// Projection of keys and values for cross-attention; default: one per layer.
    pub cross_projection: CrossProjection,
    /// Number of sources that are read together, 1 to 4; default: 1.
    pub sources: usize,
    /// How the attentions to several sources are combined: `flat`, `hierarchical`, `parallel` or `serial`; default: `flat`.
    pub combination: Combination,
    /// True if several sources are read by one encoder instead of one for each; default: false.
    pub shared_encoder: bool,
    /// Tied embedding tables; default: all.
    pub tie: Tie,
    /// True if embeddings are multiplied by √d_model; default: true.
    pub scale_embedding: bool,
    /// True if the output layer has a bias; default: false.
    pub output_bias: bool,
    /// Longest sentence in tokens, and the number of learned positions; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id of the end token.
    pub end_id: u32,
    /// Id of the token that decoding starts from.
    pub start_id: u32,
    /// Copying of source words: `none` or `pointer_generator`; default: `none`.
    pub copy: Copying,
    /// Weight of the coverage loss of the copy head; default: 0.
    pub coverage: f32,
    /// Id of words that the vocabulary lacks, used in copying.
    pub unknown_id: u32,
    /// Dropout probabilities in training.
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
            encoder_sight: AttentionPattern::Full,
            decoder_sight: AttentionPattern::Full,
            cross_projection: CrossProjection::PerLayer,
            sources: 1,
            combination: Combination::Flat,
            shared_encoder: false,
            tie: Tie::All,
            scale_embedding: true,
            output_bias: false,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            copy: Copying::None,
            coverage: 0.0,
            unknown_id: 0,
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
    /// With 37,000 shared tokens it has 63.1 million parameters, counted with all biases and norms. The paper prints 65
    /// million; no counting of the published sizes gives that number.
    pub fn base(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 512, StackConfig::new(6, 8, 2048))
    }

    /// The paper's big model: layers 6 + 6, d_model 1024, 16 heads, d_ff 4096.
    ///
    /// With 37,000 shared tokens it has 214.2 million parameters; the paper prints 213 million.
    pub fn big(vocab_size: usize) -> Self {
        Self::preset(vocab_size, 1024, StackConfig::new(6, 16, 4096))
    }

    /// The decoder layer whose cross-attention, averaged over its heads, agrees best with human word alignments: the
    /// penultimate (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models"), or the last of
    /// two layers, where the first has too little context.
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

/// Serialises activations by name.
pub(crate) mod activation_name {
    use polyhead_tensor::ops::linear::Activation;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
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
