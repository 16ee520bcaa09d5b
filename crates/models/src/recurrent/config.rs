//! The config of a recurrent sequence-to-sequence model.

use polyhead_attention::score::{ScoreKind, ScoreOptions};
use polyhead_attention::source_attention::Local;
use polyhead_tensor::ops::recurrent::CellKind;
use polyhead_text::figures::grouped;
use serde::{Deserialize, Serialize};

use crate::copying::{CopyKeys, Copying};
use crate::transformer::config::Tie;
use crate::transformer::validate::size;
use crate::{Error, Result};

pub(super) const MAX_LAYERS: usize = 64;

/// The cell of every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// The simple recurrent network with tanh (Elman 1990).
    Rnn,
    /// The same with ReLU.
    RnnRelu,
    /// The gated recurrent unit (Cho et al. 2014).
    Gru,
    /// Long short-term memory (Hochreiter & Schmidhuber 1997).
    #[default]
    Lstm,
    /// Long short-term memory network: an LSTM that attends to its own earlier states (Cheng, Dong & Lapata 2016).
    Lstmn,
}

impl Cell {
    /// The cell of the fused operation.
    pub fn kind(self) -> CellKind {
        match self {
            Self::Rnn => CellKind::RnnTanh,
            Self::RnnRelu => CellKind::RnnRelu,
            Self::Gru => CellKind::Gru,
            Self::Lstm | Self::Lstmn => CellKind::Lstm,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rnn => "RNN (tanh)",
            Self::RnnRelu => "RNN (ReLU)",
            Self::Gru => "GRU",
            Self::Lstm => "LSTM",
            Self::Lstmn => "LSTMN",
        }
    }
}

/// The attention of the decoder to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecoderAttention {
    /// None: the decoder starts from the encoder's last state and reads nothing else (Sutskever, Vinyals & Le 2014).
    None,
    /// Before the cell: the previous state is the query, and the context an input of the step (Bahdanau, Cho & Bengio
    /// 2015).
    Bahdanau,
    /// After the cell: the new state is the query, and state and context are combined for the output (Luong, Pham &
    /// Manning 2015).
    #[default]
    Luong,
}

/// The keys that a decoder step attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalAttention {
    /// The whole source.
    #[default]
    None,
    /// A window around the step's own position (local-m of Luong, Pham & Manning 2015).
    Monotonic,
    /// A window around a predicted position, weighted by a Gaussian (local-p).
    Predictive,
}

/// The config of a recurrent sequence-to-sequence model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a recipe, each on or off")]
pub struct RecurrentConfig {
    /// Size of the source vocabulary.
    pub source_vocab_size: usize,
    /// Size of the target vocabulary.
    pub target_vocab_size: usize,
    /// The cell of every layer: `rnn`, `rnn_relu`, `gru`, `lstm` or `lstmn`; default: `lstm`.
    pub cell: Cell,
    /// Number of layers of the encoder and of the decoder; default: 2.
    pub n_layers: usize,
    /// True if each encoder layer reads in both directions, with half of d_model for each; default: true.
    pub bidirectional: bool,
    /// Width of embeddings; default: 512.
    pub d_embedding: usize,
    /// Width of encoder and decoder states; default: 512.
    pub d_model: usize,
    /// Attention to the source: `none`, `bahdanau` or `luong`; default: `luong`.
    pub attention: DecoderAttention,
    /// The score function: `dot`, `scaled_dot`, `general`, `additive`, `location` or `cosine`; default: `general`.
    #[serde(with = "score_name")]
    pub score: ScoreKind,
    /// Factor of the cosine score; default: 10.
    pub sharpness: f32,
    /// Local attention: `none`, `monotonic` or `predictive`; default: `none`.
    pub local: LocalAttention,
    /// Tokens to each side that local attention covers; default: 10.
    pub window: usize,
    /// True if the vector before the output layer is also an input of the next step, as in Luong, Pham & Manning 2015;
    /// default: false.
    pub input_feeding: bool,
    /// Copying of source words: `none` or `pointer_generator`; default: `none`.
    pub copy: Copying,
    /// Weight of the coverage loss; above 0, coverage also enters the additive score. See et al. 2017 use 1; default: 0.
    pub coverage: f32,
    /// True if each layer but the first adds its input to its output; default: false.
    pub residual: bool,
    /// Tied embedding tables; default: target and output.
    pub tie: Tie,
    /// True if the output layer has a bias; default: true.
    pub output_bias: bool,
    /// Dropout probability in training, of embeddings, between layers and before the output layer; default: 0.3.
    pub dropout: f32,
    /// Longest sentence in tokens; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// Id of the end token.
    pub end_id: u32,
    /// Id of the token that decoding starts from.
    pub start_id: u32,
    /// Id of words that the vocabulary lacks, used in copying.
    pub unknown_id: u32,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        Self {
            source_vocab_size: 0,
            target_vocab_size: 0,
            cell: Cell::Lstm,
            n_layers: 2,
            bidirectional: true,
            d_embedding: 512,
            d_model: 512,
            attention: DecoderAttention::Luong,
            score: ScoreKind::General,
            sharpness: 10.0,
            local: LocalAttention::None,
            window: 10,
            input_feeding: false,
            copy: Copying::None,
            coverage: 0.0,
            residual: false,
            tie: Tie::TargetOutput,
            output_bias: true,
            dropout: 0.3,
            max_len: 1024,
            pad_id: 0,
            end_id: 0,
            start_id: 0,
            unknown_id: 0,
        }
    }
}

