//! Preserve and encode: from a sentence to the ids that the decoder reads.

use std::ops::Range;

use polyhead_text::tokenizer::Encoding;

use crate::mask::{Case, HopLanguages, MaskedSentence};
use crate::options::Mode;
use crate::pipeline::{HopInput, Pipeline};
use crate::preserve::alphabet::Alphabet;
use crate::preserve::numbers::numbers;
use crate::preserve::{self, PreservedSpan};
use crate::route::Hop;
use crate::search::DecoderInput;
use crate::segment::{HopText, Segment, Sentence, Split, cut, split};
use crate::translation::{MAX_NAMED, shortened};
use crate::{Error, Result};

/// Characters of the longest number that is never cut; a longer one might be too long for the model.
const MAX_NUMBER_LEN: usize = 40;

/// The hop of a sentence, or of a part of one, and the case of its letters.
#[derive(Clone, Copy)]
pub(crate) struct SentenceContext<'a> {
    pub(crate) hop: &'a Hop,
    pub(crate) case: Case,
}

impl Pipeline<'_> {
    pub(crate) fn alphabet(&self) -> &Alphabet {
        &self.engine.alphabet
    }

    /// The sentences of a text; in raw mode the text as one.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Split<'t> {
        match self.options.mode {
            Mode::Raw => Split::whole(text),
            Mode::Guarded => split(text),
        }
    }

    /// The spans of a sentence to preserve; none where the model has no placeholders.
    pub(crate) fn preserve(
        &self,
        sentence: &str,
        SentenceContext { hop, case }: SentenceContext<'_>,
    ) -> Vec<PreservedSpan> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let has = |letter: char| self.alphabet().has(letter, &self.engine.tokenizers);
        // Capitals are going to be read as small letters.
        let is_lowered = hop.languages.is_some() && case.is_capitals(sentence);
        preserve::find(sentence, &|letter| has(letter) || (is_lowered && letter.to_lowercase().all(has)))
    }

    /// True if there is something to translate outside of the preserved spans.
    pub(crate) fn has_text(&self, sentence: &str, preserved: &[PreservedSpan]) -> bool {
        if self.alphabet().n_placeholders() == 0 {
            return sentence.contains(char::is_alphanumeric);
        }
        // Both are in order, so that one pass is enough.
        let mut rest = preserved.iter().peekable();
        sentence.char_indices().any(|(at, letter)| {
            while rest.next_if(|span| span.range.end <= at).is_some() {}
            letter.is_alphabetic() && !rest.peek().is_some_and(|span| span.range.contains(&at))
        })
    }

    /// The sentence with placeholders; none where the model reads the sentence as it is.
    pub(crate) fn mask(
        &self,
        sentence: &str,
        preserved: &[PreservedSpan],
        SentenceContext { hop, case }: SentenceContext<'_>,
    ) -> Option<MaskedSentence> {
        let languages = hop.languages.as_ref().map(|(from, to)| HopLanguages { from, to });
        let n_tokens =
            |word: &str| self.engine.tokenizers.source().encode(word).map_or(usize::MAX, |found| found.len());
        let masked = MaskedSentence::new(sentence, preserved, (languages.as_ref(), case), &n_tokens);
        (!masked.is_plain(sentence)).then_some(masked)
    }

    /// A sentence with more preserved spans than placeholders, in parts with at most as many; otherwise no parts.
    pub(crate) fn split_at_placeholders<'t>(
        &self,
        sentence: Sentence<'t>,
        masked: Option<&MaskedSentence>,
    ) -> Vec<Sentence<'t>> {
        let preserved = masked.map_or(&[][..], MaskedSentence::preserved);
        let starts = preserved.iter().step_by(self.alphabet().n_placeholders().max(1)).skip(1);
        let starts: Vec<usize> = starts.map(|range| range.start).collect();
        if starts.is_empty() {
            return Vec::new();
        }
        let ends = starts.iter().copied().chain([sentence.text.len()]);
        let ranges = std::iter::once(0).chain(starts.iter().copied()).zip(ends);
        let trimmed =
            |(start, end): (usize, usize)| start..start + sentence.text[start..end].trim_end().len();
        sentence.parts(&ranges.map(trimmed).collect::<Vec<_>>())
    }

    /// A sentence with too many tokens in parts, otherwise the sentence alone.
    pub(crate) fn split_by_length<'t>(
        &self,
        sentence: Sentence<'t>,
        masked: Option<&MaskedSentence>,
        encoding: &Encoding,
    ) -> Vec<Sentence<'t>> {
        cut(sentence, encoding, self.max_tokens, &self.uncut(sentence.text, masked))
    }

    /// The ranges of a sentence that are never cut: preserved spans, and numbers, which could not be found again.
    pub(crate) fn uncut(&self, sentence: &str, masked: Option<&MaskedSentence>) -> Vec<Range<usize>> {
        if self.alphabet().n_placeholders() == 0 {
            return Vec::new();
        }
        let short = numbers(sentence).into_iter().filter(|number| number.len() <= MAX_NUMBER_LEN);
        masked.map_or_else(Vec::new, |masked| masked.unchanged(sentence)).into_iter().chain(short).collect()
    }

    /// The ids of what the model reads; offsets are bytes of the sentence.
    pub(crate) fn encode(&self, sentence: &str, masked: Option<&MaskedSentence>) -> Result<Encoding> {
        let end_id = self.engine.model.special_ids().end_id;
        let Some(masked) = masked else { return self.engine.tokenizers.encode_source(sentence, end_id) };
        let mut encoding = self.engine.tokenizers.encode_source(&masked.text, end_id)?;
        encoding.offsets.iter_mut().for_each(|span| *span = masked.origin.map(span));
        Ok(encoding)
    }

    /// A text as one segment, as it is (raw mode).
    pub(crate) fn encode_whole<'t>(&self, HopInput { text, hop, .. }: HopInput<'t>) -> Result<HopText<'t>> {
        let Split { lead, sentences } = Split::whole(text);
        let mut whole = HopText::new(text, lead, hop);
        for sentence in sentences {
            let encoding = self.encode(sentence.text, None)?;
            self.add_unknown(sentence.text, &encoding, &mut whole.unknown);
            let input = self.decoder_input(encoding.ids, hop);
            let (length, max_len) = (input.source.len(), self.engine.model.max_len());
            if length > max_len {
                let message =
                    format!("{:?} has {length} tokens, expected at most {max_len}", shortened(text));
                return Err(Error::request(message, "leave out --raw to have it translated in parts"));
            }
            whole.segments.push(Segment::new(sentence, None, input));
        }
        whole.note_unknown();
        Ok(whole)
    }

    /// A part of a sentence as a segment, with the prefix if it still waits; copied where nothing is to be translated.
    pub(crate) fn segment<'t>(
        &self,
        sentence: Sentence<'t>,
        preserved: &[PreservedSpan],
        context: SentenceContext<'_>,
        prefix: &mut Vec<u32>,
    ) -> Result<Segment<'t>> {
        if !self.has_text(sentence.text, preserved) {
            return Ok(Segment::copied(sentence));
        }
        let masked = self.mask(sentence.text, preserved, context);
        let mut input = self.decoder_input(self.encode(sentence.text, masked.as_ref())?.ids, context.hop);
        input.prefix = std::mem::take(prefix);
        Ok(Segment::new(sentence, masked, input))
    }

    /// The ids of a sentence after the tag of its hop, with the prefix of the options.
    pub(crate) fn decoder_input(&self, mut source: Vec<u32>, hop: &Hop) -> DecoderInput {
        source.splice(0..0, hop.tag);
        DecoderInput { source, prefix: self.prefix.clone() }
    }

    /// Adds the pieces of `text` that the vocabulary lacks to `pieces`.
    pub(crate) fn add_unknown(&self, text: &str, encoding: &Encoding, pieces: &mut Vec<String>) {
        let unknown = self.engine.tokenizers.source().unknown_id();
        for (id, span) in encoding.ids.iter().zip(&encoding.offsets) {
            if Some(*id) == unknown {
                let piece = shortened(text[span.clone()].trim());
                if pieces.len() == MAX_NAMED {
                    pieces.push("…".into());
                }
                if pieces.len() > MAX_NAMED {
                    return;
                }
                if !piece.is_empty() && !pieces.contains(&piece) {
                    pieces.push(piece);
                }
            }
        }
    }
}
