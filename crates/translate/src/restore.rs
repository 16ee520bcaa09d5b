//! Restore and join: from hypotheses to the translation of a text, with its alignment and notes.

use std::ops::Range;

use polyhead_models::decode::Hypothesis;

use crate::Result;
use crate::alignment::{AlignedPart, align_parts};
use crate::copies::{CopiedWord, DecodedPart};
use crate::mask::{MaskedSentence, PLACEHOLDERS, RestoredSentence};
use crate::options::{Evidence, Mode};
use crate::pipeline::Pipeline;
use crate::segment::{HopText, Joiner, LoopOutcome, Scores, Segment, Tags};
use crate::translation::{Candidate, DecodedSegment, MAX_NAMED, Note, Translation, shortened};

/// The translation of a segment with its preserved spans in place.
struct RestoredSegment<'a> {
    /// The model's output; none where the sentence was copied.
    written: Option<String>,
    /// The mask and the restored sentence; none where the sentence was not masked.
    restored: Option<(&'a MaskedSentence, RestoredSentence)>,
    scores: Option<Scores>,
}

impl Pipeline<'_> {
    /// Restore → join: the translation of a text.
    pub(crate) fn restore_and_join(&self, mut text: HopText<'_>) -> Result<Translation> {
        let mut notes = std::mem::take(&mut text.notes);
        note_masks(&text, &mut notes);
        self.note_hypotheses(&text, &mut notes);
        self.note_lost(&text, &mut notes)?;
        let n_best = text.segments.iter().map(|segment| segment.hypotheses.len()).max().unwrap_or(0).max(1);
        let mut candidates = Vec::with_capacity(n_best);
        let mut best_parts = Vec::new();
        for rank in 0..n_best {
            let restored = text.segments.iter().map(|segment| self.restore(segment, rank));
            let restored = restored.collect::<Result<Vec<_>>>()?;
            let (candidate, parts) = self.join(&text, restored);
            candidates.push(candidate);
            if rank == 0 {
                best_parts = parts;
            }
        }
        for part in best_parts.iter().filter(|part| part.is_empty() && !part.source.is_empty()) {
            notes.push(Note::Empty { sentence: shortened(&text.text[part.source.clone()]) });
        }
        let alignment = match self.options.evidence {
            Evidence::None | Evidence::Segments | Evidence::Copies => None,
            Evidence::Alignment => {
                let target = &candidates[0].text;
                Some(align_parts(self.engine, text.hop.tag, [text.text, target], &best_parts)?)
            }
        };
        let inputs = text.segments.iter().filter_map(|segment| segment.input.as_ref());
        let source_tokens = inputs.map(|input| input.source.len()).sum();
        let segments = match self.options.evidence {
            Evidence::Segments => self.decoded_segments(&text)?,
            Evidence::None | Evidence::Alignment | Evidence::Copies => Vec::new(),
        };
        let copied = match self.options.evidence {
            Evidence::Copies => Some(self.copied_words(&text, &candidates[0].text, &best_parts)?),
            Evidence::None | Evidence::Alignment | Evidence::Segments => None,
        };
        Ok(Translation { n_best: candidates, alignment, copied, notes, source_tokens, route: None, segments })
    }

    /// The copied words of the best translation, whose parts are those of the segments that the model decoded.
    fn copied_words(
        &self,
        text: &HopText<'_>,
        target: &str,
        parts: &[AlignedPart<'_>],
    ) -> Result<Vec<CopiedWord>> {
        let mut decoded = Vec::new();
        for segment in &text.segments {
            let source = source_range(text, segment);
            let part = parts.iter().find(|part| part.source == source && part.written.is_some());
            let (Some(part), Some(input), Some(best)) = (part, &segment.input, segment.hypotheses.first())
            else {
                continue;
            };
            let spans = self.encode(segment.sentence.text, segment.masked.as_ref())?.offsets;
            let tag = text.hop.tag.map(|_| 0..0);
            let shifted = spans.into_iter().map(|span| {
                if span.is_empty() { 0..0 } else { source.start + span.start..source.start + span.end }
            });
            let source_spans = tag.into_iter().chain(shifted).collect();
            decoded.push(DecodedPart { input, best, source_spans, target: part.target });
        }
        self.engine.copied_words([text.text, target], &decoded)
    }

    /// What the model read and wrote of each segment.
    fn decoded_segments(&self, text: &HopText<'_>) -> Result<Vec<DecodedSegment>> {
        let decoded = |segment: &Segment<'_>| {
            let RestoredSegment { written, restored, .. } = self.restore(segment, 0)?;
            let sentence = segment.sentence.text;
            let read = match (&segment.masked, &segment.tags) {
                (Some(masked), Tags::Read) => Some(masked.text.clone()),
                // Tags that are placed by alignment are not read.
                (Some(masked), _) => masked.without_tags(sentence).map(|stripped| stripped.text),
                (None, _) => None,
            };
            let best = segment.hypotheses.first();
            let source = best.and(segment.input.as_ref()).map(|input| input.source.clone());
            Ok(DecodedSegment {
                languages: text.hop.languages.clone(),
                text: sentence.to_owned(),
                read: read.unwrap_or_else(|| sentence.to_owned()),
                source: source.unwrap_or_default(),
                target: best.map_or_else(Vec::new, |best| best.ids.clone()),
                translation: match (restored, written) {
                    (Some((_, restored)), _) => restored.text,
                    (None, Some(written)) => written,
                    (None, None) => segment.copied_text().to_owned(),
                },
                ..DecodedSegment::default()
            })
        };
        text.segments.iter().map(decoded).collect()
    }

    /// The translation of a segment by its hypothesis of this rank, or the last one; the sentence itself without any.
    fn restore<'a>(&self, segment: &'a Segment<'_>, rank: usize) -> Result<RestoredSegment<'a>> {
        let Some(hypothesis) = segment.hypotheses.get(rank).or(segment.hypotheses.last()) else {
            return Ok(RestoredSegment { written: None, restored: None, scores: None });
        };
        let mut written = match &segment.tags {
            Tags::Placed(written) => written.clone(),
            _ => segment.decode(self.engine, &hypothesis.ids)?,
        };
        if segment.masked.is_none() && self.alphabet().n_placeholders() > 0 {
            // No preserved span belongs to them.
            written.retain(|character| !PLACEHOLDERS.contains(&character));
        }
        let restored = segment.masked.as_ref();
        let restored = restored.map(|masked| (masked, masked.restore(segment.sentence.text, &written)));
        let scores = Scores {
            score: hypothesis.score,
            log_probability: hypothesis.log_probability,
            tokens: hypothesis.ids.len(),
        };
        Ok(RestoredSegment { written: Some(written), restored, scores: Some(scores) })
    }

    /// The segments joined to one translation, and their positions for the alignment.
    fn join<'a>(
        &self,
        text: &HopText<'_>,
        restored: Vec<RestoredSegment<'a>>,
    ) -> (Candidate, Vec<AlignedPart<'a>>) {
        let mut joiner = Joiner::new(text.lead);
        let mut parts = Vec::new();
        for (index, (segment, own)) in text.segments.iter().zip(restored).enumerate() {
            let RestoredSegment { written, restored, scores } = own;
            let target = match (&restored, &written) {
                (Some((_, restored)), _) => restored.text.as_str(),
                (None, Some(written)) => written,
                (None, None) => segment.copied_text(),
            };
            let copied_len = target.len();
            let start = joiner.push(segment.sentence, target, scores);
            if index + 1 < text.segments.len() {
                joiner.space_after(segment.sentence);
            }
            // Models without placeholders leave copied sentences out of the alignment.
            if written.is_some() || self.alphabet().n_placeholders() > 0 {
                parts.push(AlignedPart {
                    source: source_range(text, segment),
                    target: start,
                    copied_len,
                    written,
                    restored,
                });
            }
        }
        (joiner.finish(), parts)
    }

    /// Notes the quantities that the best translation lacks, which no repair could save.
    fn note_lost(&self, text: &HopText<'_>, notes: &mut Vec<Note>) -> Result<()> {
        if self.options.mode == Mode::Raw {
            return Ok(());
        }
        let mut spans = Vec::new();
        for segment in &text.segments {
            let lost = self.lost_quantities(segment, text.hop)?;
            spans.extend(lost.into_iter().map(|span| shortened(&segment.sentence.text[span.range])));
        }
        spans.truncate(MAX_NAMED);
        if !spans.is_empty() {
            notes.push(Note::Lost { spans });
        }
        Ok(())
    }

    /// Notes loops, unknown tokens, low probabilities and translations that reached the maximum length.
    fn note_hypotheses(&self, text: &HopText<'_>, notes: &mut Vec<Note>) {
        let unknown = self.engine.tokenizers.target().unknown_id();
        let mut n_unknown = 0;
        for segment in &text.segments {
            let Some(best) = segment.hypotheses.first() else { continue };
            if let Some(outcome) = segment.loop_outcome {
                let is_cured = outcome == LoopOutcome::Cured;
                notes.push(Note::Repetition { sentence: shortened(segment.sentence.text), is_cured });
            }
            n_unknown += best.ids.iter().filter(|id| Some(**id) == unknown).count();
            if best.ids.len() >= self.search.max_length(segment.forced().prefix.len()) {
                let (sentence, tokens) = (shortened(segment.sentence.text), best.ids.len());
                notes.push(Note::Limit { sentence, tokens });
            }
            if let Some(log_probability) = self.unsure(segment, best) {
                notes.push(Note::Unsure { sentence: shortened(segment.sentence.text), log_probability });
            }
        }
        if n_unknown > 0 {
            notes.push(Note::UnknownWritten { tokens: n_unknown });
        }
    }
}

