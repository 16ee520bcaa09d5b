//! A text on its way: its sentences, what the model reads of each, and what it wrote.

use polyhead_models::decode::Hypothesis;

use crate::form::Form;
use crate::repetition::severity;
use crate::route::Leg;
use crate::search::Job;
use crate::split::{Sentence, is_full_width_end};
use crate::translation::Note;

/// A text on its way.
pub(crate) struct Document<'a> {
    pub(crate) text: &'a str,
    pub(crate) lead: &'a str,
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) notes: Vec<Note>,
    /// What the model has no entry for.
    pub(crate) unknown: Vec<String>,
    /// The tag and the languages.
    pub(crate) leg: &'a Leg,
}

impl<'a> Document<'a> {
    pub(crate) fn new(text: &'a str, lead: &'a str, leg: &'a Leg) -> Self {
        Self { text, lead, parts: Vec::new(), notes: Vec::new(), unknown: Vec::new(), leg }
    }
}

/// What the model sees at once.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    pub(crate) sentence: Sentence<'a>,
    /// What the model reads in place of the sentence; none where it reads the sentence.
    pub(crate) form: Option<Form>,
    /// What is decoded; none for what is only copied.
    pub(crate) job: Option<Job>,
    /// Its hypotheses, best first.
    pub(crate) found: Vec<Hypothesis>,
    /// What became of a loop.
    pub(crate) repetition: Option<Repetition>,
    /// How often it was halved because its translation found no end.
    pub(crate) halvings: usize,
}

/// What became of a loop when it was decoded again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    Cured,
    Left,
}

impl<'a> Part<'a> {
    pub(crate) fn new(sentence: Sentence<'a>, form: Option<Form>, job: Job) -> Self {
        Self { sentence, form, job: Some(job), found: Vec::new(), repetition: None, halvings: 0 }
    }

    /// What is not given to the model.
    pub(crate) fn copied(sentence: Sentence<'a>) -> Self {
        Self { sentence, form: None, job: None, found: Vec::new(), repetition: None, halvings: 0 }
    }

    /// What its translation begins with.
    pub(crate) fn prefix(&self) -> Vec<u32> {
        self.job.as_ref().map_or_else(Vec::new, |job| job.prefix.clone())
    }

    /// Whether it waits to be decoded.
    pub(crate) fn is_waiting(&self) -> bool {
        self.job.is_some() && self.found.is_empty()
    }

    /// How badly its best hypothesis loops.
    pub(crate) fn severity(&self) -> usize {
        match (&self.job, self.found.first()) {
            (Some(job), Some(best)) => severity(&job.source, &best.ids),
            _ => 0,
        }
    }

    /// Whether the next part follows at once because the marks of the source need no space.
    pub(crate) fn needs_space(&self) -> bool {
        self.sentence.separator.is_empty() && ends_full_width(self.sentence.text)
    }
}

/// Whether a text ends with a mark that needs no space behind it.
pub(crate) fn ends_full_width(text: &str) -> bool {
    let text = text.trim_end_matches(['」', '』', '）', '”', '’']);
    text.ends_with(|mark| is_full_width_end(mark) || matches!(mark, '，' | '、' | '；' | '：'))
}
