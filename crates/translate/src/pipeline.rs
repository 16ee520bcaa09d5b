//! From texts to translations: languages, then for each step split, cut, encode, decode, mend, join.

use rayon::prelude::*;

use crate::document::{Document, Part};
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::request::{Errand, Request};
use crate::route::{Journey, journeys};
use crate::translation::{Candidate, Translation};
use crate::{Engine, Result};

impl Engine {
    /// Translates texts; the result has one translation for each, in order. An empty text stays empty.
    ///
    /// # Errors
    /// If the options make no sense for this model.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        let request = Request::new(self, options)?;
        let journeys = journeys(self.languages(), texts, options)?;
        let first_steps = self.first_steps(texts, &journeys, options)?;
        let mut errands = Vec::with_capacity(texts.len());
        for ((text, journey), first) in texts.iter().zip(&journeys).zip(&first_steps) {
            let Some(leg) = journey.legs.last() else { continue };
            errands.push(match first {
                Some(first) => Errand { text: first.text(), body: first.text(), leg },
                None => Errand { text, body: journey.body, leg },
            });
        }
        let mut last_steps = request.run(&errands)?.into_iter();
        let mut finish = |((text, journey), first): ((&&str, Journey<'_>), Option<&Translation>)| {
            let last = if journey.legs.is_empty() { None } else { last_steps.next() };
            let last = last.unwrap_or_else(|| unchanged(text, journey.body, options.evidence));
            joined(journey, first, last)
        };
        let firsts = first_steps.iter().map(Option::as_ref);
        Ok(texts.iter().zip(journeys).zip(firsts).map(&mut finish).collect())
    }

    /// What comes of the first step where there are two; the prefix and the n best are the second's.
    fn first_steps(
        &self,
        texts: &[&str],
        journeys: &[Journey<'_>],
        options: &TranslateOptions,
    ) -> Result<Vec<Option<Translation>>> {
        let errands: Vec<Option<Errand<'_>>> = texts
            .iter()
            .zip(journeys)
            .map(|(text, journey)| match journey.legs.as_slice() {
                [leg, _] => Some(Errand { text, body: journey.body, leg }),
                _ => None,
            })
            .collect();
        let options = TranslateOptions { n_best: 1, prefix: String::new(), ..options.clone() };
        let asked: Vec<Errand<'_>> = errands.iter().flatten().copied().collect();
        let mut found = Request::new(self, &options)?.run(&asked)?.into_iter();
        Ok(errands.iter().map(|errand| errand.as_ref().and_then(|_| found.next())).collect())
    }
}

impl Request<'_> {
    /// Takes texts through the model once.
    pub(crate) fn run(&self, errands: &[Errand<'_>]) -> Result<Vec<Translation>> {
        let mut documents =
            errands.par_iter().map(|errand| self.document(*errand)).collect::<Result<Vec<Document<'_>>>>()?;
        loop {
            let parts = documents.iter_mut().flat_map(|document| &mut document.parts);
            let mut parts: Vec<&mut Part<'_>> = parts.filter(|part| part.is_waiting()).collect();
            self.decode(&mut parts, &self.search)?;
            if self.options.mode == Mode::Guarded {
                self.decode_loops_again(&mut parts)?;
            }
            if self.alphabet().n_placeholders() == 0 || self.options.mode == Mode::Raw {
                break;
            }
            let changed = documents
                .par_iter_mut()
                .map(|document| self.mend(document))
                .collect::<Result<Vec<bool>>>()?;
            if !changed.contains(&true) {
                break;
            }
        }
        documents.into_par_iter().map(|document| self.translation(document)).collect()
    }
}

/// A text that nothing was done to but leaving a tag off.
fn unchanged(text: &str, body: &str, evidence: Evidence) -> Translation {
    let words = |text: &str| text.split_whitespace().count();
    let tag = words(text) - words(body).min(words(text));
    let pairs = || (0..words(body)).map(|word| (tag + word, word)).collect();
    Translation {
        n_best: vec![Candidate { text: body.to_owned(), ..Candidate::default() }],
        alignment: (evidence == Evidence::Alignment).then(pairs),
        notes: Vec::new(),
        source_tokens: 0,
        route: None,
    }
}

/// The steps of a text as one.
fn joined(journey: Journey<'_>, first: Option<&Translation>, mut last: Translation) -> Translation {
    let mut notes = journey.notes;
    let steps = first.iter().flat_map(|first| first.notes.clone()).chain(std::mem::take(&mut last.notes));
    for note in steps {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    if let Some(first) = first {
        last.source_tokens += first.source_tokens;
        last.alignment = match (&first.alignment, last.alignment) {
            (Some(before), Some(after)) => Some(composed(before, &after)),
            _ => None,
        };
    }
    Translation { notes, route: journey.route, ..last }
}

/// From words to words of words.
fn composed(before: &[(usize, usize)], after: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let origin = |middle: usize| before.iter().find(|pair| pair.1 == middle).map(|pair| pair.0);
    after.iter().filter_map(|&(middle, target)| Some((origin(middle)?, target))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_lead_through_the_words_between() {
        assert_eq!(composed(&[(0, 0), (2, 1), (1, 2)], &[(1, 0), (2, 1), (5, 2)]), [(2, 0), (1, 1)]);
    }

    #[test]
    fn what_stays_stands_for_itself() {
        let found = unchanged(">>en<< a b", "a b", Evidence::Alignment);
        assert_eq!((found.text(), &found.alignment), ("a b", &Some(vec![(1, 0), (2, 1)])));
    }
}
