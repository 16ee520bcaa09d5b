//! Recipe sections about text.

use std::path::PathBuf;

use polyhead_text::corpus::Corpus;
use polyhead_text::csv::Column;
use polyhead_text::tokenizer::{
    LetterCase, Normalization, TokenizerKind, TrainOptions, UnicodeForm, UnknownCharacters,
};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Error, Result};

/// `[data]`: parallel text; for a classifier the source is a text and the target is its label; for a language model plain
/// text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Source language code, as in `en`, saved with the model; default: none.
    pub source_language: Option<String>,
    /// Target language code; default: none.
    pub target_language: Option<String>,
    /// Training pairs: one corpus, or a list of several.
    #[serde(deserialize_with = "one_or_several")]
    pub train: Vec<CorpusConfig>,
    /// Validation pairs, which must not overlap with `train`: none, one corpus or several.
    #[serde(deserialize_with = "one_or_several")]
    pub valid: Vec<CorpusConfig>,
    /// Maximum number of tokens per side; longer pairs are skipped and counted; default: 256. For a language model: length of
    /// the rows that the text is cut into.
    pub max_length: usize,
    /// Rows of a language model: `packed`, the lines of a file one after the other, so that a line is predicted from those before
    /// it; `documents`, which blank lines separate, or `lines`, each by itself; default: `packed`. A record of a JSONL file is
    /// a document of its own.
    pub rows: TextRows,
}

/// Division of plain text into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextRows {
    /// The text of a file as one sequence, cut into rows of equal length.
    #[default]
    Packed,
    /// The lines up to a blank line as one sequence.
    Documents,
    /// Each line is a row, cut only if it is too long.
    Lines,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source_language: None,
            target_language: None,
            train: Vec::new(),
            valid: Vec::new(),
            max_length: 256,
            rows: TextRows::Packed,
        }
    }
}

/// One corpus: two line files (`source`, `target`), a `tsv`, `csv` or `jsonl` file; for a tagger a `conll` or `jsonl` file; for a
/// language model a `text` file; or for an image classifier `images` with `labels`, `images` alone, or `cifar`; plain or gzip.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CorpusConfig {
    /// Source lines.
    pub source: Option<PathBuf>,
    /// Files with the lines of each text of the source, in place of `source`, for a model of several sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PathBuf>,
    /// Target lines.
    pub target: Option<PathBuf>,
    /// A tab-separated file.
    pub tsv: Option<PathBuf>,
    /// A CSV file with a header (RFC 4180).
    pub csv: Option<PathBuf>,
    /// A file with a word and its tag on each line and an empty line after each sentence, for a tagger.
    pub conll: Option<PathBuf>,
    /// Source column: its number, counted from 1, or in a CSV file its name; default: 1.
    pub source_column: Option<Column>,
    /// Columns of the texts of the source in a `tsv` file, in place of `source_column`, for a model of several sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_columns: Vec<usize>,
    /// Target column; default: 2, of a `conll` file the last; after `source_columns` the first that is not one of them.
    pub target_column: Option<Column>,
    /// A file with one JSON object per line; for a language model, each is a document.
    pub jsonl: Option<PathBuf>,
    /// Field of the source; default: `source`, for a language model `text`, for a tagger `tokens`.
    pub source_field: Option<String>,
    /// Field of the target; default: `target`, for a tagger `tags`.
    pub target_field: Option<String>,
    /// A text file, for a language model: every line is a sequence.
    pub text: Option<PathBuf>,
    /// For an image classifier: a folder with a folder of PNG and JPEG files for each class, or an idx file of images.
    pub images: Option<PathBuf>,
    /// The idx file with the labels of `images`.
    pub labels: Option<PathBuf>,
    /// A binary file of CIFAR-10 or CIFAR-100.
    pub cifar: Option<PathBuf>,
    /// For a captioner: the file with the facts of the images, one JSON object per line, which captions are compared with in
    /// validation; `polyhead data make scenes` writes it.
    pub facts: Option<PathBuf>,
    /// Source and target language, as in `["eng", "tur"]`, for a model of several directions: a tag such as `>>tur<<` before
    /// the source chooses the target language. Default: one direction, no tag.
    pub languages: Option<[String; 2]>,
    /// Repetitions of every pair per epoch, to upsample a small corpus; default: 1.
    pub repeat: Option<usize>,
}

