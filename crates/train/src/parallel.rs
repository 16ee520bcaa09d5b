//! A corpus as a run uses it: pairs, the tag of the language that they are written in, and how often an epoch holds them.
//!
//! A model that learns several languages is told by the first token of the source which one to write (Johnson et al. 2017,
//! "Google's Multilingual Neural Machine Translation System").

use polyhead_text::corpus::Corpus;

use crate::Result;
use crate::config::CorpusConfig;

/// Pairs with their place in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parallel {
    /// The pairs.
    pub corpus: Corpus,
    /// Languages of source and target, as their codes; none where a model knows one direction alone.
    pub languages: Option<[String; 2]>,
    /// How often an epoch holds every pair; 1.
    pub repeat: usize,
}

impl Parallel {
    /// The corpus that a config means; `place` names its key in messages.
    pub fn new(config: &CorpusConfig, place: &str) -> Result<Self> {
        let corpus = config.corpus(place)?;
        Ok(Self { corpus, languages: config.languages.clone(), repeat: config.repeat.unwrap_or(1) })
    }

    /// The token before every source, such as `>>tur<<`.
    pub fn tag(&self) -> Option<String> {
        self.languages.as_ref().map(|[_, to]| format!(">>{to}<<"))
    }

    /// The tags of several corpora, each once, by name.
    pub fn tags(corpora: &[Self]) -> Vec<String> {
        let mut tags: Vec<String> = corpora.iter().filter_map(Self::tag).collect();
        tags.sort();
        tags.dedup();
        tags
    }
}

impl From<Corpus> for Parallel {
    fn from(corpus: Corpus) -> Self {
        Self { corpus, languages: None, repeat: 1 }
    }
}
