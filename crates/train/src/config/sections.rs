//! The sections of a recipe, each field with its meaning and default.

use std::path::PathBuf;

use polyhead_text::corpus::Corpus;
use polyhead_text::tokenizer::{Case, Form, Kind, Normalization, TrainOptions, Unknown};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Error, Result};

/// `[data]`: parallel text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The language that is read, as in `en`; unknown. It is written into the model's folder.
    pub source_language: Option<String>,
    /// The language that is written; unknown.
    pub target_language: Option<String>,
    /// Pairs to learn from: one corpus, or a list of several.
    #[serde(deserialize_with = "one_or_several")]
    pub train: Vec<CorpusConfig>,
    /// Pairs to validate on, of which none may be in `train`.
    pub valid: Option<CorpusConfig>,
    /// Pairs with more tokens on a side are skipped, counted and named; 256.
    pub max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { source_language: None, target_language: None, train: Vec::new(), valid: None, max_length: 256 }
    }
}

/// One corpus: two line files (`source`, `target`), a `tsv` file or a `jsonl` file; .gz is unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusConfig {
    /// Source lines.
    pub source: Option<PathBuf>,
    /// Target lines.
    pub target: Option<PathBuf>,
    /// A tab-separated file.
    pub tsv: Option<PathBuf>,
    /// Its column with the source, from 1; 1.
    pub source_column: Option<usize>,
    /// Its column with the target, from 1; 2.
    pub target_column: Option<usize>,
    /// A file with a JSON object a line.
    pub jsonl: Option<PathBuf>,
    /// Its field with the source; `source`.
    pub source_field: Option<String>,
    /// Its field with the target; `target`.
    pub target_field: Option<String>,
}

/// `{ … }` means a list of one corpus.
fn one_or_several<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<CorpusConfig>, D::Error> {
    struct Corpora;

    impl<'de> Visitor<'de> for Corpora {
        type Value = Vec<CorpusConfig>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a corpus or a list of corpora")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Self::Value, A::Error> {
            Ok(vec![CorpusConfig::deserialize(MapAccessDeserializer::new(map))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> std::result::Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    deserializer.deserialize_any(Corpora)
}

impl CorpusConfig {
    /// Two line files.
    pub fn line_files(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: Some(source.into()), target: Some(target.into()), ..Self::default() }
    }

    /// The corpus that is meant; `place` names the key in messages.
    pub fn corpus(&self, place: &str) -> Result<Corpus> {
        let has_columns = self.source_column.is_some() || self.target_column.is_some();
        let has_fields = self.source_field.is_some() || self.target_field.is_some();
        match self {
            Self { source: Some(source), target: Some(target), tsv: None, jsonl: None, .. }
                if !has_columns && !has_fields =>
            {
                Ok(Corpus::LineFiles { source: source.clone(), target: target.clone() })
            }
            Self { source: None, target: None, tsv: Some(path), jsonl: None, .. } if !has_fields => {
                let [source_column, target_column] = [(self.source_column, 1), (self.target_column, 2)]
                    .map(|(given, own)| given.unwrap_or(own));
                if source_column == 0 || target_column == 0 {
                    return Err(Error::config(
                        place,
                        "column 0, expected columns from 1",
                        "the first column is 1",
                    ));
                }
                let path = path.clone();
                Ok(Corpus::Tsv { path, source_column: source_column - 1, target_column: target_column - 1 })
            }
            Self { source: None, target: None, tsv: None, jsonl: Some(path), .. } if !has_columns => {
                let field = |given: &Option<String>, own: &str| given.clone().unwrap_or_else(|| own.into());
                Ok(Corpus::Jsonl {
                    path: path.clone(),
                    source_field: field(&self.source_field, "source"),
                    target_field: field(&self.target_field, "target"),
                })
            }
            _ => Err(Error::config(
                place,
                "no single form of corpus, expected source and target, or tsv, or jsonl",
                "for instance: train = { source = \"train.en\", target = \"train.de\" }",
            )),
        }
    }
}

/// Whether both languages share one vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// They do, which lets all embeddings be one table.
    #[default]
    Shared,
    /// Each has its own.
    Separate,
}

/// `[tokenizer]`: read from files, or trained on the training text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerConfig {
    /// A `tokenizer.json` for both languages; none, so one is trained.
    pub file: Option<PathBuf>,
    /// What the pieces are: `bpe`, `unigram`, `wordpiece`, `word` or `character`; `bpe`.
    pub kind: Kind,
    /// What those of the target are, where `sides` is `separate`; as the source's.
    pub target_kind: Option<Kind>,
    /// Entries of a vocabulary, special tokens included; 8000. For words and characters 0 means all.
    pub vocab_size: usize,
    /// Whether both languages share it; they do.
    pub sides: Sides,
    /// What becomes of characters without an entry: `token` or `bytes`; `token`.
    pub unknown: Unknown,
    /// Unicode normal form: `none`, `nfc` or `nfkc`; `nfkc`.
    pub normalize: Form,
    /// Capitals: `keep` or `lower`; `keep`.
    pub case: Case,
    /// Share of the text's characters that get entries of their own; 0.9995.
    pub character_coverage: f64,
    /// Rarest pair or word that gets an entry; 2.
    pub min_frequency: u64,
    /// BPE-dropout: probability that a merge is skipped in training (Provilkov et al. 2020); 0.
    pub dropout: f64,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self {
            file: None,
            kind: Kind::Bpe,
            target_kind: None,
            vocab_size: 8000,
            sides: Sides::Shared,
            unknown: Unknown::Token,
            normalize: Form::Nfkc,
            case: Case::Keep,
            character_coverage: 0.9995,
            min_frequency: 2,
            dropout: 0.0,
        }
    }
}

