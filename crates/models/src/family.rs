//! The trait of a family's config, by which recipes, files and law tests treat all families alike.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::model::DataSpec;
use crate::transformer::config::StackConfig;
use crate::transformer::{Pooling, TransformerConfig, TransformerEncoderConfig, describe};
use crate::window::WindowEncoderConfig;

/// The config of a model family.
pub(crate) trait Family: Serialize + DeserializeOwned + Default + Clone + PartialEq {
    /// `model_type` in `config.json`.
    const MODEL_TYPE: &'static str;
    /// Names of presets, the default first.
    const PRESETS: &'static [&'static str];
    /// Keys that are derived from the training data.
    const DERIVED: &'static [&'static str];
    /// Keys of a stack that a recipe may set outside it, for all stacks at once.
    const STACK_KEYS: &'static [&'static str] = &[];
    /// Keys of the stacks.
    const STACKS: &'static [&'static str] = &[];
    /// Keys whose values are tagged unions and are replaced as a whole.
    const TAGGED: &'static [&'static str] = &[];

    /// The preset called `name`.
    fn named(name: &str) -> Option<Self>;

    /// A very small model whose sizes all differ, for the law tests of all families.
    fn example() -> Self;

    /// The same config completed from the training data.
    fn with_data(&self, data: &DataSpec) -> Self;

    /// Checks that the config is consistent.
    fn check(&self) -> Result<()>;

    /// A human-readable description, as (label, text).
    fn describe(&self) -> Vec<(&'static str, String)>;
}

impl Family for TransformerConfig {
    const MODEL_TYPE: &'static str = "polyhead_transformer";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base", "big"];
    const DERIVED: &'static [&'static str] =
        &["source_vocab_size", "target_vocab_size", "pad_id", "end_id", "start_id"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder", "decoder"];
    const TAGGED: &'static [&'static str] = &["position", "encoder_sight", "decoder_sight"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name, 0)
    }

    fn example() -> Self {
        let (encoder, decoder) = (StackConfig::new(2, 3, 10), StackConfig::new(3, 2, 9));
        Self { d_model: 12, encoder, decoder, max_len: 64, ..Self::default() }
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [source_vocab_size, target_vocab_size], pad_id, end_id, .. } = data;
        // The decoder starts from padding, as in Marian's models, so that other programs can run the model.
        let start_id = pad_id;
        Self { source_vocab_size, target_vocab_size, pad_id, end_id, start_id, ..self.clone() }
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::translator(self)
    }
}

impl Family for TransformerEncoderConfig {
    const MODEL_TYPE: &'static str = "polyhead_transformer_encoder";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "labels"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder"];
    const TAGGED: &'static [&'static str] = &["position", "encoder_sight"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then_some(())?;
        let TransformerConfig { d_model, encoder, .. } = TransformerConfig::named(name, 0)?;
        Some(Self { d_model, encoder, ..Self::default() })
    }

    fn example() -> Self {
        let pooling = Pooling::Mean;
        Self { d_model: 12, encoder: StackConfig::new(2, 3, 10), pooling, max_len: 64, ..Self::default() }
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, .. } = data.clone();
        Self { vocab_size, pad_id, labels, ..self.clone() }
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::encoder(self)
    }
}

impl Family for WindowEncoderConfig {
    const MODEL_TYPE: &'static str = "polyhead_window_encoder";
    const PRESETS: &'static [&'static str] = &["small"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "labels"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then(Self::default)
    }

    fn example() -> Self {
        Self { window: 3, d_model: 5, d_ff: 7, max_len: 64, ..Self::default() }
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, .. } = data.clone();
        Self { vocab_size, pad_id, labels, ..self.clone() }
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { window, d_model, d_ff, activation, vocab_size, labels, .. } = self;
        vec![
            ("window", format!("the last {window} tokens, embeddings of width {d_model}")),
            ("hidden layer", format!("width {d_ff}, {}", activation.name())),
            ("vocabulary", format!("{vocab_size} ids")),
            ("labels", labels.join(", ")),
        ]
    }
}
