//! A text before it is translated: its route and its sentences.
//!
//! A sentence is translated by itself: its translation does not depend on its text, its batch or its neighbours. A server
//! with many texts may therefore queue, mix and cache sentences, and join the texts from their translations.
//!
//! ```no_run
//! # use polyhead_translate::{Engine, LoadOptions, TranslateOptions};
//! # let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let options = TranslateOptions::default();
//! let plan = engine.plan_texts(&["Good morning. How are you?"], &options)?.remove(0);
//! let translated = engine.translate_sentences(&plan.sentences().collect::<Vec<_>>(), &options)?;
//! assert_eq!(plan.join(&translated), engine.translate(&["Good morning. How are you?"], &options)?[0]);
//! # Ok::<(), polyhead_translate::Error>(())
//! ```

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use super::{Joiner, Scores, Sentence, Split};
use crate::copies::CopiedWord;
use crate::mask::Case;
use crate::options::Evidence;
use crate::pipeline::Pipeline;
use crate::prepare::SentenceContext;
use crate::route::{Hop, Route, RoutePlan};
use crate::translation::{Candidate, DecodedSegment, Note, Translation};
use crate::words::WordCounter;

/// A sentence and its hops. Equal ones have equal translations, if the options are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RoutedSentence {
    /// The sentence.
    pub text: String,
    pub(crate) hops: Arc<[Hop]>,
    /// True if the prefix of the options begins its translation.
    pub(crate) is_first: bool,
}

impl RoutedSentence {
    /// The number of its hops.
    pub fn n_hops(&self) -> usize {
        self.hops.len()
    }
}

/// A text with its route, split into sentences.
#[derive(Debug, Clone)]
pub struct TextPlan {
    text: String,
    /// Byte where the text begins after a tag.
    body: usize,
    /// Byte where the first sentence begins.
    start: usize,
    sentences: Vec<SentenceSpan>,
    /// Index of the sentence whose translation begins with the prefix.
    first: usize,
    hops: Arc<[Hop]>,
    route: Option<Route>,
    notes: Vec<Note>,
    evidence: Evidence,
}

/// A sentence in bytes of its text.
#[derive(Debug, Clone)]
struct SentenceSpan {
    text: Range<usize>,
    /// End of the white space after it.
    end: usize,
}