/// Reads `{ … }` as a list of one corpus.
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

    /// The paths of all files.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Self { source, target, tsv, csv, conll, jsonl, text, images, labels, cifar, facts, .. } = self;
        let single = [source, target, tsv, csv, conll, jsonl, text, images, labels, cifar, facts];
        single.into_iter().flatten().chain(&mut self.sources)
    }

    /// Resolves to plain text; `place` names the key in messages.
    pub fn plain_text(&self, place: &str) -> Result<Corpus> {
        let only_text = Self { text: self.text.clone(), repeat: self.repeat, ..Self::default() };
        let only_records = Self {
            jsonl: self.jsonl.clone(),
            source_field: self.source_field.clone(),
            repeat: self.repeat,
            ..Self::default()
        };
        match (&self.text, &self.jsonl) {
            (Some(path), _) if *self == only_text => Ok(Corpus::Text { path: path.clone() }),
            (_, Some(path)) if *self == only_records => {
                let field = self.source_field.clone().unwrap_or_else(|| "text".into());
                Ok(Corpus::Jsonl { path: path.clone(), source_field: field.clone(), target_field: field })
            }
            _ => Err(Error::config(
                place,
                "not plain text, expected a text file or a JSONL file alone: task = \"language-model\" reads no pairs",
                "for instance: train = { text = \"train.txt\" }, or { jsonl = \"train.jsonl\", source_field = \"text\" }",
            )),
        }
    }

    /// Resolves to a corpus whose source consists of `count` texts; `place` names the key in messages.
    pub fn several(&self, count: usize, place: &str) -> Result<Corpus> {
        let example =
            "for instance: train = { tsv = \"train.tsv\", source_columns = [1, 2], target_column = 3 }";
        let (n_files, n_columns) = (self.sources.len(), self.source_columns.len());
        let found = n_files.max(n_columns);
        if found != count {
            let message =
                format!("{found} texts in the source of a model with {count} sources, expected {count}");
            return Err(Error::config(place, message, example));
        }
        let column = |given: &Option<Column>| number(given.as_ref(), place);
        match (self.files().as_slice(), &self.target) {
            (&[], Some(target)) if n_columns == 0 && self.target_column.is_none() => {
                Ok(Corpus::SeveralFiles { sources: self.sources.clone(), target: target.clone() })
            }
            (&[("tsv", path)], None) if n_files == 0 && self.source_column.is_none() => {
                let source_columns = self.source_columns.iter().map(|&column| Column::Number(column));
                let source_columns = source_columns.map(|given| column(&Some(given)));
                let source_columns: Vec<usize> =
                    source_columns.filter_map(Result::transpose).collect::<Result<_>>()?;
                // By default the first column that is no source.
                let own = (0..=n_columns).find(|column| !source_columns.contains(column)).unwrap_or_default();
                let target_column = column(&self.target_column)?.unwrap_or(own);
                Ok(Corpus::SeveralColumns { path: path.clone(), source_columns, target_column })
            }
            _ => Err(Error::config(
                place,
                "incomplete or ambiguous corpus, expected either sources and target, or tsv with source_columns",
                example,
            )),
        }
    }

    /// Resolves to a corpus of pairs; `place` names the key in messages.
    pub fn corpus(&self, place: &str) -> Result<Corpus> {
        if !self.sources.is_empty() || !self.source_columns.is_empty() {
            return Err(Error::config(
                place,
                "several texts in the source of a model with one source, expected one",
                "set model.sources to their number, or give source or source_column",
            ));
        }
        let has_columns = self.source_column.is_some() || self.target_column.is_some();
        let has_fields = self.source_field.is_some() || self.target_field.is_some();
        if self.images.is_some() || self.labels.is_some() || self.cifar.is_some() {
            return Err(Error::config(
                place,
                "images, expected text: only task = \"classify-images\" reads folders and files of images",
                "set the task, or model_type = \"vit\" under [model]",
            ));
        }
        if self.text.is_some() {
            return Err(Error::config(
                place,
                "a text file, expected pairs: only task = \"language-model\" reads plain text",
                "set the task, or give source and target, tsv, csv or jsonl",
            ));
        }
        if self.conll.is_some() {
            return Err(Error::config(
                place,
                "words with tags, expected pairs: only task = \"tag\" reads conll",
                "set the task, or give source and target, tsv, csv or jsonl",
            ));
        }
        match (self.files().as_slice(), &self.target) {
            (&[("source", source)], Some(target)) if !has_columns && !has_fields => {
                Ok(Corpus::LineFiles { source: source.clone(), target: target.clone() })
            }
            (&[("tsv", path)], None) if !has_fields => {
                let [source_column, target_column] = [(&self.source_column, 0), (&self.target_column, 1)]
                    .map(|(given, own)| number(given.as_ref(), place).map(|number| number.unwrap_or(own)));
                let path = path.clone();
                Ok(Corpus::Tsv { path, source_column: source_column?, target_column: target_column? })
            }
            (&[("csv", path)], None) if !has_fields => {
                let column = |given: &Option<Column>, own| given.clone().unwrap_or(Column::Number(own));
                let [source_column, target_column] =
                    [column(&self.source_column, 1), column(&self.target_column, 2)];
                Ok(Corpus::Csv { path: path.clone(), source_column, target_column })
            }
            (&[("jsonl", path)], None) if !has_columns => {
                let [source_field, target_field] = self.fields(["source", "target"]);
                Ok(Corpus::Jsonl { path: path.clone(), source_field, target_field })
            }
            _ => Err(Error::config(
                place,
                "incomplete or ambiguous corpus, expected either source and target, or tsv, csv or jsonl",
                "for instance: train = { source = \"train.en\", target = \"train.de\" }",
            )),
        }
    }

    /// Resolves to sentences of words with tags; `place` names the key in messages.
    pub fn tagged(&self, place: &str) -> Result<Corpus> {
        let has_columns = self.source_column.is_some() || self.target_column.is_some();
        let has_fields = self.source_field.is_some() || self.target_field.is_some();
        match (self.files().as_slice(), &self.target) {
            (&[("conll", path)], None) if !has_fields => {
                let [word_column, tag_column] =
                    [&self.source_column, &self.target_column].map(|given| number(given.as_ref(), place));
                Ok(Corpus::Conll { path: path.clone(), word_column: word_column?, tag_column: tag_column? })
            }
            (&[("jsonl", path)], None) if !has_columns => {
                let [words_field, tags_field] = self.fields(["tokens", "tags"]);
                Ok(Corpus::TokensJsonl { path: path.clone(), words_field, tags_field })
            }
            _ => Err(Error::config(
                place,
                "no words with tags, expected either a conll or a jsonl file for task = \"tag\"",
                "for instance: train = { conll = \"train.txt\" }",
            )),
        }
    }

    /// The keys of the files that are given, but for `target`.
    fn files(&self) -> Vec<(&'static str, &PathBuf)> {
        let Self { source, tsv, csv, conll, jsonl, text, .. } = self;
        let all = [
            ("source", source),
            ("tsv", tsv),
            ("csv", csv),
            ("conll", conll),
            ("jsonl", jsonl),
            ("text", text),
        ];
        all.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?))).collect()
    }

    /// The names of the fields, by default these.
    fn fields(&self, own: [&str; 2]) -> [String; 2] {
        let field = |given: &Option<String>, own: &str| given.clone().unwrap_or_else(|| own.into());
        [field(&self.source_field, own[0]), field(&self.target_field, own[1])]
    }
}

