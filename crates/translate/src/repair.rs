//! Repair: text that the model lost is preserved in a second or third attempt.
//!
//! A number that is missing in the translation gets a placeholder, as an address does. Where no hypothesis carries every
//! placeholder once, the text around the preserved spans is translated by itself and joined with them. A sentence whose
//! translation finds no end is translated in halves, and a half that finds none either is copied.

use std::ops::Range;

use rayon::prelude::*;

use crate::Result;
use crate::alignment::align_words;
use crate::mask::{Case, MaskedSentence};
use crate::options::Mode;
use crate::pipeline::Pipeline;
use crate::prepare::{SentenceContext, missing_quantities, overlap, trimmed};
use crate::preserve::{PreservedKind, PreservedSpan, names};
use crate::route::Hop;
use crate::search::DecoderInput;
use crate::segment::{HopText, Segment, Tags, cut};
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
            if let Some(before) = segment.without_names.clone().filter(|_| segment.is_waiting()) {
                let names = segment.masked.as_ref().map_or(&[][..], MaskedSentence::preserved).iter();
                let names = names.filter(|span| span.kind == PreservedKind::Name);
                let spans = names.map(|span| shortened(&segment.sentence.text[span.range.clone()])).collect();
                text.notes.push(Note::Lost { spans });
                text.segments.push(*before);
                continue;
            }
            let were_aside = matches!(segment.tags, Tags::Aside(_));
            let segment = self.with_tags(segment, text.hop)?;
            if !were_aside && matches!(segment.tags, Tags::Aside(_)) {
                is_changed = true;
                text.segments.push(segment);
                continue;
            }
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
            let lost = self.lost_quantities(&segment, text.hop)?;
            if lost.is_empty() {
                let segment = self.preserving_names(segment, text.hop)?;
                is_changed |= segment.is_waiting();
                text.segments.push(segment);
                continue;
            }
            is_changed = true;
            let segment = self.preserving(&segment, lost, text.hop)?;
            if segment.n_placeholders() > self.alphabet().n_placeholders() {
                text.segments.extend(self.without_placeholders(&segment, text.hop)?);
            } else {
                text.segments.push(segment);
            }
        }
        Ok(is_changed)
    }

    /// Repairs the tags of a segment. One whose tags no hypothesis carries is decoded without them, and the tags are placed
    /// by the word alignment; if that fails too, its text around the tags is going to be translated by itself.
    fn with_tags<'t>(&self, mut segment: Segment<'t>, hop: &Hop) -> Result<Segment<'t>> {
        let Some(masked) = &segment.masked else { return Ok(segment) };
        match &segment.tags {
            Tags::Read if segment.is_waiting() => {
                let Some(stripped) = masked.without_tags(segment.sentence.text) else { return Ok(segment) };
                let end_id = self.engine.model.special_ids().end_id;
                let encoding = self.engine.tokenizers.encode_source(&stripped.text, end_id)?;
                let forced = segment.forced();
                segment.input = Some(DecoderInput { forced, ..self.decoder_input(encoding, hop)? });
                segment.tags = Tags::Aside(stripped);
            }
            Tags::Aside(stripped) => {
                let Some(best) = segment.hypotheses.first() else { return Ok(segment) };
                let written = segment.decode(self.engine, &best.ids)?;
                let alignment = align_words(self.engine, hop.tag, [&stripped.text, &written])?;
                let placed = stripped.placed(&written, &alignment);
                let placed = placed.filter(|placed| masked.is_carried_by(segment.sentence.text, placed));
                segment.hypotheses.truncate(usize::from(placed.is_some()));
                segment.tags = placed.map_or(Tags::Read, Tags::Placed);
            }
            Tags::Read | Tags::Placed(_) => {}
        }
        Ok(segment)
    }

    /// True if the best translation of a segment is far longer than any correct one, and the segment can be cut.
    fn is_endless(&self, segment: &Segment<'_>) -> bool {
        let (Some(input), Some(best)) = (&segment.input, segment.hypotheses.first()) else { return false };
        let max_length = self.search.max_length(input.forced.prefix.len());
        let limit = max_length.min(ENDLESS_RATIO * input.source.len() + ENDLESS_EXTRA);
        self.options.max_length.is_none() && best.ids.len() >= limit && input.source.len() >= MIN_TO_HALVE
    }

    /// A segment in two, at a clause mark if possible.
    fn halves<'t>(&self, segment: &Segment<'t>, hop: &Hop) -> Result<Vec<Segment<'t>>> {
        let masked = segment.masked.as_ref();
        let encoding = self.encode(segment.sentence.text, masked)?;
        let context = SentenceContext { hop, case: Case::of(masked) };
        let mut forced = segment.forced();
        let mut halves = Vec::new();
        let whole = self.uncut(segment.sentence.text, masked, hop);
        for sentence in cut(segment.sentence, &encoding, encoding.len().div_ceil(2), &whole) {
            let preserved = self.preserve(sentence.text, context);
            let half = self.segment(sentence, &preserved, context, &mut forced)?;
            halves.push(Segment { n_halvings: segment.n_halvings + 1, ..half });
        }
        Ok(halves)
    }

    /// The quantities of a segment that its best hypothesis lacks, as spans to preserve.
    pub(crate) fn lost_quantities(&self, segment: &Segment<'_>, hop: &Hop) -> Result<Vec<PreservedSpan>> {
        let Some(written) = self.written(segment)? else { return Ok(Vec::new()) };
        let lost = missing_quantities(segment.sentence.text, &written, hop);
        Ok(lost.into_iter().filter(|span| is_free(segment, &span.range)).collect())
    }

    /// The best translation of a segment with its preserved spans in place; none where the model wrote none.
    fn written(&self, segment: &Segment<'_>) -> Result<Option<String>> {
        let Some(best) = segment.hypotheses.first() else { return Ok(None) };
        let written = match &segment.tags {
            Tags::Placed(written) => written.clone(),
            _ => segment.decode(self.engine, &best.ids)?,
        };
        Ok(Some(match &segment.masked {
            Some(masked) => masked.restore(segment.sentence.text, &written).text,
            None => written,
        }))
    }

    /// The segment with further spans preserved, to be decoded again.
    fn preserving<'t>(
        &self,
        segment: &Segment<'t>,
        spans: Vec<PreservedSpan>,
        hop: &Hop,
    ) -> Result<Segment<'t>> {
        let text = segment.sentence.text;
        let mut preserved = segment.masked.as_ref().map_or_else(Vec::new, |masked| masked.unread(text));
        preserved.extend(spans);
        preserved.sort_by_key(|span| span.range.start);
        let context = SentenceContext { hop, case: Case::of(segment.masked.as_ref()) };
        let found = self.segment(segment.sentence, &preserved, context, &mut segment.forced())?;
        Ok(Segment { are_names_checked: segment.are_names_checked, ..found })
    }

    /// The segment with the names that its best hypothesis lacks preserved, to be decoded again; the segment itself if it
    /// lacks none. Where the second attempt fails the first one stays: a sentence in parts is worse than a name.
    fn preserving_names<'t>(&self, mut segment: Segment<'t>, hop: &Hop) -> Result<Segment<'t>> {
        let Some((from, _)) = hop.languages.as_ref().filter(|_| !segment.are_names_checked) else {
            return Ok(segment);
        };
        let room = self.alphabet().n_placeholders().saturating_sub(segment.n_placeholders());
        let written = match self.written(&segment)? {
            Some(written) if room > 0 && Case::of(segment.masked.as_ref()) == Case::Mixed => written,
            _ => return Ok(segment),
        };
        let text = segment.sentence.text;
        let n_tokens =
            |word: &str| self.engine.tokenizers.source().encode(word).map_or(0, |found| found.len());
        let names = names::find(text, from, &n_tokens).into_iter().filter(|name| is_free(&segment, name));
        // Of a first and a last name both are preserved: the model may lose the other one next, or take them apart.
        let is_lost = |name: &Range<usize>| !names::is_written(&text[name.clone()], &written);
        let whole = |name: Range<usize>| match from.as_str() {
            "de" => names::with_last_name(text, name, &written),
            _ => name,
        };
        let names = names::joined(text, names).into_iter().map(whole).filter(|name| is_free(&segment, name));
        let spans = names.filter(is_lost).take(room);
        let spans = spans.map(|range| PreservedSpan::unchanged(range, PreservedKind::Name));
        let spans: Vec<PreservedSpan> = spans.collect();
        if spans.is_empty() {
            return Ok(segment);
        }
        let again = self.preserving(&segment, spans, hop)?;
        segment.are_names_checked = true;
        Ok(Segment { without_names: Some(Box::new(segment)), ..again })
    }

    /// A segment without placeholders: preserved spans copied or replaced, the text around them translated by itself.
    fn without_placeholders<'t>(&self, segment: &Segment<'t>, hop: &Hop) -> Result<Vec<Segment<'t>>> {
        let Some(masked) = &segment.masked else { return Ok(vec![segment.clone()]) };
        let text = segment.sentence.text;
        let (mut ranges, mut replacements, mut at) = (Vec::new(), Vec::new(), 0);
        let mut add = |range: Range<usize>, replacement: Option<Option<String>>| {
            let range = trimmed(text, range);
            if !range.is_empty() {
                ranges.push(range);
                replacements.push(replacement);
            }
        };
        for span in masked.unread(text) {
            add(at..span.range.start, None);
            at = span.range.end;
            add(span.range, Some(span.replacement));
        }
        add(at..text.len(), None);
        let context = SentenceContext { hop, case: Case::of(Some(masked)) };
        let mut forced = segment.forced();
        let mut segments = Vec::with_capacity(ranges.len());
        for (sentence, replacement) in segment.sentence.parts(&ranges).into_iter().zip(replacements) {
            segments.push(match replacement {
                None => self.segment(sentence, &[], context, &mut forced)?,
                Some(replacement) => Segment::replaced(sentence, replacement),
            });
        }
        Ok(segments)
    }
}

/// True if a range of a segment overlaps with none that is preserved already.
fn is_free(segment: &Segment<'_>, range: &Range<usize>) -> bool {
    let preserved = segment.masked.as_ref().map_or(&[][..], MaskedSentence::preserved);
    !preserved.iter().any(|span| overlap(&span.range, range))
}
