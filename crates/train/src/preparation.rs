//! Everything before the first step: corpora checked and read, tokeniser, model config.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use polyhead_models::{DataSpec, Encoder, ModelConfig};
use polyhead_text::batch::BatchOptions;
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{CheckOptions, check, check_labels};

use crate::config::{AugmentConfig, CorpusConfig, RunConfig, VocabularySharing};
use crate::event::Event;
use crate::fingerprint::Fingerprint;
use crate::image_classification;
use crate::objective::{Dataset as _, Objective, Prepared, ValidationSet as _};
use crate::run_corpus::RunCorpus;
use crate::run_folder::Provenance;
use crate::task::Task;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Vocabulary, model config and data of a run.
#[derive(Debug)]
pub(crate) struct Preparation<O: Objective> {
    /// `None` for a task without text.
    pub(crate) vocabulary: Option<Vocabulary>,
    pub(crate) model: ModelConfig,
    pub(crate) data: O::Data,
    pub(crate) valid: Option<O::Valid>,
    pub(crate) origin: Provenance,
}

/// Rows shown for each problem of labels.
const LABEL_EXAMPLES: usize = 3;

/// New run, or one that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Fresh,
    Begun,
}

/// The corpora of a config.
pub(crate) struct Corpora {
    pub(crate) train: Vec<RunCorpus>,
    pub(crate) valid: Vec<RunCorpus>,
    task: Task,
}

impl Corpora {
    pub(crate) fn new(config: &RunConfig) -> Result<Self> {
        let read = |corpora: &[CorpusConfig], place: &str| {
            // Images are read by their task.
            let corpora = if config.task == Task::ImageClassification { &[] } else { corpora };
            let kind = (config.task, config.model.n_sources());
            corpora.iter().map(|corpus| RunCorpus::new(corpus, kind, place)).collect::<Result<_>>()
        };
        let data = &config.data;
        Ok(Self {
            train: read(&data.train, "data.train")?,
            valid: read(&data.valid, "data.valid")?,
            task: config.task,
        })
    }

    /// Checks all training text, each file once; unreadable text is an error.
    pub(crate) fn examine(&self, on_event: &mut dyn FnMut(&Event)) -> Result<()> {
        let mut seen = HashSet::new();
        if self.task.has_labels() {
            let [train, valid] = [&self.train, &self.valid]
                .map(|corpora| corpora.iter().map(|own| own.corpus.clone()).collect::<Vec<Corpus>>());
            let is_regular = train.iter().chain(&valid).all(Corpus::can_be_read_twice);
            if is_regular {
                on_event(&Event::Labels(Box::new(check_labels(&train, &valid, LABEL_EXAMPLES)?)));
            }
        }
        if !self.task.has_pairs() {
            // Unreadable labelled or plain text is found when it is read.
            return Ok(());
        }
        for RunCorpus { corpus, languages, .. } in &self.train {
            let mut paths = corpus.paths();
            paths.sort();
            if !seen.insert(paths) {
                continue;
            }
            let alike = self.valid.iter().find(|valid| valid.languages == *languages);
            let test = alike.map(|valid| valid.corpus.clone());
            let options = CheckOptions { test, ..CheckOptions::without_content() };
            let report = check(corpus, &options, &mut |_| {})?;
            let is_readable = report.is_readable();
            on_event(&Event::Examined(Box::new(report)));
            if !is_readable {
                return Err(Error::run(
                    corpus.source_path(),
                    "the corpus cannot be read as pairs of lines",
                    "polyhead data check lists the lines, polyhead data clean writes a corpus without them",
                ));
            }
        }
        Ok(())
    }

    fn fingerprints(corpora: &[RunCorpus]) -> Result<Vec<Fingerprint>> {
        let paths = corpora.iter().flat_map(|RunCorpus { corpus, .. }| corpus.paths());
        let mut paths: Vec<&Path> = paths.collect();
        paths.dedup();
        paths.into_iter().map(Fingerprint::of).collect()
    }
}

