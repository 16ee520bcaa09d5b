//! Parts put together again: candidates of a text, their alignment, and notes on what was done.

use crate::Result;
use crate::alignment::{self, Place};
use crate::document::{Document, Part, Repetition, ends_full_width};
use crate::form::{Form, PLACEHOLDERS};
use crate::options::Evidence;
use crate::request::{MAX_NAMED, Request};
use crate::translation::{Candidate, Note, Translation, shortened};

impl Request<'_> {
    /// The parts put together again.
    pub(crate) fn translation(&self, mut document: Document<'_>) -> Result<Translation> {
        note_forms(&mut document);
        self.note_results(&mut document);
        let n_best = document.parts.iter().map(|part| part.found.len()).max().unwrap_or(0).max(1);
        let mut candidates = Vec::with_capacity(n_best);
        let mut places = Vec::new();
        for rank in 0..n_best {
            let (candidate, found) = self.candidate(&document, rank)?;
            candidates.push(candidate);
            if rank == 0 {
                places = found;
            }
        }
        for place in places.iter().filter(|place| place.is_empty() && !place.source.is_empty()) {
            let sentence = shortened(&document.text[place.source.clone()]);
            document.notes.push(Note::Empty { sentence });
        }
        let alignment = match self.options.evidence {
            Evidence::None => None,
            Evidence::Alignment => Some(alignment::of_texts(
                self.engine,
                document.leg.tag,
                document.text,
                &candidates[0].text,
                &places,
            )?),
        };
        let source_tokens =
            document.parts.iter().filter_map(|part| part.job.as_ref()).map(|job| job.source.len()).sum();
        Ok(Translation { n_best: candidates, alignment, notes: document.notes, source_tokens, route: None })
    }

    fn note_results(&self, document: &mut Document<'_>) {
        let unknown = self.engine.tokenizers.target().unknown_id();
        let mut written = 0;
        for part in &document.parts {
            let Some(best) = part.found.first() else { continue };
            if let Some(repetition) = part.repetition {
                let (sentence, is_cured) = (shortened(part.sentence.text), repetition == Repetition::Cured);
                document.notes.push(Note::Repetition { sentence, is_cured });
            }
            written += best.ids.iter().filter(|id| Some(**id) == unknown).count();
            if best.ids.len() >= self.search.max_length() {
                let (sentence, tokens) = (shortened(part.sentence.text), best.ids.len());
                document.notes.push(Note::Limit { sentence, tokens });
            }
        }
        if written > 0 {
            document.notes.push(Note::UnknownWritten { tokens: written });
        }
    }

    /// The translation that takes the hypothesis of this rank of every part, and where its parts stand.
    fn candidate(&self, document: &Document<'_>, rank: usize) -> Result<(Candidate, Vec<Place>)> {
        let mut candidate = Candidate { text: document.lead.to_owned(), ..Candidate::default() };
        let mut places = Vec::new();
        let mut scores = Vec::new();
        for (index, part) in document.parts.iter().enumerate() {
            match part.found.get(rank).or(part.found.last()) {
                None => {
                    if self.alphabet().n_placeholders() > 0 {
                        places.push(place(document, part, None, &mut candidate.text));
                    } else {
                        candidate.text.push_str(part.sentence.text);
                    }
                }
                Some(hypothesis) => {
                    let mut written = self.engine.decode(&hypothesis.ids)?;
                    if part.form.is_none() && self.alphabet().n_placeholders() > 0 {
                        // They stand for nothing here.
                        written.retain(|character| !PLACEHOLDERS.contains(&character));
                    }
                    candidate.log_probability += hypothesis.log_probability;
                    candidate.tokens += hypothesis.ids.len();
                    scores.push(hypothesis.score);
                    places.push(place(document, part, Some(written), &mut candidate.text));
                }
            }
            candidate.text.push_str(part.sentence.separator);
            if part.needs_space() && index + 1 < document.parts.len() && !ends_full_width(&candidate.text) {
                candidate.text.push(' ');
            }
        }
        // The mean of the sentences: as each falls with the rank, so does it. One sentence keeps the bits of its score.
        candidate.score = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        Ok((candidate, places))
    }
}

/// Adds what the model wrote for a part to `text`, with everything put back, and says where it stands; the sentence where
/// the model did not see it.
fn place(document: &Document<'_>, part: &Part<'_>, written: Option<String>, text: &mut String) -> Place {
    let start = text.len();
    let sentence = part.sentence.text;
    let source_start = sentence.as_ptr() as usize - document.text.as_ptr() as usize;
    let form = part.form.as_ref().zip(written.as_ref());
    let form = form.map(|(form, written)| (form.clone(), form.restore(sentence, written)));
    match (&form, &written) {
        (Some((_, restored)), _) => text.push_str(&restored.text),
        (None, Some(written)) => text.push_str(written),
        (None, None) => text.push_str(sentence),
    }
    Place { source: source_start..source_start + sentence.len(), target: start, written, form }
}

/// Notes what was kept and what was read in small letters.
fn note_forms(document: &mut Document<'_>) {
    let forms = || document.parts.iter().filter_map(|part| Some((part.sentence.text, part.form.as_ref()?)));
    let sentences = forms().filter(|(_, form)| form.is_in_capitals()).count();
    let kept = |(text, form): (&str, &Form)| {
        let ranges = form.set_aside(text).into_iter().chain(form.kept().iter().cloned());
        ranges.map(|range| shortened(text[range].trim())).collect::<Vec<_>>()
    };
    let mut things: Vec<String> = forms().flat_map(kept).filter(|thing| !thing.is_empty()).collect();
    things.dedup();
    things.truncate(MAX_NAMED);
    if !things.is_empty() {
        document.notes.push(Note::Kept { things });
    }
    if sentences > 0 {
        document.notes.push(Note::Capitals { sentences });
    }
}
