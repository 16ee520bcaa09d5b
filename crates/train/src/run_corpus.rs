//! A corpus of a run: pairs, their languages, and their repetitions per epoch.
//!
//! In a multilingual model the first token of the source chooses the target language (Johnson et al. 2017, "Google's
//! Multilingual Neural Machine Translation System").

use std::path::PathBuf;

use polyhead_text::corpus::Corpus;

use crate::config::CorpusConfig;
use crate::task::Task;
use crate::{Error, Result};

/// A corpus with its languages and repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCorpus {
    /// The pairs.
    pub corpus: Corpus,
    /// Source and target language codes; `None` for a model of one direction.
    pub languages: Option<[String; 2]>,
    /// Repetitions of every pair per epoch; default: 1.
    pub repeat: usize,
    /// The file with the facts of the images, for a captioner.
    pub facts: Option<PathBuf>,
}

impl RunCorpus {
    /// Resolves a corpus of the config for a task and a model of so many sources; `place` names its key in messages.
    pub fn new(config: &CorpusConfig, (task, n_sources): (Task, usize), place: &str) -> Result<Self> {
        let corpus = match task {
            Task::Translation if n_sources > 1 => config.several(n_sources, place)?,
            Task::Translation
            | Task::Classification
            | Task::Contrastive
            | Task::Pointing
            | Task::Transcription
            | Task::Captioning => config.corpus(place)?,
            Task::Tagging => config.tagged(place)?,
            Task::LanguageModel | Task::MaskedLanguageModel => config.plain_text(place)?,
            Task::ImageClassification => {
                let message = "images, expected a corpus of text";
                return Err(Error::config(place, message, "name a recipe of a model of text"));
            }
        };
        let facts = config.facts.clone();
        if facts.is_some() && task != Task::Captioning {
            let message = format!("facts of images, expected none for task = {:?}", task.name());
            return Err(Error::config(place, message, "leave facts out, or set task = \"caption\""));
        }
        Ok(Self { corpus, languages: config.languages.clone(), repeat: config.repeat.unwrap_or(1), facts })
    }

    /// The source files of several corpora, for messages.
    pub(crate) fn names(corpora: &[Self]) -> String {
        let names: Vec<String> =
            corpora.iter().map(|own| own.corpus.source_path().display().to_string()).collect();
        names.join(", ")
    }

    /// The language tag before every source, such as `>>tur<<`.
    pub fn tag(&self) -> Option<String> {
        self.languages.as_ref().map(|[_, to]| format!(">>{to}<<"))
    }

    /// The tags of several corpora, sorted, without duplicates.
    pub fn tags(corpora: &[Self]) -> Vec<String> {
        let mut tags: Vec<String> = corpora.iter().filter_map(Self::tag).collect();
        tags.sort();
        tags.dedup();
        tags
    }
}

impl From<Corpus> for RunCorpus {
    fn from(corpus: Corpus) -> Self {
        Self { corpus, languages: None, repeat: 1, facts: None }
    }
}
