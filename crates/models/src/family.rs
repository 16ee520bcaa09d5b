//! The trait of a family's config, by which recipes, files and law tests treat all families alike.

mod media;

use polyhead_attention::score::ScoreKind;
use polyhead_tensor::ops::linear::Activation;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::averaging::AveragingEncoderConfig;
use crate::copying::Copying;
use crate::model::DataSpec;
use crate::pointer::{Glimpse, PointSpec, PointerConfig};
use crate::recurrent::{
    Cell, DecoderAttention, LocalAttention, RecurrentConfig, RecurrentEncoderConfig,
    RecurrentLanguageModelConfig, StatePooling,
};
use crate::transformer::bert::{BertConfig, Transform};
use crate::transformer::config::{
    AttentionPattern, Combination, CrossProjection, NormOrder, PositionConfig, StackConfig, Tie,
};
use crate::transformer::language_model::Biases;
use crate::transformer::{
    Pooling, TransformerConfig, TransformerEncoderConfig, TransformerLanguageModelConfig, describe,
};
use crate::window::{WindowEncoderConfig, WindowInput, WindowLanguageModelConfig};

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

    /// More such models, for choices that change the computation.
    fn more_examples() -> Vec<Self> {
        Vec::new()
    }

    /// The same config completed from the training data.
    fn with_data(&self, data: &DataSpec) -> Self;

    /// Longest sequence in tokens.
    fn max_len(&self) -> usize;

    /// Checks that the config is consistent.
    fn check(&self) -> Result<()>;

    /// A human-readable description, as (label, text).
    fn describe(&self) -> Vec<(&'static str, String)>;
}

impl Family for TransformerConfig {
    const MODEL_TYPE: &'static str = "polyhead_transformer";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "base", "big"];
    const DERIVED: &'static [&'static str] =
        &["source_vocab_size", "target_vocab_size", "pad_id", "end_id", "start_id", "unknown_id"];
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

    fn more_examples() -> Vec<Self> {
        let copy = Copying::PointerGenerator;
        let (pre, shared) = (NormOrder::Pre, CrossProjection::Shared);
        let several = |sources, combination| Self { sources, combination, ..Self::example() };
        vec![
            Self { copy, coverage: 0.5, activation: Activation::Gelu, tie: Tie::None, ..Self::example() },
            Self { norm_order: pre, final_norm: true, ..several(2, Combination::Flat) },
            several(2, Combination::Hierarchical),
            Self { shared_encoder: true, ..several(3, Combination::Hierarchical) },
            Self { cross_projection: shared, ..several(2, Combination::Parallel) },
            several(2, Combination::Serial),
        ]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec {
            vocab_sizes: [source_vocab_size, target_vocab_size], pad_id, end_id, unknown_id, ..
        } = data;
        // The decoder starts from padding, as in Marian's models, so that other programs can run the model.
        let start_id = pad_id;
        Self { source_vocab_size, target_vocab_size, pad_id, end_id, start_id, unknown_id, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::translator(self)
    }
}

