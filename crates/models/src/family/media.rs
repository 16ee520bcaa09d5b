//! The families that read images and sounds.

use super::Family;
use crate::Result;
use crate::caption::CaptionConfig;
use crate::model::DataSpec;
use crate::speech::SpeechConfig;
use crate::transformer::config::{Dropout, PositionConfig, StackConfig};
use crate::transformer::describe;
use crate::vision::{ImagePooling, ImageSpec, ImageStem, ImageTokens, VisionConfig};

impl Family for VisionConfig {
    const MODEL_TYPE: &'static str = "polyhead_vit";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base"];
    const DERIVED: &'static [&'static str] = &["image_size", "channels", "labels"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        let dropout = Dropout { embedding: 0.1, residual: 0.1, ..Self::default().dropout };
        Self {
            d_model: 12,
            encoder: StackConfig::new(2, 3, 10),
            patch_size: 3,
            norm_epsilon: 1e-5,
            stochastic_depth: 0.2,
            dropout,
            ..Self::default()
        }
    }

    fn more_examples() -> Vec<Self> {
        let mean = Self { tokens: ImageTokens::None, pooling: ImagePooling::Mean, ..Self::example() };
        let both = Self { tokens: ImageTokens::Distilled, pooling: ImagePooling::Both, ..Self::example() };
        let stem = ImageStem::Convolutions;
        let convolutions = Self { stem, patch_size: 4, ..Self::example() };
        vec![mean, both, convolutions]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { labels, images: ImageSpec { size: image_size, channels }, .. } = data.clone();
        Self { image_size, channels, labels, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.length()
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        self.describe()
    }
}

impl Family for SpeechConfig {
    const MODEL_TYPE: &'static str = "polyhead_speech";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "end_id", "start_id"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder", "decoder"];
    const TAGGED: &'static [&'static str] = &["encoder_position", "position"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        let (encoder, decoder) = (StackConfig::new(2, 3, 10), StackConfig::new(3, 2, 9));
        Self { d_model: 12, encoder, decoder, n_mels: 5, max_frames: 40, max_len: 64, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        let position = PositionConfig::Learned {};
        vec![Self { encoder_position: position, position, n_mels: 4, ..Self::example() }]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [vocab_size, _], pad_id, end_id, .. } = data;
        // The decoder starts from padding, as in translators.
        Self { vocab_size, pad_id, end_id, start_id: pad_id, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::speech(self)
    }
}

impl Family for CaptionConfig {
    const MODEL_TYPE: &'static str = "polyhead_captioner";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base"];
    const DERIVED: &'static [&'static str] =
        &["vocab_size", "pad_id", "end_id", "start_id", "image_size", "channels"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder", "decoder"];
    const TAGGED: &'static [&'static str] = &["position"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        let (encoder, decoder) = (StackConfig::new(2, 3, 10), StackConfig::new(3, 2, 9));
        Self { d_model: 12, encoder, decoder, patch_size: 3, max_len: 64, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        let (position, stem) = (PositionConfig::Learned {}, ImageStem::Convolutions);
        vec![Self { position, patch_size: 2, stem, ..Self::example() }]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [vocab_size, _], pad_id, end_id, .. } = data;
        let ImageSpec { size: image_size, channels } = data.images;
        // The decoder starts from padding, as in translators.
        Self { vocab_size, pad_id, end_id, start_id: pad_id, image_size, channels, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        self.describe()
    }
}
