//! Distinct n-best lists: a model trained with several segmentations of a word can fill a beam with one text. Segments with
//! too few texts are searched again, with hypotheses of the same text merged.

use polyhead_models::decode::Hypothesis;

use crate::Result;
use crate::options::Mode;
use crate::pipeline::Pipeline;
use crate::search::{DecoderInput, Search};
use crate::segment::{Segment, Tags};

/// Beams of the searches for other texts, in multiples of those of the first search.
const BEAM_TIMES: [usize; 3] = [1, 2, 4];

impl Pipeline<'_> {
    /// True if only the best of several hypotheses with the same text counts. Samples stay as drawn.
    pub(super) fn has_distinct_texts(&self) -> bool {
        self.options.n_best > 1 && self.options.mode == Mode::Guarded && self.options.sampling.is_none()
    }

    /// The hypotheses of a segment that carry all its placeholders, and the first of each text where they are to be distinct.
    pub(super) fn chosen(&self, segment: &Segment<'_>, found: Vec<Hypothesis>) -> Result<Vec<Hypothesis>> {
        let masked = segment.masked.as_ref();
        let (mut chosen, mut texts) = (Vec::new(), Vec::new());
        for hypothesis in found {
            let mut text = segment.decode(self.engine, &hypothesis.ids)?;
            if let Some(masked) = masked {
                let is_carried = match &segment.tags {
                    Tags::Aside(stripped) => stripped.is_carried_by(&text),
                    _ => masked.n_placeholders() == 0 || masked.is_carried_by(segment.sentence.text, &text),
                };
                if !is_carried {
                    continue;
                }
                // A sentence in capitals has one text, whatever case the model wrote.
                text = masked.restore(segment.sentence.text, &text).text;
            }
            let text = text.trim().to_owned();
            if !(self.has_distinct_texts() && texts.contains(&text)) {
                texts.push(text);
                chosen.push(hypothesis);
            }
        }
        Ok(chosen)
    }

    /// Searches for other texts where there are fewer than `n_best`, with more beams where that is not enough: texts that
    /// differ in case alone are the same for a sentence in capitals. A wider list never changes the first: hypotheses that
    /// only this search finds come after it, and those that score better are left out.
    pub(super) fn find_others(&self, segments: &mut [&mut Segment<'_>], search: &Search) -> Result<()> {
        let spellings = self.engine.spellings();
        if spellings.is_none() && !search.is_widened() {
            return Ok(());
        }
        for times in BEAM_TIMES {
            let is_short = |segment: &&mut Segment<'_>| {
                (1..self.options.n_best).contains(&segment.hypotheses.len()) && segment.input.is_some()
            };
            let mut short: Vec<&mut Segment<'_>> =
                segments.iter_mut().map(|segment| &mut **segment).filter(is_short).collect();
            if short.is_empty() {
                break;
            }
            let inputs: Vec<DecoderInput> =
                short.iter().filter_map(|segment| segment.input.clone()).collect();
            let wider = search.with_distinct_texts(spellings.clone(), times);
            let others = self.hypotheses(&inputs, &wider)?;
            for (segment, others) in short.iter_mut().zip(others) {
                let mut all = std::mem::take(&mut segment.hypotheses);
                let best = all[0].score;
                all.extend(others.into_iter().filter(|other| other.score <= best));
                let mut chosen = self.chosen(segment, all)?;
                chosen.sort_by(|a, b| b.score.total_cmp(&a.score));
                chosen.truncate(self.options.n_best);
                segment.hypotheses = chosen;
            }
        }
        Ok(())
    }
}
