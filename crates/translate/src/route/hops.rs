//! Sentences along the hops of their routes: the best translation of the first hop is the source of the second.

use crate::alignment::compose;
use crate::options::TranslateOptions;
use crate::pipeline::{HopInput, Pipeline};
use crate::segment::RoutedSentence;
use crate::translation::{DecodedSegment, Note, Translation, shortened};
use crate::{Engine, Result};

impl Engine {
    /// Translates sentences; one translation per sentence, in order. The languages of `options` do not count here: a
    /// sentence has its hops.
    ///
    /// # Errors
    /// If the options are invalid for this model.
    pub fn translate_sentences(
        &self,
        sentences: &[RoutedSentence],
        options: &TranslateOptions,
    ) -> Result<Vec<Translation>> {
        self.translate_sentences_while(sentences, options, &|| true)
    }

    /// Like [`Engine::translate_sentences`], as long as `is_wanted` returns true.
    ///
    /// # Errors
    /// The same, and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn translate_sentences_while(
        &self,
        sentences: &[RoutedSentence],
        options: &TranslateOptions,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Translation>> {
        let options = &self.effective(options);
        let first_hops = self.first_hops(sentences, options, is_wanted)?;
        let inputs = sentences.iter().zip(&first_hops).filter_map(|(sentence, first)| {
            let text = first.as_ref().map_or(sentence.text.as_str(), Translation::text);
            Some(HopInput { text, hop: sentence.hops.last()?, is_first: sentence.is_first })
        });
        let inputs: Vec<HopInput<'_>> = inputs.collect();
        let last_hops = Pipeline::while_wanted(self, options, is_wanted)?.run(&inputs)?;
        Ok(last_hops
            .into_iter()
            .zip(&first_hops)
            .zip(sentences)
            .map(|((last, first), sentence)| chained(first.as_ref(), last, &sentence.text))
            .collect())
    }

    /// The translations of the first of two hops; prefix, lexical constraints and n-best list apply to the second.
    fn first_hops(
        &self,
        sentences: &[RoutedSentence],
        options: &TranslateOptions,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Option<Translation>>> {
        let has_two = |sentence: &RoutedSentence| sentence.hops.len() > 1;
        let inputs = sentences.iter().filter(|sentence| has_two(sentence));
        let inputs =
            inputs.map(|sentence| HopInput { text: &sentence.text, hop: &sentence.hops[0], is_first: true });
        let inputs: Vec<HopInput<'_>> = inputs.collect();
        let options =
            TranslateOptions { n_best: 1, prefix: String::new(), lexical: Vec::new(), ..options.clone() };
        let mut translated = Pipeline::while_wanted(self, &options, is_wanted)?.run(&inputs)?.into_iter();
        Ok(sentences
            .iter()
            .map(|sentence| if has_two(sentence) { translated.next() } else { None })
            .collect())
    }
}

/// The translations of a sentence in two hops as one.
fn chained(first: Option<&Translation>, mut last: Translation, sentence: &str) -> Translation {
    let Some(first) = first else { return last };
    if first.is_unsure() {
        last.notes.retain(|note| !matches!(note, Note::Unsure { .. }));
    }
    for note in &mut last.notes {
        // The reader knows the sentence, not what the first hop made of it.
        if let Note::Unsure { sentence: named, .. } = note {
            *named = shortened(sentence);
        }
    }
    let mut notes = first.notes.clone();
    notes.extend(last.notes.into_iter().filter(|note| !first.notes.contains(note)));
    last.notes = notes;
    last.source_tokens += first.source_tokens;
    let second = last.segments.into_iter().map(|segment| DecodedSegment { hop: 1, ..segment });
    last.segments = first.segments.iter().cloned().chain(second).collect();
    last.alignment = match (&first.alignment, last.alignment) {
        (Some(before), Some(after)) => Some(compose(before, &after)),
        _ => None,
    };
    last
}