impl Family for RecurrentConfig {
    const MODEL_TYPE: &'static str = "polyhead_recurrent";
    const PRESETS: &'static [&'static str] = &["small", "bahdanau", "luong", "pointer_generator"];
    const DERIVED: &'static [&'static str] =
        &["source_vocab_size", "target_vocab_size", "pad_id", "end_id", "start_id", "unknown_id"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        Self { d_embedding: 6, d_model: 10, tie: Tie::None, max_len: 64, dropout: 0.1, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        use DecoderAttention::{Bahdanau, None};
        let score = |score| Self { score, ..Self::example() };
        let local = |local| Self { local, window: 2, ..Self::example() };
        let (residual, input_feeding, bidirectional) = (true, true, false);
        let (copy, coverage) = (Copying::PointerGenerator, 0.5);
        let tied = Self { d_embedding: 10, tie: Tie::TargetOutput, ..Self::example() };
        vec![
            Self { cell: Cell::Rnn, attention: None, n_layers: 1, ..Self::example() },
            Self { cell: Cell::RnnRelu, bidirectional, ..score(ScoreKind::Dot) },
            Self { cell: Cell::Gru, attention: Bahdanau, n_layers: 1, ..score(ScoreKind::Additive) },
            Self { attention: Bahdanau, residual, ..score(ScoreKind::ScaledDot) },
            Self { input_feeding, residual, ..tied },
            Self { input_feeding, cell: Cell::Gru, ..score(ScoreKind::Location) },
            Self { residual, output_bias: false, ..score(ScoreKind::Cosine) },
            Self { cell: Cell::Lstmn, bidirectional, ..Self::example() },
            Self {
                cell: Cell::Lstmn,
                bidirectional,
                input_feeding,
                n_layers: 1,
                ..score(ScoreKind::Additive)
            },
            local(LocalAttention::Monotonic),
            Self { input_feeding, ..local(LocalAttention::Predictive) },
            Self { copy, ..Self::example() },
            Self { copy, coverage, ..score(ScoreKind::Additive) },
            Self { copy, coverage, input_feeding, n_layers: 1, ..score(ScoreKind::Additive) },
            Self { copy, coverage, attention: Bahdanau, cell: Cell::Gru, ..score(ScoreKind::Additive) },
        ]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec {
            vocab_sizes: [source_vocab_size, target_vocab_size], pad_id, end_id, unknown_id, ..
        } = data;
        let start_id = pad_id;
        Self { source_vocab_size, target_vocab_size, pad_id, end_id, start_id, unknown_id, ..self.clone() }
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

    fn max_len(&self) -> usize {
        self.max_len
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

    fn more_examples() -> Vec<Self> {
        vec![Self { input: WindowInput::OneHot, ..Self::example() }]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, .. } = data.clone();
        Self { vocab_size, pad_id, labels, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { window, input, d_model, d_ff, activation, vocab_size, labels, .. } = self;
        vec![
            ("window", window_text(*window, *input, *d_model)),
            ("hidden layer", format!("width {d_ff}, {}", activation.name())),
            ("vocabulary", format!("{vocab_size} ids")),
            ("labels", labels.join(", ")),
        ]
    }
}

impl Family for AveragingEncoderConfig {
    const MODEL_TYPE: &'static str = "polyhead_averaging_encoder";
    const PRESETS: &'static [&'static str] = &["small"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "labels"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then(Self::default)
    }

    fn example() -> Self {
        Self { d_model: 6, d_ff: 7, max_len: 64, dropout: 0.1, word_dropout: 0.0, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        vec![Self { word_dropout: 0.2, n_layers: 1, ..Self::example() }]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, .. } = data.clone();
        Self { vocab_size, pad_id, labels, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { d_model, n_layers, d_ff, activation, vocab_size, labels, .. } = self;
        vec![
            ("input", format!("the mean of embeddings of width {d_model}")),
            ("hidden layers", format!("{n_layers} of width {d_ff}, {}", activation.name())),
            ("vocabulary", format!("{vocab_size} ids")),
            ("labels", labels.join(", ")),
        ]
    }
}

impl Family for TransformerLanguageModelConfig {
    const MODEL_TYPE: &'static str = "polyhead_transformer_language_model";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "gpt2", "llama"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "end_id", "start_id"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff", "n_key_heads"];
    const STACKS: &'static [&'static str] = &["decoder"];
    const TAGGED: &'static [&'static str] = &["position", "attention"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        Self { d_model: 12, decoder: StackConfig::new(2, 3, 10), max_len: 64, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        let decoder = StackConfig { n_key_heads: Some(2), ..StackConfig::new(3, 4, 10) };
        let biases = Biases { query_key_value: true, ..Biases::NONE };
        let llama = Self { d_model: 16, decoder, max_len: 64, ..Self::llama() };
        vec![
            Self { tie_output: false, attention: AttentionPattern::Window { distance: 2 }, ..llama.clone() },
            Self { biases, ..llama },
            Self { position: PositionConfig::Relative { max_distance: 3 }, ..Self::example() },
        ]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [vocab_size, _], pad_id, end_id, .. } = data;
        // Sequences are packed one after the other, so the end of one is the start of the next.
        Self { vocab_size, pad_id, end_id, start_id: end_id, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::language_model(self)
    }
}

impl Family for WindowLanguageModelConfig {
    const MODEL_TYPE: &'static str = "polyhead_window_language_model";
    const PRESETS: &'static [&'static str] = &["small"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "end_id", "start_id"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then(Self::default)
    }

    fn example() -> Self {
        Self { window: 3, d_model: 5, d_ff: 7, max_len: 64, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        vec![Self { input: WindowInput::OneHot, ..Self::example() }]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [vocab_size, _], pad_id, end_id, .. } = data;
        // Sequences are packed one after the other, so the end of one is the start of the next.
        Self { vocab_size, pad_id, end_id, start_id: end_id, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { window, input, d_model, d_ff, activation, vocab_size, .. } = self;
        vec![
            ("window", window_text(*window, *input, *d_model)),
            ("hidden layer", format!("width {d_ff}, {}", activation.name())),
            ("vocabulary", format!("{vocab_size} ids")),
        ]
    }
}

impl Family for RecurrentEncoderConfig {
    const MODEL_TYPE: &'static str = "polyhead_recurrent_encoder";
    const PRESETS: &'static [&'static str] = &["small"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "labels"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then(Self::default)
    }

    fn example() -> Self {
        Self { d_embedding: 6, d_model: 10, n_layers: 2, max_len: 64, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        let pooling = StatePooling::Mean;
        let gru = Self { cell: Cell::Gru, bidirectional: true, ..Self::example() };
        vec![
            Self { pooling, ..gru.clone() },
            gru,
            Self { cell: Cell::Rnn, n_layers: 1, ..Self::example() },
            Self { cell: Cell::RnnRelu, pooling, ..Self::example() },
        ]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, .. } = data.clone();
        Self { vocab_size, pad_id, labels, ..self.clone() }
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

impl Family for RecurrentLanguageModelConfig {
    const MODEL_TYPE: &'static str = "polyhead_recurrent_language_model";
    const PRESETS: &'static [&'static str] = &["small"];
    const DERIVED: &'static [&'static str] = &["vocab_size", "pad_id", "end_id", "start_id"];

    fn named(name: &str) -> Option<Self> {
        Self::PRESETS.contains(&name).then(Self::default)
    }

    fn example() -> Self {
        let tie_output = false;
        Self { d_embedding: 6, d_model: 10, tie_output, max_len: 64, dropout: 0.1, ..Self::default() }
    }

    fn more_examples() -> Vec<Self> {
        vec![
            Self { cell: Cell::Gru, d_embedding: 10, tie_output: true, residual: true, ..Self::example() },
            Self { cell: Cell::Rnn, n_layers: 1, ..Self::example() },
        ]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let &DataSpec { vocab_sizes: [vocab_size, _], pad_id, end_id, .. } = data;
        // Sequences are packed one after the other, so the end of one is the start of the next.
        Self { vocab_size, pad_id, end_id, start_id: end_id, ..self.clone() }
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

impl Family for PointerConfig {
    const MODEL_TYPE: &'static str = "polyhead_pointer";
    const PRESETS: &'static [&'static str] = &["small", "base"];
    const DERIVED: &'static [&'static str] = &["d_point", "offset", "scale", "answer", "shortest"];

    fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::default()),
            // The size of Vinyals et al.
            "base" => Some(Self { d_model: 256, ..Self::default() }),
            _ => None,
        }
    }

    fn example() -> Self {
        Self { d_model: 7, glimpse: Glimpse::Additive, max_len: 64, ..Self::default() }
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let PointSpec { offset, scale, answer, shortest } = data.points.clone();
        Self { d_point: offset.len(), offset, scale, answer, shortest, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Self { d_model, d_point, glimpse, answer, max_len, .. } = self;
        let glimpse = match glimpse {
            Glimpse::None => "no glimpse",
            Glimpse::Additive => "one glimpse",
        };
        let input =
            if *d_point == 1 { "numbers".to_owned() } else { format!("points of {d_point} coordinates") };
        vec![
            ("pointer network", format!("LSTM encoder and decoder of width {d_model}, {glimpse}")),
            ("input", format!("{input}, at most {max_len}")),
            ("answer", answer.describe().to_owned()),
        ]
    }
}

