//! Repair: text that the model lost is preserved in a second or third attempt.
//!
//! A number that is missing in the translation gets a placeholder, as an address does. Where no hypothesis carries every
//! placeholder once, the text around the preserved spans is translated by itself and joined with them. A sentence whose
//! translation finds no end is translated in halves, and a half that finds none either is copied.

use std::ops::Range;

use rayon::prelude::*;

use crate::Result;
use crate::mask::{Case, MaskedSentence};
use crate::options::Mode;
use crate::pipeline::Pipeline;
use crate::prepare::SentenceContext;
use crate::preserve::numbers::missing;
use crate::preserve::{PreservedKind, PreservedSpan};
use crate::route::Hop;
use crate::segment::{HopText, Segment, cut};
use crate::translation::{Note, shortened};

/// A translation without an end has at least this many times the tokens of its source,
const ENDLESS_RATIO: usize = 4;
/// and this many more.
const ENDLESS_EXTRA: usize = 32;
/// Minimum number of source tokens of a segment that is halved.
const MIN_TO_HALVE: usize = 16;
/// Text that finds no end after this many halvings is not language; it is copied.
const MAX_HALVINGS: usize = 2;

impl Pipeline<'_> {
    /// Repairs texts; true if segments wait to be decoded again. Nothing is repaired in raw mode, or by a model without
    /// placeholders.
    pub(crate) fn repair(&self, texts: &mut [HopText<'_>]) -> Result<bool> {
        if self.alphabet().n_placeholders() == 0 || self.options.mode == Mode::Raw {
            return Ok(false);
        }
        let changed =
            texts.par_iter_mut().map(|text| self.repair_text(text)).collect::<Result<Vec<bool>>>()?;
        Ok(changed.contains(&true))
    }

    /// Repairs one text; true if segments wait to be decoded again.
    fn repair_text(&self, text: &mut HopText<'_>) -> Result<bool> {
        let mut is_changed = false;
        for segment in std::mem::take(&mut text.segments) {
            if segment.is_waiting() {
                text.notes.push(Note::Around { sentence: shortened(segment.sentence.text) });
                let parts = self.without_placeholders(&segment, text.hop)?;
                is_changed |= parts.iter().any(Segment::is_waiting);
                text.segments.extend(parts);
                continue;
            }
            if self.is_endless(&segment) {
                if segment.n_halvings == MAX_HALVINGS {
                    text.notes.push(Note::Copied { sentence: shortened(segment.sentence.text) });
                    text.segments.push(Segment::copied(segment.sentence));
                    continue;
                }
                let halves = self.halves(&segment, text.hop)?;
                if halves.len() > 1 {
                    is_changed = true;
                    text.notes.push(Note::Halved { sentence: shortened(segment.sentence.text) });
                    text.segments.extend(halves);
                    continue;
                }
            }
            let lost = self.lost_numbers(&segment)?;
            if lost.is_empty() {
                text.segments.push(segment);
                continue;
            }
            is_changed = true;
            let segment = self.preserving(&segment, &lost, text.hop)?;
            if segment.n_placeholders() > self.alphabet().n_placeholders() {
                text.segments.extend(self.without_placeholders(&segment, text.hop)?);
            } else {
                text.segments.push(segment);
            }
        }
        Ok(is_changed)
    }

    /// True if the best translation of a segment is far longer than any correct one, and the segment can be cut.
    fn is_endless(&self, segment: &Segment<'_>) -> bool {
        let (Some(input), Some(best)) = (&segment.input, segment.hypotheses.first()) else { return false };
        let limit = self.search.max_length().min(ENDLESS_RATIO * input.source.len() + ENDLESS_EXTRA);
        self.options.max_length.is_none() && best.ids.len() >= limit && input.source.len() >= MIN_TO_HALVE
    }

    /// A segment in two, at a clause mark if possible.
    fn halves<'t>(&self, segment: &Segment<'t>, hop: &Hop) -> Result<Vec<Segment<'t>>> {
        let masked = segment.masked.as_ref();
        let encoding = self.encode(segment.sentence.text, masked)?;
        let context = SentenceContext { hop, case: Case::of(masked) };
        let mut prefix = segment.prefix();
        let mut halves = Vec::new();
        let whole = self.uncut(segment.sentence.text, masked);
        for sentence in cut(segment.sentence, &encoding, encoding.len().div_ceil(2), &whole) {
            let preserved = self.preserve(sentence.text, context);
            let half = self.segment(sentence, &preserved, context, &mut prefix)?;
            halves.push(Segment { n_halvings: segment.n_halvings + 1, ..half });
        }
        Ok(halves)
    }

    /// The numbers of a segment that its best hypothesis lacks.
    fn lost_numbers(&self, segment: &Segment<'_>) -> Result<Vec<Range<usize>>> {
        let Some(best) = segment.hypotheses.first() else { return Ok(Vec::new()) };
        let (text, masked) = (segment.sentence.text, segment.masked.as_ref());
        let written = self.engine.decode(&best.ids)?;
        let preserved = masked.map_or(&[][..], MaskedSentence::preserved);
        let written = masked.map_or(written.clone(), |masked| masked.restore(text, &written).text);
        let overlaps = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let is_free = |number: &Range<usize>| !preserved.iter().any(|span| overlaps(span, number));
        Ok(missing(text, &written).into_iter().filter(is_free).collect())
    }

    /// The segment with these numbers preserved too, to be decoded again.
    fn preserving<'t>(
        &self,
        segment: &Segment<'t>,
        numbers: &[Range<usize>],
        hop: &Hop,
    ) -> Result<Segment<'t>> {
        let text = segment.sentence.text;
        let (aside, before) = match &segment.masked {
            Some(masked) => (masked.set_aside(text), masked.preserved().to_vec()),
            None => (Vec::new(), Vec::new()),
        };
        let symbols = aside.into_iter().map(|range| PreservedSpan { range, kind: PreservedKind::Symbol });
        let others = before.into_iter().chain(numbers.iter().cloned());
        let others = others.map(|range| PreservedSpan { range, kind: PreservedKind::Number });
        let mut preserved: Vec<PreservedSpan> = symbols.chain(others).collect();
        preserved.sort_by_key(|span| span.range.start);
        let context = SentenceContext { hop, case: Case::of(segment.masked.as_ref()) };
        self.segment(segment.sentence, &preserved, context, &mut segment.prefix())
    }

    /// A segment without placeholders: preserved spans copied, the text around them translated by itself.
    fn without_placeholders<'t>(&self, segment: &Segment<'t>, hop: &Hop) -> Result<Vec<Segment<'t>>> {
        let Some(masked) = &segment.masked else { return Ok(vec![segment.clone()]) };
        let text = segment.sentence.text;
        let mut unchanged: Vec<Range<usize>> = masked.unchanged(text);
        unchanged.sort_by_key(|range| range.start);
        let (mut ranges, mut is_text, mut at) = (Vec::new(), Vec::new(), 0);
        let end = text.len();
        let gaps_and_spans = unchanged.into_iter().chain(std::iter::once(end..end)).flat_map(|span| {
            let gap = at..span.start;
            at = span.end;
            [(gap, true), (span, false)]
        });
        for (range, is_gap) in gaps_and_spans {
            let range = trimmed(text, range);
            if !range.is_empty() {
                ranges.push(range);
                is_text.push(is_gap);
            }
        }
        let context = SentenceContext { hop, case: Case::of(Some(masked)) };
        let mut prefix = segment.prefix();
        let mut segments = Vec::with_capacity(ranges.len());
        for (sentence, is_text) in segment.sentence.parts(&ranges).into_iter().zip(is_text) {
            segments.push(if is_text {
                self.segment(sentence, &[], context, &mut prefix)?
            } else {
                Segment::copied(sentence)
            });
        }
        Ok(segments)
    }
}

/// A range without the white space at its ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let slice = &text[range.clone()];
    let start = range.start + slice.len() - slice.trim_start().len();
    start..start + slice.trim().len()
}
