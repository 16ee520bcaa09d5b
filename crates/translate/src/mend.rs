//! Nothing is lost: what the model did not carry over is kept by a second or third way.
//!
//! A number that is missing in the translation is kept as an address is. Where the model loses or doubles a placeholder
//! in every hypothesis, what stands around the kept things is translated by itself and joined with them. A sentence whose
//! translation finds no end is translated in halves, and what finds none then either stays as it is.

use std::ops::Range;

use crate::Result;
use crate::cut::cut;
use crate::document::{Document, Part};
use crate::form::{Case, Form};
use crate::kept::{Kept, Kind};
use crate::numbers::missing;
use crate::request::{Reading, Request};
use crate::route::Leg;
use crate::split::Sentence;
use crate::translation::{Note, shortened};

/// A translation has fewer tokens than this many times those of its source,
const LONGEST_SHARE: usize = 4;
/// and this many.
const LONGEST_BESIDES: usize = 32;
/// A part of fewer tokens is not cut.
const FEWEST_TO_CUT: usize = 16;

/// What finds no end after so many halvings is not language; it stays as it is.
const MOST_HALVINGS: usize = 2;

impl Request<'_> {
    /// Sets right what is lost in a text; whether parts wait to be decoded again.
    pub(crate) fn mend(&self, document: &mut Document<'_>) -> Result<bool> {
        let mut is_changed = false;
        for part in std::mem::take(&mut document.parts) {
            if part.is_waiting() {
                document.notes.push(Note::Around { sentence: shortened(part.sentence.text) });
                let pieces = self.pieces(&part, document.leg)?;
                is_changed |= pieces.iter().any(Part::is_waiting);
                document.parts.extend(pieces);
                continue;
            }
            if self.is_endless(&part) {
                if part.halvings == MOST_HALVINGS {
                    document.notes.push(Note::Copied { sentence: shortened(part.sentence.text) });
                    document.parts.push(Part::copied(part.sentence));
                    continue;
                }
                let halves = self.halves(&part, document.leg)?;
                if halves.len() > 1 {
                    is_changed = true;
                    document.notes.push(Note::Halved { sentence: shortened(part.sentence.text) });
                    document.parts.extend(halves);
                    continue;
                }
            }
            let lost = self.lost_numbers(&part)?;
            if lost.is_empty() {
                document.parts.push(part);
                continue;
            }
            is_changed = true;
            let part = self.keeping(&part, &lost, document.leg)?;
            if part.form.as_ref().is_some_and(|form| form.n_kept() > self.alphabet().n_placeholders()) {
                document.parts.extend(self.pieces(&part, document.leg)?);
            } else {
                document.parts.push(part);
            }
        }
        Ok(is_changed)
    }

    /// Whether the best translation of a part is far longer than any that is right, and the part can be cut.
    fn is_endless(&self, part: &Part<'_>) -> bool {
        let (Some(job), Some(best)) = (&part.job, part.found.first()) else { return false };
        let limit = self.search.max_length().min(LONGEST_SHARE * job.source.len() + LONGEST_BESIDES);
        self.options.max_length.is_none() && best.ids.len() >= limit && job.source.len() >= FEWEST_TO_CUT
    }

    /// A part in two, at a clause if it can be.
    fn halves<'t>(&self, part: &Part<'t>, leg: &Leg) -> Result<Vec<Part<'t>>> {
        let encoding = self.encode_form(part.sentence.text, part.form.as_ref())?;
        let reading = Reading { leg, case: Case::of(part.form.as_ref()) };
        let mut prefix = part.prefix();
        let mut halves = Vec::new();
        let whole = self.uncut(part.sentence.text, part.form.as_ref());
        for sentence in cut(part.sentence, &encoding, encoding.len().div_ceil(2), &whole) {
            let half = self.part(sentence, &self.kept(sentence.text, reading), reading, &mut prefix)?;
            halves.push(Part { halvings: part.halvings + 1, ..half });
        }
        Ok(halves)
    }

    /// The numbers of a part that its best hypothesis lacks.
    fn lost_numbers(&self, part: &Part<'_>) -> Result<Vec<Range<usize>>> {
        let Some(best) = part.found.first() else { return Ok(Vec::new()) };
        let text = part.sentence.text;
        let written = self.engine.decode(&best.ids)?;
        let kept = part.form.as_ref().map_or(&[][..], Form::kept);
        let written = part.form.as_ref().map_or(written.clone(), |form| form.restore(text, &written).text);
        let overlaps = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let is_free = |number: &Range<usize>| !kept.iter().any(|kept| overlaps(kept, number));
        Ok(missing(text, &written).into_iter().filter(is_free).collect())
    }

    /// The part with these numbers kept besides, to be decoded again.
    fn keeping<'t>(&self, part: &Part<'t>, numbers: &[Range<usize>], leg: &Leg) -> Result<Part<'t>> {
        let text = part.sentence.text;
        let (aside, before) = match &part.form {
            Some(form) => (form.set_aside(text), form.kept().to_vec()),
            None => (Vec::new(), Vec::new()),
        };
        let symbols = aside.into_iter().map(|range| Kept { range, kind: Kind::Symbol });
        let others =
            before.into_iter().chain(numbers.iter().cloned()).map(|range| Kept { range, kind: Kind::Number });
        let mut kept: Vec<Kept> = symbols.chain(others).collect();
        kept.sort_by_key(|kept| kept.range.start);
        let reading = Reading { leg, case: Case::of(part.form.as_ref()) };
        self.part(part.sentence, &kept, reading, &mut part.prefix())
    }

    /// A part without placeholders: the kept things copied, what stands around them translated by itself.
    fn pieces<'t>(&self, part: &Part<'t>, leg: &Leg) -> Result<Vec<Part<'t>>> {
        let Some(form) = &part.form else { return Ok(vec![part.clone()]) };
        let Sentence { text, separator } = part.sentence;
        let mut kept: Vec<Range<usize>> = form.untouched(text);
        kept.sort_by_key(|range| range.start);
        let mut ranges: Vec<(Range<usize>, bool)> = Vec::new();
        let mut at = 0;
        for range in kept {
            ranges.push((trimmed(text, at..range.start), true));
            at = range.end;
            ranges.push((trimmed(text, range), false));
        }
        ranges.push((trimmed(text, at..text.len()), true));
        ranges.retain(|(range, _)| !range.is_empty());
        let reading = Reading { leg, case: Case::of(Some(form)) };
        let mut prefix = part.prefix();
        let mut parts = Vec::with_capacity(ranges.len());
        for (index, (range, is_text)) in ranges.iter().enumerate() {
            let next = ranges.get(index + 1).map(|(next, _)| &text[range.end..next.start]);
            let sentence = Sentence { text: &text[range.clone()], separator: next.unwrap_or(separator) };
            parts.push(match is_text {
                true => self.part(sentence, &[], reading, &mut prefix)?,
                false => Part::copied(sentence),
            });
        }
        Ok(parts)
    }
}

/// A range without the white space at its ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.start + slice.len() - slice.trim_start().len();
    start..start + slice.trim().len()
}