impl Family for BertConfig {
    const MODEL_TYPE: &'static str = "polyhead_bert";
    const PRESETS: &'static [&'static str] = &["small", "tiny", "minilm", "base", "modern"];
    // The task of a run decides the head.
    const DERIVED: &'static [&'static str] =
        &["vocab_size", "pad_id", "labels", "head", "special_tokens", "multi_label"];
    const STACK_KEYS: &'static [&'static str] = &["n_layers", "n_heads", "d_ff"];
    const STACKS: &'static [&'static str] = &["encoder"];
    const TAGGED: &'static [&'static str] = &["position", "attention"];

    fn named(name: &str) -> Option<Self> {
        Self::named(name)
    }

    fn example() -> Self {
        Self {
            d_model: 12,
            encoder: StackConfig::new(2, 3, 10),
            position_offset: 3,
            transform: Transform::Dense,
            max_len: 64,
            ..Self::default()
        }
    }

    fn more_examples() -> Vec<Self> {
        let modern = Self {
            d_model: 12,
            encoder: StackConfig::new(3, 2, 10),
            attention: AttentionPattern::Window { distance: 1 },
            global_every: 2,
            transform: Transform::DenseNorm,
            transform_activation: Activation::Gelu,
            transform_bias: false,
            max_len: 64,
            ..Self::modern()
        };
        vec![Self { pooling: Pooling::Mean, ..modern.clone() }, modern]
    }

    fn with_data(&self, data: &DataSpec) -> Self {
        let DataSpec { vocab_sizes: [vocab_size, _], pad_id, labels, special_tokens, .. } = data.clone();
        Self { vocab_size, special_tokens, pad_id, labels, ..self.clone() }
    }

    fn max_len(&self) -> usize {
        self.max_len
    }

    fn check(&self) -> Result<()> {
        self.validate()
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        describe::bert(self)
    }
}

fn window_text(window: usize, input: WindowInput, d_model: usize) -> String {
    match input {
        WindowInput::OneHot => format!("the last {window} tokens, one-hot"),
        WindowInput::Embedding => format!("the last {window} tokens, embeddings of width {d_model}"),
    }
}
