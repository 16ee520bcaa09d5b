//! The config of a speech recogniser.

use polyhead_tensor::ops::linear::Activation;
use serde::{Deserialize, Serialize};

use crate::transformer::config::{
    AttentionPattern, Dropout, PositionConfig, SinusoidalLayout, StackConfig, activation_name,
};
use crate::transformer::validate::{size, stack_options, token};
use crate::{Error, Result};

/// The config of a speech recogniser: a pre-norm encoder over log-mel frames and a pre-norm decoder with tied embeddings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechConfig {
    /// Size of the vocabulary of texts.
    pub vocab_size: usize,
    /// Width of the input and output of every layer; default: 256.
    pub d_model: usize,
    /// Sizes of the encoder stack; default: 6 layers, 4 heads, d_ff 1024.
    pub encoder: StackConfig,
    /// Sizes of the decoder stack; default: 3 layers, 4 heads, d_ff 1024.
    pub decoder: StackConfig,
    /// Samples per second; a frame is computed of 25 ms, every 10 ms; default: 16,000.
    pub sample_rate: usize,
    /// Number of mel bands of a frame; default: 80.
    pub n_mels: usize,
    /// True if the frames of a sound are shifted to a mean of 0 and scaled to a variance of 1, so that loudness does not count;
    /// default: true. Whisper's are not.
    pub normalize_frames: bool,
    /// Most frames of a sound, or of a part of a longer one; default: 3,000, which are 30 s.
    pub max_frames: usize,
    /// True if every sound is padded with silence to `max_frames`, as Whisper's encoder requires; default: false.
    pub pad_sound: bool,
    /// Positions of the encoder; default: sinusoidal.
    pub encoder_position: PositionConfig,
    /// Positions of the decoder; default: sinusoidal.
    pub position: PositionConfig,
    /// Added to the variance in norms; default: 1e-5.
    pub norm_epsilon: f32,
    /// Activation of the feed-forward layers; default: GELU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Longest text in tokens, and the number of learned positions; default: 448.
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

impl Default for SpeechConfig {
    fn default() -> Self {
        let position = PositionConfig::Sinusoidal { layout: SinusoidalLayout::Concatenated };
        Self {
            vocab_size: 0,
            d_model: 256,
            encoder: StackConfig::new(6, 4, 1024),
            decoder: StackConfig::new(3, 4, 1024),
            sample_rate: 16_000,
            n_mels: 80,
            normalize_frames: true,
            max_frames: 3_000,
            pad_sound: false,
            encoder_position: position,
            position,
            norm_epsilon: 1e-5,
            activation: Activation::Gelu,
            max_len: 448,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            dropout: Dropout::default(),
        }
    }
}

impl SpeechConfig {
    /// The preset called `name`.
    pub fn named(name: &str) -> Option<Self> {
        let (d_model, encoder, decoder) = match name {
            "tiny" => (128, StackConfig::new(3, 4, 512), StackConfig::new(2, 4, 512)),
            "small" => return Some(Self::default()),
            "base" => (512, StackConfig::new(6, 8, 2048), StackConfig::new(6, 8, 2048)),
            _ => return None,
        };
        Some(Self { d_model, encoder, decoder, ..Self::default() })
    }

    /// Most positions of the encoder: half as many as frames.
    pub fn max_positions(&self) -> usize {
        self.max_frames.div_ceil(2)
    }

    /// Seconds of sound that `frames` frames stand for.
    pub fn seconds(&self, frames: usize) -> f64 {
        frames as f64 / 100.0
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("max_len", self.max_len),
            ("n_mels", self.n_mels),
            ("max_frames", self.max_frames),
        ];
        for (name, value) in sizes {
            size(name, value, &mut problems);
        }
        if !(1_000..=192_000).contains(&self.sample_rate) || !self.sample_rate.is_multiple_of(200) {
            let found = self.sample_rate;
            problems.push(format!("sample_rate is {found}, expected a multiple of 200 from 1000 to 192000"));
        }
        let ids = [("pad_id", self.pad_id), ("end_id", self.end_id), ("start_id", self.start_id)];
        for (name, id) in ids {
            token(name, id, self.vocab_size, &mut problems);
        }
        let stacks = [
            ("encoder", &self.encoder, self.encoder_position, self.max_positions()),
            ("decoder", &self.decoder, self.position, self.max_len),
        ];
        for (name, stack, position, max_len) in stacks {
            let full = ("attention", &AttentionPattern::Full);
            let options = (self.norm_epsilon, position, full);
            stack_options((name, stack), (self.d_model, max_len), options, &self.dropout, &mut problems);
            if !matches!(position, PositionConfig::Learned {} | PositionConfig::Sinusoidal { .. }) {
                problems.push(format!("{name}: positions other than learned or sinusoidal ones"));
            }
        }
        problems.dedup();
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Elements of the K/V cache per target token and per position of the encoder.
    pub(crate) fn cache_elements(&self) -> [usize; 2] {
        let heads = self.decoder.heads(self.d_model);
        [self.decoder.n_layers * heads.n_key_heads * (heads.d_key + heads.d_value); 2]
    }

    /// Activations, in elements, that a training step stores per frame and per target token: those of the stem, and half a
    /// position of the encoder; those of a decoder layer and of the logits.
    pub(crate) fn activation_elements(&self) -> [usize; 2] {
        let stem = 3 * self.n_mels + 6 * self.d_model;
        let encoder = self.encoder.n_layers * (10 * self.d_model + 2 * self.encoder.d_ff);
        let decoder =
            self.decoder.n_layers * (16 * self.d_model + 2 * self.decoder.d_ff) + 2 * self.vocab_size;
        [stem + encoder.div_ceil(2), decoder]
    }
}