impl TokenizerConfig {
    /// How the source's, or one for both, is trained.
    pub fn options(&self) -> TrainOptions {
        self.options_of(self.kind)
    }

    /// How the target's is trained.
    pub fn target_options(&self) -> TrainOptions {
        self.options_of(self.target_kind.unwrap_or(self.kind))
    }

    fn options_of(&self, kind: Kind) -> TrainOptions {
        let all = matches!(kind, Kind::Word | Kind::Character) && self.vocab_size == 0;
        TrainOptions {
            kind,
            vocab_size: (!all).then_some(self.vocab_size),
            unknown: self.unknown,
            normalization: Normalization { form: self.normalize, case: self.case },
            character_coverage: self.character_coverage,
            min_frequency: self.min_frequency,
            ..TrainOptions::default()
        }
    }
}

/// `[embeddings]`: word vectors to start from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmbeddingsConfig {
    /// Vectors in word2vec's or GloVe's text form, plain or gzip, as wide as the model; none. They are brought to the size
    /// that the model expects.
    pub init: Option<PathBuf>,
    /// Whether the tables stay as they are, rows without a vector too, and the output layer where it is tied to them; no,
    /// they are trained on.
    pub frozen: bool,
}

/// `[optimizer]`: Adam with decoupled weight decay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerConfig {
    /// β₁; 0.9.
    pub beta1: f32,
    /// β₂; 0.98, as in the Transformer paper.
    pub beta2: f32,
    /// ε; 1e-9, as there.
    pub epsilon: f32,
    /// λ of decoupled weight decay; 0.
    pub weight_decay: f32,
    /// Gradients longer than this are scaled down to it; 1. 0 for no limit.
    pub clip_norm: f32,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.98, epsilon: 1e-9, weight_decay: 0.0, clip_norm: 1.0 }
    }
}

/// What happens when the loss explodes or is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Divergence {
    /// The run ends; the last checkpoint is good.
    #[default]
    Stop,
    /// The run goes back to the last checkpoint and on with half the learning rate, five times at most.
    Halve,
}

