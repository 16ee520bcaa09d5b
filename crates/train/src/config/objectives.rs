//! Recipe sections about single tasks: the losses of encoders, and the sounds of speech recognisers.

use serde::{Deserialize, Serialize};

/// `[masking]`: hidden words of a masked language model (Devlin et al. 2019), drawn anew in every epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaskingConfig {
    /// Share of the tokens of a row that are predicted; default: 0.15.
    pub probability: f64,
    /// Share of these that the mask token replaces; default: 0.8.
    pub mask: f64,
    /// Share of these that a random token replaces; the others stay as they are; default: 0.1.
    pub random: f64,
}

impl Default for MaskingConfig {
    fn default() -> Self {
        Self { probability: 0.15, mask: 0.8, random: 0.1 }
    }
}

/// `[contrastive]`: the loss of pairs among those of their batch (InfoNCE; van den Oord et al. 2018).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContrastiveConfig {
    /// Temperature that cosines are divided by; default: 0.05.
    pub temperature: f32,
    /// True if targets are also to find their sources, not only sources their targets; default: true.
    pub symmetric: bool,
}

impl Default for ContrastiveConfig {
    fn default() -> Self {
        Self { temperature: 0.05, symmetric: true }
    }
}

/// `[sound]`: changes of sounds in training, drawn again in every epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SoundConfig {
    /// Largest change of the speed, and with it of the pitch, as a part of 1; default: 0.
    pub speed: f64,
    /// Probability that a sound gets white noise, 10 to 40 dB below it; default: 0.
    pub noise: f64,
    /// Number of spans of frames that are masked, each at most 20 frames and a fifth of the sound; default: 0.
    pub time_masks: usize,
    /// Number of spans of mel bands that are masked, each at most a fifth of them; default: 0.
    pub band_masks: usize,
}