impl Pipeline<'_> {
    /// The mean log-probability of a token of the best hypothesis, where it is low. What was sampled, or has
    /// tokens that the model did not choose, says nothing about the model.
    fn unsure(&self, segment: &Segment<'_>, best: &Hypothesis) -> Option<f64> {
        let below = self.engine.generation().unsure_below?;
        let is_own = self.options.sampling.is_none() && segment.forced().is_empty();
        let mean = best.log_probability / best.ids.len().max(1) as f64;
        (is_own && mean < below).then_some(mean)
    }
}

/// The bytes of a segment in its text.
fn source_range(text: &HopText<'_>, segment: &Segment<'_>) -> Range<usize> {
    let start = segment.sentence.text.as_ptr() as usize - text.text.as_ptr() as usize;
    start..start + segment.sentence.text.len()
}

/// Notes preserved spans and sentences in capitals.
fn note_masks(text: &HopText<'_>, notes: &mut Vec<Note>) {
    let masks =
        || text.segments.iter().filter_map(|segment| Some((segment.sentence.text, segment.masked.as_ref()?)));
    let in_capitals = masks().filter(|(_, masked)| masked.is_in_capitals()).count();
    let spans = |(text, masked): (&str, &MaskedSentence)| {
        masked.unread(text).iter().map(|span| shortened(span.text(text).trim())).collect::<Vec<_>>()
    };
    let mut spans: Vec<String> = masks().flat_map(spans).filter(|span| !span.is_empty()).collect();
    spans.dedup();
    spans.truncate(MAX_NAMED);
    if !spans.is_empty() {
        notes.push(Note::Preserved { spans });
    }
    if in_capitals > 0 {
        notes.push(Note::Capitals { sentences: in_capitals });
    }
}
