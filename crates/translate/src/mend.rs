//! Nothing is lost: what the model did not carry over is kept by a second or third way.
//!
//! A number that is missing in the translation is kept as an address is. Where the model loses or doubles a placeholder
//! in every hypothesis, what stands around the kept things is translated by itself and joined with them.

use std::ops::Range;

use crate::Result;
use crate::document::{Document, Part};
use crate::form::Form;
use crate::kept::{Kept, Kind};
use crate::numbers::missing;
use crate::request::Request;
use crate::route::Leg;
use crate::split::Sentence;
use crate::translation::{Note, shortened};

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
            let lost = self.lost_numbers(&part)?;
            if lost.is_empty() {
                document.parts.push(part);
                continue;
            }
            is_changed = true;
            document.parts.push(self.keeping(part, &lost, document.leg)?);
        }
        Ok(is_changed)
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
    fn keeping<'t>(&self, part: Part<'t>, numbers: &[Range<usize>], leg: &Leg) -> Result<Part<'t>> {
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
        let form = self.form(text, &kept, leg);
        let source = self.encode_form(text, form.as_ref())?.ids;
        let prefix = part.job.map(|job| job.prefix).unwrap_or_default();
        let mut next = Part::new(part.sentence, form, self.job(source, leg));
        if let Some(job) = &mut next.job {
            job.prefix = prefix;
        }
        Ok(next)
    }

    /// A part without placeholders: the kept things copied, what stands around them translated by itself.
    fn pieces<'t>(&self, part: &Part<'t>, leg: &Leg) -> Result<Vec<Part<'t>>> {
        let Some(form) = &part.form else { return Ok(vec![part.clone()]) };
        let Sentence { text, separator } = part.sentence;
        let mut kept: Vec<Range<usize>> =
            form.set_aside(text).into_iter().chain(form.kept().iter().cloned()).collect();
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
        let mut prefix = part.job.as_ref().map(|job| job.prefix.clone());
        let mut parts = Vec::with_capacity(ranges.len());
        for (index, (range, is_text)) in ranges.iter().enumerate() {
            let next = ranges.get(index + 1).map(|(next, _)| &text[range.end..next.start]);
            let sentence = Sentence { text: &text[range.clone()], separator: next.unwrap_or(separator) };
            if !is_text || !self.has_text(sentence.text, &[]) {
                parts.push(Part::copied(sentence));
                continue;
            }
            let form = self.form(sentence.text, &[], leg);
            let source = self.encode_form(sentence.text, form.as_ref())?.ids;
            let mut job = self.job(source, leg);
            job.prefix = prefix.take().unwrap_or_default();
            parts.push(Part::new(sentence, form, job));
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