/// `[train]`: batches, loss and when to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Most tokens of a batch on its wider side, padding included: rows × longest; 4096.
    pub max_tokens: usize,
    /// Most pairs of a batch; 0 for no limit.
    pub max_rows: usize,
    /// Lengths are rounded up to multiples of this when like lengths are put together; 1.
    pub length_bucket: usize,
    /// Batches whose gradients make one step; 1.
    pub accumulate: usize,
    /// Steps after which the run ends; 0 for no limit. Steps are absolute: a resumed run counts on.
    pub max_steps: u64,
    /// Passes over the data after which it ends; 0 for no limit.
    pub max_epochs: u64,
    /// Minutes of training after which it ends, those before a resume included; 0 for no limit.
    pub max_minutes: f64,
    /// ε: what the right token gives to all (Szegedy et al. 2016); 0.1.
    pub label_smoothing: f32,
    /// α of R-Drop (Liang et al. 2021): two passes with different dropout shall agree; 0 for one pass.
    pub r_drop: f32,
    /// Decay of the moving average of weights that is validated and kept; 0 for the weights themselves.
    pub ema: f32,
    /// What happens when the loss explodes; the run stops.
    pub divergence: Divergence,
    /// Steps between two lines of the log; 50.
    pub log_every: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            max_tokens: 4096,
            max_rows: 0,
            length_bucket: 1,
            accumulate: 1,
            max_steps: 0,
            max_epochs: 0,
            max_minutes: 0.0,
            label_smoothing: 0.1,
            r_drop: 0.0,
            ema: 0.0,
            divergence: Divergence::Stop,
            log_every: 50,
        }
    }
}

/// What a model is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// BLEU of real translations; higher is better.
    #[default]
    Bleu,
    /// chrF2 of real translations; higher is better.
    Chrf,
    /// Share of outputs that differ from their reference, the word error rate of grapheme-to-phoneme work; lower.
    Errors,
    /// Cross-entropy of the references; lower is better.
    Loss,
}

/// `[validation]`: how often and by what the model is judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ValidationConfig {
    /// Steps between two validations; 0: by epochs.
    pub every_steps: u64,
    /// Epochs between two validations, where `every_steps` is 0; 1.
    pub every_epochs: u64,
    /// A validation also comes when so many minutes have passed; 0 for never. Such a run cannot be repeated to the bit,
    /// since time decides.
    pub every_minutes: f64,
    /// What chooses the best checkpoint; `bleu`.
    pub metric: Metric,
    /// How BLEU cuts text: `13a`, `none` for text that is tokenised, and the others of `polyhead score`; `13a`.
    pub tokenize: String,
    /// Hypotheses followed in validation; 1.
    pub beam_size: usize,
    /// Pairs that are translated, the first ones; 0 for all.
    pub max_pairs: usize,
    /// Validations without a better score after which the run ends; 0 for never.
    pub patience: u64,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_epochs: 1,
            every_minutes: 0.0,
            metric: Metric::Bleu,
            tokenize: "13a".into(),
            beam_size: 1,
            max_pairs: 0,
            patience: 0,
        }
    }
}

/// What the run's `model` folder is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Final {
    /// The best checkpoint.
    #[default]
    Best,
    /// The mean of the `average` best checkpoints.
    AverageBest,
    /// The mean of the `average` last checkpoints at which a validation was due.
    AverageLast,
    /// The last checkpoint.
    Last,
}

/// Numbers of the finished model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// As they were trained.
    #[default]
    F32,
    /// Rounded to half the bytes.
    Bf16,
}

/// `[checkpoint]`: what is written and kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointConfig {
    /// Steps between two checkpoints, besides one at every validation; 0 for none besides.
    pub every_steps: u64,
    /// A checkpoint also comes when so many minutes have passed; 10. 0 for never.
    pub every_minutes: f64,
    /// Checkpoints kept, the newest ones; 2 at least, so that a damaged one has another behind it. 2.
    pub keep_last: usize,
    /// Checkpoints kept, the best ones; 1.
    pub keep_best: usize,
    /// What the finished model is; the best checkpoint.
    pub r#final: Final,
    /// How many checkpoints an average is made of; 5.
    pub average: usize,
    /// Numbers of the finished model; f32.
    pub dtype: Precision,
    /// Hypotheses followed when the finished model translates; 5.
    pub beam_size: usize,
    /// Exponent of the length that scores are divided by when the finished model translates; 1.
    pub length_penalty: f64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            every_steps: 0,
            every_minutes: 10.0,
            keep_last: 2,
            keep_best: 1,
            r#final: Final::Best,
            average: 5,
            dtype: Precision::F32,
            beam_size: 5,
            length_penalty: 1.0,
        }
    }
}