impl RecurrentConfig {
    /// The preset `name`: `small` (the default), `bahdanau` (GRU, one layer, additive score before the cell), `luong`
    /// (LSTM, two layers, general score after the cell, input feeding) or `pointer_generator` (LSTM, one layer, additive
    /// score with coverage after the cell, input feeding, copying: the model and sizes of See et al. 2017).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::default()),
            "bahdanau" => Some(Self {
                cell: Cell::Gru,
                n_layers: 1,
                attention: DecoderAttention::Bahdanau,
                score: ScoreKind::Additive,
                ..Self::default()
            }),
            "pointer_generator" => Some(Self {
                n_layers: 1,
                d_embedding: 128,
                d_model: 256,
                score: ScoreKind::Additive,
                input_feeding: true,
                copy: Copying::PointerGenerator,
                coverage: 1.0,
                tie: Tie::SourceTarget,
                dropout: 0.0,
                ..Self::default()
            }),
            "luong" => Some(Self { bidirectional: false, input_feeding: true, ..Self::default() }),
            _ => None,
        }
    }

    /// The keys of a decoder step.
    pub(crate) fn locality(&self) -> Local {
        match self.local {
            LocalAttention::None => Local::Global,
            LocalAttention::Monotonic => Local::Monotonic { distance: self.window },
            LocalAttention::Predictive => Local::Predictive { distance: self.window },
        }
    }

    /// Options of the score function.
    pub(crate) fn score_options(&self) -> ScoreOptions {
        let &Self { score: kind, d_model, max_len, sharpness, .. } = self;
        ScoreOptions { kind, d_query: d_model, d_key: d_model, d_hidden: d_model, max_len, sharpness }
    }

    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let sizes = [
            ("source_vocab_size", self.source_vocab_size),
            ("target_vocab_size", self.target_vocab_size),
            ("d_embedding", self.d_embedding),
            ("d_model", self.d_model),
            ("max_len", self.max_len),
            ("window", self.window),
        ];
        for (name, value) in sizes {
            size(name, value, &mut problems);
        }
        if self.n_layers == 0 || self.n_layers > MAX_LAYERS {
            problems.push(format!("n_layers is {}, expected 1 to {MAX_LAYERS}", self.n_layers));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            problems.push(format!("dropout is {}, expected at least 0 and below 1", self.dropout));
        }
        if !(self.sharpness > 0.0 && self.sharpness.is_finite()) {
            problems.push(format!("sharpness is {}, expected a number above 0", self.sharpness));
        }
        self.check_ids(&mut problems);
        self.check_tie(&mut problems);
        self.copy_keys().check(&mut problems);
        self.check_copying(&mut problems);
        self.check_combinations(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    fn check_ids(&self, problems: &mut Vec<String>) {
        let both = self.source_vocab_size.min(self.target_vocab_size);
        let ids = [
            ("pad_id", self.pad_id, both),
            ("end_id", self.end_id, self.target_vocab_size),
            ("start_id", self.start_id, self.target_vocab_size),
        ];
        for (name, id, limit) in ids {
            if id as usize >= limit {
                problems.push(format!("{name} is {id}, expected an id below the vocabulary size {limit}"));
            }
        }
    }

    fn check_tie(&self, problems: &mut Vec<String>) {
        let [source, target] = [self.source_vocab_size, self.target_vocab_size];
        if matches!(self.tie, Tie::All | Tie::SourceTarget) && source != target {
            problems.push(format!(
                "source and target share an embedding but have {source} and {target} ids, expected equal sizes"
            ));
        }
        let &Self { d_embedding, d_model, .. } = self;
        if matches!(self.tie, Tie::All | Tie::TargetOutput) && d_embedding != d_model {
            problems.push(format!(
                "tie shares the target embedding (width d_embedding {d_embedding}) with the output layer (width d_model \
                 {d_model}), expected equal widths"
            ));
        }
    }

    /// The keys that concern copying.
    fn copy_keys(&self) -> CopyKeys {
        let &Self { copy, coverage, unknown_id, .. } = self;
        CopyKeys { copy, coverage, vocab_sizes: [self.source_vocab_size, self.target_vocab_size], unknown_id }
    }

    /// Attention that cannot be copied by.
    fn check_copying(&self, problems: &mut Vec<String>) {
        if self.copy == Copying::None {
            return;
        }
        if self.attention == DecoderAttention::None {
            problems.push("copying with attention none: words are copied by the weights of attention".into());
        }
        if self.local != LocalAttention::None {
            problems.push(
                "copying with local attention: words outside its window could not be copied, expected local none"
                    .into(),
            );
        }
        if self.coverage > 0.0 && self.score != ScoreKind::Additive {
            let score = self.score.name();
            problems.push(format!(
                "coverage with the {score} score: it is a third term inside the additive score, expected score                  additive or coverage 0"
            ));
        }
    }

    /// Combinations that make no sense.
    fn check_combinations(&self, problems: &mut Vec<String>) {
        if self.bidirectional && !self.d_model.is_multiple_of(2) {
            let d_model = self.d_model;
            problems.push(format!("d_model is {d_model}, expected an even number for two directions"));
        }
        if self.bidirectional && self.cell == Cell::Lstmn {
            problems.push(
                "cell lstmn with bidirectional = true; its memory holds earlier states only, expected \
                 bidirectional = false"
                    .into(),
            );
        }
        if self.input_feeding && self.attention != DecoderAttention::Luong {
            let (found, reason) = match self.attention {
                DecoderAttention::None => ("none", "there is no attention vector to feed"),
                _ => ("bahdanau", "there the context is an input of the step already"),
            };
            problems
                .push(format!("input_feeding with attention {found}: {reason}, expected attention luong"));
        }
        if self.local != LocalAttention::None && self.attention == DecoderAttention::None {
            problems
                .push("local attention with attention none: there are no encoder states to attend to".into());
        }
        if self.local != LocalAttention::None && self.score == ScoreKind::Location {
            problems.push(
                "local attention with the location score: both predict positions, expected another score"
                    .into(),
            );
        }
    }

    /// Elements of the decoder state per target token (none: it does not grow) and per source token.
    pub(crate) fn cache_elements(&self) -> [usize; 2] {
        let vectors = if self.attention == DecoderAttention::None { 0 } else { 2 };
        [0, vectors * self.d_model]
    }

    /// Activations, in elements, that a training step stores per source token and per target token: the gates, the states
    /// and the projected input of each layer, and two rows of width vocab_size per target token for other buffers.
    pub(crate) fn activation_elements(&self) -> [usize; 2] {
        let layer = self.d_model * (2 * self.cell.kind().n_gates() + 6);
        let layers = self.n_layers * layer + self.d_embedding;
        let attention = if self.attention == DecoderAttention::None { 0 } else { 8 * self.d_model };
        // With copying the logits and their gradient are stored whole.
        let rows = if self.copy == Copying::None { 2 } else { 4 };
        [layers + attention, layers + attention + rows * self.target_vocab_size]
    }

    /// A human-readable description, as (label, text).
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let &Self { n_layers, d_model, d_embedding, window, .. } = self;
        let layers = if n_layers == 1 { "1 layer".to_owned() } else { format!("{n_layers} layers") };
        let cells = format!("{} of {}, width {d_model}", layers, self.cell.name());
        let directions = if self.bidirectional { ", both directions" } else { "" };
        let score = self.score.name();
        let attention = match self.attention {
            DecoderAttention::None => "none: the decoder starts from the encoder's last state".to_owned(),
            DecoderAttention::Bahdanau => format!("before the cell (Bahdanau), {score} score"),
            DecoderAttention::Luong if self.input_feeding => {
                format!("after the cell (Luong), {score} score, input feeding")
            }
            DecoderAttention::Luong => format!("after the cell (Luong), {score} score"),
        };
        let local = match self.local {
            LocalAttention::None => String::new(),
            LocalAttention::Monotonic => format!(", {window} tokens around the own position (local-m)"),
            LocalAttention::Predictive => format!(", {window} tokens around a predicted position (local-p)"),
        };
        let residual = if self.residual { "from each layer to the next" } else { "none" };
        let [source, target] =
            [self.source_vocab_size, self.target_vocab_size].map(|size| grouped(size as u64));
        let Self { pad_id, end_id, start_id, .. } = self;
        let mut rows = vec![
            ("encoder", format!("{cells}{directions}")),
            ("decoder", cells),
            ("attention", attention + &local),
        ];
        rows.extend(self.copy_keys().describe());
        rows.extend([
            ("residual", residual.to_owned()),
            ("embeddings", format!("width {d_embedding}, {}", self.tie.describe())),
            (
                "vocabulary",
                format!(
                    "{source} source ids, {target} target ids; padding {pad_id}, end {end_id}, start {start_id}"
                ),
            ),
            ("max length", format!("{} tokens", grouped(self.max_len as u64))),
        ]);
        rows
    }
}