/// A column of a file without a header, counted from 0.
fn number(column: Option<&Column>, place: &str) -> Result<Option<usize>> {
    match column {
        None => Ok(None),
        Some(&Column::Number(number)) if number > 0 => Ok(Some(number - 1)),
        Some(Column::Number(_)) => {
            Err(Error::config(place, "column 0, expected columns from 1", "the first column is 1"))
        }
        Some(Column::Name(name)) => Err(Error::config(
            place,
            format!("column {name:?}, expected its number: only csv files have a header"),
            "for instance: source_column = 1",
        )),
    }
}

/// `[augment]`: changes to training pairs, drawn again in every epoch, that make a model robust to what users write.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentConfig {
    /// Probability that names and numbers common to both sides of a pair are replaced by placeholders (U+E000 to U+E003), so
    /// that the model learns to copy preserved text such as addresses; default: 0.
    pub keep: f64,
    /// Probability that a pair loses its final full stop and, half of the time, the source its initial capital; default: 0.
    pub bare: f64,
    /// Probability that one source of several is left empty, so that a model is robust to a missing one; default: 0.
    pub drop_source: f64,
}

/// One vocabulary for both languages, or one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VocabularySharing {
    /// One vocabulary; all embeddings can be one table.
    #[default]
    Shared,
    /// One vocabulary per language.
    Separate,
}

