//! A text before it is translated: its way, and its sentences as passages.
//!
//! A passage is translated by itself: what comes of it does not depend on its text, its batch or its neighbours. So whoever
//! has many texts may queue, mix and remember passages as it likes, and joins the texts again from what came of them.
//!
//! ```no_run
//! # use polyhead_translate::{Engine, LoadOptions, TranslateOptions};
//! # let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let options = TranslateOptions::default();
//! let outline = engine.outlines(&["Good morning. How are you?"], &options)?.remove(0);
//! let found = engine.translate_passages(&outline.passages().collect::<Vec<_>>(), &options)?;
//! assert_eq!(outline.join(&found), engine.translate(&["Good morning. How are you?"], &options)?[0]);
//! # Ok::<(), polyhead_translate::Error>(())
//! ```

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use crate::document::ends_full_width;
use crate::form::Case;
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::request::{Reading, Request};
use crate::route::{Journey, Leg, Route, journeys};
use crate::split::{Sentence, Split, split};
use crate::translation::{Candidate, Note, Translation};
use crate::{Engine, Result};

/// A sentence and its way through the model. Equal ones have equal translations, if the options are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Passage {
    /// The sentence.
    pub text: String,
    pub(crate) legs: Arc<[Leg]>,
    /// Whether the text begins here, for a prefix.
    pub(crate) is_first: bool,
}

/// A text in passages.
#[derive(Debug, Clone)]
pub struct Outline {
    text: String,
    /// Where the text begins behind a tag.
    body: usize,
    /// Where the first sentence begins.
    start: usize,
    sentences: Vec<Place>,
    /// The sentence that a prefix belongs to.
    first: usize,
    legs: Arc<[Leg]>,
    route: Option<Route>,
    notes: Vec<Note>,
    evidence: Evidence,
}

/// Where a sentence stands in its text, in bytes.
#[derive(Debug, Clone)]
struct Place {
    text: Range<usize>,
    /// The white space behind it ends here.
    end: usize,
}

