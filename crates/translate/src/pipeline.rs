//! From texts to translations: outlines, then for the steps of all passages cut, encode, decode, mend, join.

use rayon::prelude::*;

use crate::document::{Document, Part};
use crate::options::{Mode, TranslateOptions};
use crate::outline::{Outline, Passage};
use crate::request::{Errand, Request};
use crate::translation::Translation;
use crate::{Engine, Result};

impl Engine {
    /// Translates texts; the result has one translation for each, in order. An empty text stays empty.
    ///
    /// # Errors
    /// If the options make no sense for this model.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        let outlines = self.outlines(texts, options)?;
        let passages: Vec<Passage> = outlines.iter().flat_map(Outline::passages).collect();
        let mut found = self.translate_passages(&passages, options)?.into_iter();
        let joined = outlines.iter().map(|outline| {
            let own: Vec<Translation> = found.by_ref().take(outline.n_passages()).collect();
            outline.join(&own)
        });
        Ok(joined.collect())
    }

    /// Translates passages; the result has one translation for each, in order. The languages of `options` say nothing here:
    /// a passage has its way.
    ///
    /// # Errors
    /// If the options make no sense for this model.
    pub fn translate_passages(
        &self,
        passages: &[Passage],
        options: &TranslateOptions,
    ) -> Result<Vec<Translation>> {
        self.translate_passages_while(passages, options, &|| true)
    }

    /// The same, as long as `go_on` says that somebody waits for it.
    ///
    /// # Errors
    /// The same, and [`Error::Unwanted`](crate::Error::Unwanted).
    pub fn translate_passages_while(
        &self,
        passages: &[Passage],
        options: &TranslateOptions,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Translation>> {
        let first_steps = self.first_steps(passages, options, go_on)?;
        let errands = passages.iter().zip(&first_steps).filter_map(|(passage, first)| {
            let text = first.as_ref().map_or(passage.text.as_str(), Translation::text);
            Some(Errand { text, leg: passage.legs.last()?, is_first: passage.is_first })
        });
        let errands: Vec<Errand<'_>> = errands.collect();
        let last_steps = Request::while_wanted(self, options, go_on)?.run(&errands)?;
        Ok(last_steps
            .into_iter()
            .zip(&first_steps)
            .map(|(last, first)| joined(first.as_ref(), last))
            .collect())
    }

    /// What comes of the first step where there are two; the prefix and the n best are the second's.
    fn first_steps(
        &self,
        passages: &[Passage],
        options: &TranslateOptions,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Option<Translation>>> {
        let asked = passages.iter().filter(|passage| passage.legs.len() > 1);
        let asked =
            asked.map(|passage| Errand { text: &passage.text, leg: &passage.legs[0], is_first: true });
        let asked: Vec<Errand<'_>> = asked.collect();
        let options = TranslateOptions { n_best: 1, prefix: String::new(), ..options.clone() };
        let mut found = Request::while_wanted(self, &options, go_on)?.run(&asked)?.into_iter();
        Ok(passages.iter().map(|passage| if passage.legs.len() > 1 { found.next() } else { None }).collect())
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

/// The steps of a passage as one.
fn joined(first: Option<&Translation>, mut last: Translation) -> Translation {
    let Some(first) = first else { return last };
    let mut notes = first.notes.clone();
    notes.extend(last.notes.into_iter().filter(|note| !first.notes.contains(note)));
    last.notes = notes;
    last.source_tokens += first.source_tokens;
    last.alignment = match (&first.alignment, last.alignment) {
        (Some(before), Some(after)) => Some(composed(before, &after)),
        _ => None,
    };
    last
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
}