/// A score function by its name in configs.
mod score_name {
    use polyhead_attention::score::ScoreKind;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(kind: &ScoreKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ScoreKind, D::Error> {
        let name = String::deserialize(from)?;
        ScoreKind::from_name(&name).ok_or_else(|| {
            let known = ScoreKind::ALL.map(ScoreKind::name).join(", ");
            serde::de::Error::custom(format!("unknown score {name:?}, expected one of {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(change: impl FnOnce(&mut RecurrentConfig)) -> String {
        let mut config = RecurrentConfig { source_vocab_size: 9, target_vocab_size: 9, ..Default::default() };
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn presets_are_valid() {
        for name in ["small", "bahdanau", "luong", "pointer_generator"] {
            let preset = RecurrentConfig::named(name).unwrap();
            RecurrentConfig { source_vocab_size: 9, target_vocab_size: 9, ..preset }.validate().unwrap();
        }
        assert_eq!(RecurrentConfig::named("huge"), None);
    }

    #[test]
    fn combinations_that_make_no_sense_are_refused_with_the_reason() {
        use DecoderAttention as A;
        const COPY: Copying = Copying::PointerGenerator;
        let cases = [
            (problem(|c| (c.input_feeding, c.attention) = (true, A::None)), "no attention vector to feed"),
            (
                problem(|c| (c.input_feeding, c.attention) = (true, A::Bahdanau)),
                "the context is an input of the step already, expected attention luong",
            ),
            (
                problem(|c| (c.local, c.attention) = (LocalAttention::Monotonic, A::None)),
                "there are no encoder states to attend to",
            ),
            (
                problem(|c| (c.local, c.score) = (LocalAttention::Predictive, ScoreKind::Location)),
                "both predict positions",
            ),
            (problem(|c| c.coverage = 1.0), "coverage is 1 without copying"),
            (problem(|c| c.coverage = f32::NAN), "coverage is NaN, expected 0 or more"),
            (
                problem(|c| (c.copy, c.attention) = (COPY, A::None)),
                "words are copied by the weights of attention",
            ),
            (
                problem(|c| (c.copy, c.local) = (COPY, LocalAttention::Monotonic)),
                "words outside its window could not be copied",
            ),
            (problem(|c| (c.copy, c.coverage) = (COPY, 1.0)), "coverage with the general score"),
            (problem(|c| (c.copy, c.source_vocab_size) = (COPY, 8)), "expected one vocabulary"),
            (problem(|c| (c.copy, c.unknown_id) = (COPY, 9)), "unknown_id is 9"),
            (problem(|c| (c.d_model, c.d_embedding) = (511, 511)), "an even number for two directions"),
            (problem(|c| c.cell = Cell::Lstmn), "its memory holds earlier states only"),
            (problem(|c| c.d_embedding = 256), "expected equal widths"),
            (problem(|c| c.n_layers = 0), "n_layers is 0, expected 1 to 64"),
            (problem(|c| c.dropout = 1.0), "dropout is 1, expected at least 0 and below 1"),
            (problem(|c| c.window = 0), "window is 0"),
            (problem(|c| c.sharpness = f32::NAN), "sharpness is NaN"),
            (
                problem(|c| (c.tie, c.source_vocab_size) = (Tie::All, 8)),
                "have 8 and 9 ids, expected equal sizes",
            ),
            (problem(|c| c.end_id = 9), "end_id is 9, expected an id below the vocabulary size 9"),
        ];
        for (found, expected) in cases {
            assert!(found.contains(expected), "{found} does not say: {expected}");
        }
    }

    #[test]
    fn an_unknown_score_names_all() {
        let error = serde_json::from_str::<RecurrentConfig>(r#"{"score": "dott"}"#).unwrap_err().to_string();
        assert!(
            error.contains("unknown score \"dott\", expected one of dot, scaled_dot, general"),
            "{error}"
        );
    }
}