impl Engine {
    /// The ways and sentences of texts, in order.
    ///
    /// # Errors
    /// If the options make no sense for this model.
    pub fn outlines(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Outline>> {
        let request = Request::new(self, options)?;
        let journeys = journeys(self.languages(), texts, options)?;
        Ok(texts.iter().zip(journeys).map(|(text, journey)| Outline::new(&request, text, journey)).collect())
    }
}

impl Outline {
    fn new(request: &Request<'_>, text: &str, journey: Journey<'_>) -> Self {
        let Journey { body, legs, route, mut notes } = journey;
        let Split { lead, sentences } = match (request.options.mode, legs.first()) {
            (_, None) => Split { lead: body, sentences: Vec::new() },
            (Mode::Raw, _) => Split { lead: "", sentences: vec![Sentence { text: body, separator: "" }] },
            (Mode::Guarded, _) => split(body),
        };
        if sentences.len() > 1 {
            notes.push(Note::Split { sentences: sentences.len() });
        }
        let is_text = |sentence: &Sentence<'_>| {
            legs.last().is_some_and(|leg| {
                request
                    .has_text(sentence.text, &request.kept(sentence.text, Reading { leg, case: Case::Seen }))
            })
        };
        let first = if request.options.prefix.is_empty() { None } else { sentences.iter().position(is_text) };
        let body = text.len() - body.len();
        let place = |sentence: &Sentence<'_>| {
            let start = sentence.text.as_ptr() as usize - text.as_ptr() as usize;
            let end = start + sentence.text.len();
            Place { text: start..end, end: end + sentence.separator.len() }
        };
        Self {
            text: text.to_owned(),
            body,
            start: body + lead.len(),
            sentences: sentences.iter().map(place).collect(),
            first: first.unwrap_or(0),
            legs: legs.into(),
            route,
            notes,
            evidence: request.options.evidence,
        }
    }

    /// From which language into which, where the model says what it was trained on and the text has letters.
    pub fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// How many passages there are.
    pub fn n_passages(&self) -> usize {
        self.sentences.len()
    }

    /// The passages, in order.
    pub fn passages(&self) -> impl Iterator<Item = Passage> {
        self.sentences.iter().enumerate().map(|(index, sentence)| Passage {
            text: self.text[sentence.text.clone()].to_owned(),
            legs: self.legs.clone(),
            is_first: index == self.first,
        })
    }

    /// The translation of the text, from those of its passages.
    ///
    /// # Panics
    /// If there are fewer than passages.
    pub fn join(&self, found: &[impl Borrow<Translation>]) -> Translation {
        assert_eq!(found.len(), self.n_passages(), "one translation for each passage");
        let found: Vec<&Translation> = found.iter().map(Borrow::borrow).collect();
        let n_best = found.iter().map(|own| own.n_best.len()).max().unwrap_or(1);
        let candidates: Vec<(Candidate, Vec<usize>)> =
            (0..n_best).map(|rank| self.candidate(&found, rank)).collect();
        let alignment = (self.evidence == Evidence::Alignment).then(|| match candidates.first() {
            Some((best, starts)) if !self.legs.is_empty() => self.alignment(&found, &best.text, starts),
            _ => self.unchanged(),
        });
        Translation {
            n_best: candidates.into_iter().map(|(candidate, _)| candidate).collect(),
            alignment,
            notes: self.joined_notes(&found),
            source_tokens: found.iter().map(|own| own.source_tokens).sum(),
            route: self.route.clone(),
        }
    }

    /// The translation that takes this rank of every passage, and where each begins in it.
    fn candidate(&self, found: &[&Translation], rank: usize) -> (Candidate, Vec<usize>) {
        let mut joined =
            Candidate { text: self.text[self.body..self.start].to_owned(), ..Candidate::default() };
        let (mut starts, mut scores) = (Vec::with_capacity(found.len()), Vec::new());
        for (index, (sentence, own)) in self.sentences.iter().zip(found).enumerate() {
            let own = own.n_best.get(rank).unwrap_or_else(|| &own.n_best[own.n_best.len() - 1]);
            starts.push(joined.text.len());
            joined.text.push_str(&own.text);
            let separator = &self.text[sentence.text.end..sentence.end];
            joined.text.push_str(separator);
            joined.log_probability += own.log_probability;
            joined.tokens += own.tokens;
            if own.tokens > 0 {
                scores.push(own.score);
            }
            let is_last = index + 1 == self.sentences.len();
            // The marks of the source may need no space behind them where those of the target do.
            let is_close = separator.is_empty() && ends_full_width(&self.text[sentence.text.clone()]);
            if is_close && !is_last && !ends_full_width(&joined.text) {
                joined.text.push(' ');
            }
        }
        // The mean of the sentences: as each falls with the rank, so does it. One sentence keeps the bits of its score.
        joined.score = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        (joined, starts)
    }

    /// Words of passages as words of the text.
    fn alignment(&self, found: &[&Translation], best: &str, starts: &[usize]) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let (mut source_words, mut target_words) = (Words::of(&self.text), Words::of(best));
        for ((sentence, own), start) in self.sentences.iter().zip(found).zip(starts) {
            let source = source_words.at(sentence.text.start);
            let target = target_words.at(*start);
            let own = own.alignment.iter().flatten().map(|pair| (source + pair.0, target + pair.1));
            // Where two sentences share a word, the first has it.
            let taken = pairs.last().map(|pair| pair.1);
            pairs.extend(own.filter(|pair| Some(pair.1) != taken));
        }
        pairs
    }

    /// The words of a text that nothing was done to but leaving a tag off.
    fn unchanged(&self) -> Vec<(usize, usize)> {
        let words = |text: &str| text.split_whitespace().count();
        let body = words(&self.text[self.body..]);
        let tag = words(&self.text).saturating_sub(body);
        (0..body).map(|word| (tag + word, word)).collect()
    }

    fn joined_notes(&self, found: &[&Translation]) -> Vec<Note> {
        let mut notes = self.notes.clone();
        for note in found.iter().flat_map(|own| &own.notes) {
            note.add_to(&mut notes);
        }
        let whole = found.iter().filter(|own| !own.notes.iter().any(|note| matches!(note, Note::Cut { .. })));
        let n_whole = whole.count();
        if let Some(Note::Cut { parts }) = notes.iter_mut().find(|note| matches!(note, Note::Cut { .. })) {
            *parts += n_whole;
        }
        notes
    }
}

/// The words of a text, counted from its beginning on.
struct Words<'a> {
    text: &'a str,
    /// Up to here,
    place: usize,
    /// so many begin.
    count: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, place: 0, count: 0 }
    }

    /// The index of the word that stands at `place`, or of the next one. Places only rise.
    fn at(&mut self, place: usize) -> usize {
        let mut is_inside = self.text[..self.place].ends_with(is_of_word);
        for letter in self.text[self.place..place].chars() {
            self.count += usize::from(is_of_word(letter) && !is_inside);
            is_inside = is_of_word(letter);
        }
        self.place = place;
        self.count - usize::from(is_inside && self.text[place..].starts_with(is_of_word))
    }
}

fn is_of_word(letter: char) -> bool {
    !letter.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_from_the_text() {
        let text = " ab cde。fg";
        let mut words = Words::of(text);
        let found = ["ab", "cde", "fg"].map(|part| words.at(text.find(part).unwrap()));
        assert_eq!((found, words.at(text.len())), ([0, 1, 1], 2));
        let mut word = Words::of("ab");
        assert_eq!([word.at(0), word.at(1), word.at(2)], [0, 0, 1]);
    }
}
