//! The sections about text, each field with its meaning and default.

use std::path::PathBuf;

use polyhead_text::corpus::Corpus;
use polyhead_text::tokenizer::{Case, Form, Kind, Normalization, TrainOptions, Unknown};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Error, Result};

/// `[data]`: parallel text; for a classifier the source is a text and the target its label.
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
    /// Pairs to validate on, of which none may be in `train`: none, one corpus or several.
    #[serde(deserialize_with = "one_or_several")]
    pub valid: Vec<CorpusConfig>,
    /// Pairs with more tokens on a side are skipped, counted and named; 256.
    pub max_length: usize,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source_language: None,
            target_language: None,
            train: Vec::new(),
            valid: Vec::new(),
            max_length: 256,
        }
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
    /// The languages of source and target, as in `["eng", "tur"]`, where one model learns several directions: a tag such as
    /// `>>tur<<` before the source says what to write. None: there is one direction and no tag.
    pub languages: Option<[String; 2]>,
    /// How often an epoch holds every pair, so that a small corpus counts beside large ones; 1.
    pub repeat: Option<usize>,
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

/// `[augment]`: pairs changed in passing, anew in every epoch, so that a model stands what users write.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentConfig {
    /// Probability that the names and numbers which both sides of a pair share become placeholders (U+E000 to U+E003); 0. The
    /// model learns to carry over what it cannot read, such as addresses.
    pub keep: f64,
    /// Probability that a pair loses its final full stop, and half of the time its source its first capital; 0.
    pub bare: f64,
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