impl<O: Objective> Preparation<O> {
    /// Reads all data. The tokeniser is saved to `folder`, or loaded from it if the run exists already.
    pub(crate) fn new(
        config: &RunConfig,
        corpora: &Corpora,
        (folder, stage): (&Path, Stage),
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Self> {
        let known = match &config.init {
            Some(own) if config.task.has_text() => Some(Vocabulary::of_model(own, &config.model)?),
            _ if stage == Stage::Begun => Vocabulary::find(folder)?,
            _ => None,
        };
        let vocabulary = match known {
            Some(known) => Some(known),
            None if config.task.has_text() => Some(new_vocabulary(config, corpora, folder, on_event)?),
            None => None,
        };
        let Prepared { model, data, valid } = O::prepare(config, corpora, vocabulary.as_ref())?;
        on_event(&Event::Read {
            pairs: data.len(),
            tokens: data.tokens(),
            task: corpora.task,
            outcomes: model.n_outcomes(),
            skipped: data.skipped().clone(),
            valid: valid.as_ref().map(O::Valid::counts),
        });
        let borrowed = vocabulary.as_ref().map_or(&[][..], Vocabulary::borrowed_files);
        let own = Vocabulary::FILES.map(|name| folder.join(name));
        let tokenizer_files = if borrowed.is_empty() { &own } else { borrowed };
        let origin = Provenance {
            version: env!("CARGO_PKG_VERSION").into(),
            seed: config.seed,
            train: fingerprints(&corpora.train, &config.data.train)?,
            valid: fingerprints(&corpora.valid, &config.data.valid)?,
            tokenizer: tokenizer_files
                .iter()
                .filter(|path| path.exists())
                .map(|path: &PathBuf| Fingerprint::of(path))
                .collect::<Result<_>>()?,
        };
        Ok(Self { vocabulary, model, data, valid, origin })
    }
}

/// The fingerprints of corpora, or of the images that the config names instead.
fn fingerprints(corpora: &[RunCorpus], images: &[CorpusConfig]) -> Result<Vec<Fingerprint>> {
    let mut found = Corpora::fingerprints(corpora)?;
    found.extend(image_classification::fingerprints(images)?);
    Ok(found)
}

/// Refuses settings for sentence pairs, which would be ignored for `purpose`.
pub(crate) fn refuse_pair_settings(config: &RunConfig, purpose: &str) -> Result<()> {
    let corpora = || config.data.train.iter().chain(&config.data.valid);
    let given = [
        ("augment", config.augment != AugmentConfig::default()),
        ("tokenizer.dropout", config.tokenizer.dropout > 0.0),
        ("tokenizer.sides", config.tokenizer.sides != VocabularySharing::Shared),
        ("data.train.languages", corpora().any(|corpus| corpus.languages.is_some())),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => Err(Error::config(
            key,
            format!("a setting for sentence pairs, expected none: {purpose}"),
            "leave it out",
        )),
    }
}

/// What an encoder's config takes from its tokeniser; one that the run starts from has it already.
pub(crate) fn encoder_facts(config: &RunConfig, vocabulary: &Vocabulary) -> DataSpec {
    let [pad_id, end_id] = vocabulary.special_ids();
    let vocab_sizes = if config.init.is_some() { config.model.vocab_sizes() } else { vocabulary.sizes() };
    let special_tokens = vocabulary.has_frame();
    DataSpec { vocab_sizes, pad_id, end_id, special_tokens, ..DataSpec::default() }
}

/// The ids of a text as an encoder reads it.
pub(crate) fn encoder_ids(vocabulary: &Vocabulary, model: &Encoder, text: &str) -> Result<Vec<u32>> {
    let tokenizer = vocabulary.source();
    if model.has_special_tokens() {
        let is_empty = text.trim().is_empty();
        return Ok(if is_empty { Vec::new() } else { tokenizer.encode_with_special(text)?.ids });
    }
    let ids = tokenizer.encode(text)?.ids;
    Ok(model.truncate(&ids).to_vec())
}

/// Batch options of a config.
pub(crate) fn batches(config: &RunConfig) -> BatchOptions {
    let train = &config.train;
    BatchOptions {
        max_tokens: train.max_tokens,
        max_rows: if train.max_rows == 0 { usize::MAX } else { train.max_rows },
        bucket: train.length_bucket,
        seed: config.seed,
    }
}

/// The tokeniser of a new run; files left by an earlier failed attempt are removed.
fn new_vocabulary(
    config: &RunConfig,
    corpora: &Corpora,
    folder: &Path,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Vocabulary> {
    for path in Vocabulary::FILES.map(|name| folder.join(name)).iter().filter(|path| path.exists()) {
        std::fs::remove_file(path).map_err(|error| Error::io(path, "remove", error))?;
    }
    if let Some(file) = &config.tokenizer.file {
        let vocabulary = Vocabulary::of_file(file)?;
        vocabulary.save(folder)?;
        return Ok(vocabulary);
    }
    on_event(&Event::TrainingTokenizer);
    Vocabulary::train(config, &corpora.train, folder)
}