impl TextPlan {
    pub(crate) fn new(pipeline: &Pipeline<'_>, text: &str, plan: RoutePlan<'_>) -> Self {
        let RoutePlan { body, hops, route, mut notes } = plan;
        let Split { lead, sentences } =
            if hops.is_empty() { Split::none(body) } else { pipeline.split(body) };
        if sentences.len() > 1 {
            notes.push(Note::Split { sentences: sentences.len() });
        }
        let is_text = |sentence: &Sentence<'_>| {
            hops.last().is_some_and(|hop| {
                let context = SentenceContext { hop, case: Case::Detect };
                pipeline.has_text(sentence.text, &pipeline.preserve(sentence.text, context), hop)
            })
        };
        let has_prefix = !pipeline.options.prefix.is_empty();
        let first = if has_prefix { sentences.iter().position(is_text) } else { None };
        let body = text.len() - body.len();
        let span = |sentence: &Sentence<'_>| {
            let start = sentence.text.as_ptr() as usize - text.as_ptr() as usize;
            let end = start + sentence.text.len();
            SentenceSpan { text: start..end, end: end + sentence.separator.len() }
        };
        Self {
            text: text.to_owned(),
            body,
            start: body + lead.len(),
            sentences: sentences.iter().map(span).collect(),
            first: first.unwrap_or(0),
            hops: hops.into(),
            route,
            notes,
            evidence: pipeline.options.evidence,
        }
    }

    /// The languages, where the model states its directions and the text has letters.
    pub fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// The number of sentences.
    pub fn n_sentences(&self) -> usize {
        self.sentences.len()
    }

    /// The sentences, in order.
    pub fn sentences(&self) -> impl Iterator<Item = RoutedSentence> {
        self.sentences.iter().enumerate().map(|(index, sentence)| RoutedSentence {
            text: self.text[sentence.text.clone()].to_owned(),
            hops: self.hops.clone(),
            is_first: index == self.first,
        })
    }

    /// The translation of the text, from those of its sentences.
    ///
    /// # Panics
    /// If there are more or fewer translations than sentences.
    pub fn join(&self, translated: &[impl Borrow<Translation>]) -> Translation {
        assert_eq!(translated.len(), self.n_sentences(), "one translation for each sentence");
        let translated: Vec<&Translation> = translated.iter().map(Borrow::borrow).collect();
        let n_best = translated.iter().map(|own| own.n_best.len()).max().unwrap_or(1);
        let candidates: Vec<(Candidate, Vec<usize>)> =
            (0..n_best).map(|rank| self.candidate(&translated, rank)).collect();
        let alignment = (self.evidence == Evidence::Alignment).then(|| match candidates.first() {
            Some((best, starts)) if !self.hops.is_empty() => self.alignment(&translated, &best.text, starts),
            _ => self.identity_alignment(),
        });
        let copied = (self.evidence == Evidence::Copies).then(|| match candidates.first() {
            Some((best, starts)) => self.copied(&translated, &best.text, starts),
            None => Vec::new(),
        });
        Translation {
            n_best: candidates.into_iter().map(|(candidate, _)| candidate).collect(),
            alignment,
            copied,
            notes: self.joined_notes(&translated),
            source_tokens: translated.iter().map(|own| own.source_tokens).sum(),
            route: self.route.clone(),
            segments: joined_segments(&translated),
        }
    }

    /// The translation made of the candidates of this rank, and the byte where each sentence begins in it.
    fn candidate(&self, translated: &[&Translation], rank: usize) -> (Candidate, Vec<usize>) {
        let mut joiner = Joiner::new(&self.text[self.body..self.start]);
        let mut starts = Vec::with_capacity(translated.len());
        for (index, (span, own)) in self.sentences.iter().zip(translated).enumerate() {
            let own = own.n_best.get(rank).unwrap_or_else(|| &own.n_best[own.n_best.len() - 1]);
            let Candidate { ref text, score, log_probability, tokens } = *own;
            let sentence = Sentence {
                text: &self.text[span.text.clone()],
                separator: &self.text[span.text.end..span.end],
            };
            let scores = (tokens > 0).then_some(Scores { score, log_probability, tokens });
            starts.push(joiner.push(sentence, text, scores));
            if index + 1 < self.sentences.len() {
                joiner.space_after(sentence);
            }
        }
        (joiner.finish(), starts)
    }

    /// Joins the alignments of the sentences into that of the text.
    fn alignment(&self, translated: &[&Translation], best: &str, starts: &[usize]) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let (mut source_words, mut target_words) = (WordCounter::new(&self.text), WordCounter::new(best));
        for ((sentence, own), start) in self.sentences.iter().zip(translated).zip(starts) {
            let source = source_words.at(sentence.text.start);
            let target = target_words.at(*start);
            let own = own.alignment.iter().flatten().map(|pair| (source + pair.0, target + pair.1));
            // Where two sentences share a word, the first has it.
            let taken = pairs.last().map(|pair| pair.1);
            pairs.extend(own.filter(|pair| Some(pair.1) != taken));
        }
        pairs
    }

    /// Joins the copied words of the sentences into those of the text.
    fn copied(&self, translated: &[&Translation], best: &str, starts: &[usize]) -> Vec<CopiedWord> {
        let (mut source_words, mut target_words) = (WordCounter::new(&self.text), WordCounter::new(best));
        let mut all = Vec::new();
        for ((sentence, own), start) in self.sentences.iter().zip(translated).zip(starts) {
            let (source, target) = (source_words.at(sentence.text.start), target_words.at(*start));
            all.extend(own.copied.iter().flatten().map(|word| CopiedWord {
                source: word.source.map(|own| source + own),
                target: target + word.target,
                ..word.clone()
            }));
        }
        all
    }

    /// The alignment of a text that is copied without its tag: each word with itself.
    fn identity_alignment(&self) -> Vec<(usize, usize)> {
        let words = |text: &str| text.split_whitespace().count();
        let body = words(&self.text[self.body..]);
        let tag = words(&self.text).saturating_sub(body);
        (0..body).map(|word| (tag + word, word)).collect()
    }

    fn joined_notes(&self, translated: &[&Translation]) -> Vec<Note> {
        let mut notes = self.notes.clone();
        for note in translated.iter().flat_map(|own| &own.notes) {
            note.add_to(&mut notes);
        }
        let is_cut = |note: &Note| matches!(note, Note::Cut { .. });
        let n_whole = translated.iter().filter(|own| !own.notes.iter().any(is_cut)).count();
        if let Some(Note::Cut { parts }) = notes.iter_mut().find(|note| is_cut(note)) {
            *parts += n_whole;
        }
        notes
    }
}

/// The segments of all sentences.
fn joined_segments(translated: &[&Translation]) -> Vec<DecodedSegment> {
    let own = |(sentence, own): (usize, &&Translation)| {
        own.segments
            .iter()
            .map(move |segment| DecodedSegment { sentence, ..segment.clone() })
            .collect::<Vec<_>>()
    };
    translated.iter().enumerate().flat_map(own).collect()
}