/// `[tokenizer]`: read from a file, or trained on the training text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerConfig {
    /// A `tokenizer.json` for both languages; default: none, one is trained.
    pub file: Option<PathBuf>,
    /// Algorithm: `bpe`, `unigram`, `wordpiece`, `word` or `character`; default: `bpe`.
    pub kind: TokenizerKind,
    /// Algorithm of the target, if `sides` is `separate`; default: that of the source.
    pub target_kind: Option<TokenizerKind>,
    /// Vocabulary size, special tokens included; 0 for all words or characters; default: 8000.
    pub vocab_size: usize,
    /// One vocabulary (`shared`) or one per language (`separate`); default: `shared`.
    pub sides: VocabularySharing,
    /// Encoding of unknown characters: `token` or `bytes`; default: `token`.
    pub unknown: UnknownCharacters,
    /// Unicode normalisation form: `none`, `nfc` or `nfkc`; default: `nfkc`.
    pub normalize: UnicodeForm,
    /// Letter case: `keep` or `lower`; default: `keep`.
    pub case: LetterCase,
    /// Fraction of the text's characters covered by entries of their own; default: 0.9995.
    pub character_coverage: f64,
    /// Minimum frequency of a merge or word; default: 2.
    pub min_frequency: u64,
    /// BPE-dropout: probability that a merge is skipped in training (Provilkov et al. 2020); default: 0.
    pub dropout: f64,
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self {
            file: None,
            kind: TokenizerKind::Bpe,
            target_kind: None,
            vocab_size: 8000,
            sides: VocabularySharing::Shared,
            unknown: UnknownCharacters::Token,
            normalize: UnicodeForm::Nfkc,
            case: LetterCase::Keep,
            character_coverage: 0.9995,
            min_frequency: 2,
            dropout: 0.0,
        }
    }
}

impl TokenizerConfig {
    /// Training options of the source tokeniser, or of the shared one.
    pub fn options(&self) -> TrainOptions {
        self.options_of(self.kind)
    }

    /// Training options of the target tokeniser.
    pub fn target_options(&self) -> TrainOptions {
        self.options_of(self.target_kind.unwrap_or(self.kind))
    }

    fn options_of(&self, kind: TokenizerKind) -> TrainOptions {
        let all = matches!(kind, TokenizerKind::Word | TokenizerKind::Character) && self.vocab_size == 0;
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

/// `[embeddings]`: initialisation from word vectors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmbeddingsConfig {
    /// Vectors of width `d_model` in word2vec's or GloVe's text format, plain or gzip; they are scaled to the norm that the
    /// model expects; default: none.
    pub init: Option<PathBuf>,
    /// Freezes the embedding tables, including rows without a vector and an output layer tied to them; default: false.
    pub frozen: bool,
}
