//! A text during a hop: its segments, what the model reads of each, and what it wrote.

use polyhead_models::decode::Hypothesis;

use super::Sentence;
use crate::mask::{MaskedSentence, StrippedSentence};
use crate::preserve::{PreservedKind, PreservedSpan};
use crate::route::Hop;
use crate::search::repetition::severity;
use crate::search::{DecoderInput, ForcedTokens};
use crate::translation::{Note, shortened};
use crate::{Engine, Result};

/// A text during a hop.
pub(crate) struct HopText<'a> {
    pub(crate) text: &'a str,
    /// White space before the first segment.
    pub(crate) lead: &'a str,
    pub(crate) segments: Vec<Segment<'a>>,
    pub(crate) notes: Vec<Note>,
    /// Pieces of the text that the vocabulary lacks.
    pub(crate) unknown: Vec<String>,
    pub(crate) hop: &'a Hop,
}

impl<'a> HopText<'a> {
    pub(crate) fn new(text: &'a str, lead: &'a str, hop: &'a Hop) -> Self {
        Self { text, lead, segments: Vec::new(), notes: Vec::new(), unknown: Vec::new(), hop }
    }

    /// Appends a sentence that is copied, or replaced, because nothing but preserved spans and quantities is in it.
    pub(crate) fn copy(&mut self, segment: Segment<'a>, preserved: &[PreservedSpan]) {
        if preserved.iter().any(|span| span.kind == PreservedKind::Foreign) {
            self.notes.push(Note::Unspelled { sentence: shortened(segment.sentence.text) });
        }
        self.segments.push(segment);
    }

    /// Adds notes: the number of sentences, and the number of additional parts that long ones were split into.
    pub(crate) fn note_splits(&mut self, n_sentences: usize, n_cut: usize) {
        if n_sentences > 1 {
            self.notes.push(Note::Split { sentences: n_sentences });
        }
        if n_cut > 0 {
            self.notes.push(Note::Cut { parts: n_sentences + n_cut });
        }
    }

    /// Notes the pieces that the vocabulary lacks.
    pub(crate) fn note_unknown(&mut self) {
        if !self.unknown.is_empty() {
            self.notes.push(Note::Unknown { pieces: std::mem::take(&mut self.unknown) });
        }
    }
}

/// A sentence, or a part of one, that the model decodes at once.
#[derive(Clone)]
pub(crate) struct Segment<'a> {
    pub(crate) sentence: Sentence<'a>,
    /// The sentence with placeholders; none where the model reads the sentence itself.
    pub(crate) masked: Option<MaskedSentence>,
    /// The decoder's input; none for a sentence that is only copied.
    pub(crate) input: Option<DecoderInput>,
    /// Its hypotheses, best first.
    pub(crate) hypotheses: Vec<Hypothesis>,
    /// The outcome of decoding a loop again; none without a loop.
    pub(crate) loop_outcome: Option<LoopOutcome>,
    /// Number of halvings because the translation found no end.
    pub(crate) n_halvings: usize,
    /// The text of a sentence that is not given to the model; none where it is copied as it is.
    pub(crate) replacement: Option<String>,
    /// Its inline tags.
    pub(crate) tags: Tags,
    /// The attempt before this one, which lacked nothing but names.
    pub(crate) without_names: Option<Box<Segment<'a>>>,
    /// True if it stays as it is, whatever names it lacks.
    pub(crate) are_names_checked: bool,
}

/// The inline tags of a segment.
#[derive(Clone)]
pub(crate) enum Tags {
    /// The model reads their placeholders.
    Read,
    /// The model does not read them.
    Aside(StrippedSentence),
    /// They are placed in this translation, the placeholders of all spans in place.
    Placed(String),
}

/// The outcome of decoding a loop again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopOutcome {
    /// The loop is gone.
    Cured,
    /// It still loops.
    Left,
}

impl<'a> Segment<'a> {
    pub(crate) fn new(sentence: Sentence<'a>, masked: Option<MaskedSentence>, input: DecoderInput) -> Self {
        Self { masked, input: Some(input), ..Self::copied(sentence) }
    }

    /// A segment that is not given to the model.
    pub(crate) fn copied(sentence: Sentence<'a>) -> Self {
        Self {
            sentence,
            masked: None,
            input: None,
            hypotheses: Vec::new(),
            loop_outcome: None,
            n_halvings: 0,
            replacement: None,
            tags: Tags::Read,
            without_names: None,
            are_names_checked: false,
        }
    }

    /// A segment that is not given to the model and becomes another text, if there is one.
    pub(crate) fn replaced(sentence: Sentence<'a>, replacement: Option<String>) -> Self {
        Self { replacement, ..Self::copied(sentence) }
    }

    /// Its text where the model does not translate it.
    pub(crate) fn copied_text(&self) -> &str {
        self.replacement.as_deref().unwrap_or(self.sentence.text)
    }

    /// The text of target ids, with the words of its own source.
    pub(crate) fn decode(&self, engine: &Engine, ids: &[u32]) -> Result<String> {
        match &self.input {
            Some(input) => engine.decode_of(ids, &input.words),
            None => engine.decode(ids),
        }
    }

    /// The tokens that its translation must have.
    pub(crate) fn forced(&self) -> ForcedTokens {
        self.input.as_ref().map_or_else(ForcedTokens::default, |input| input.forced.clone())
    }

    /// True if it waits to be decoded.
    pub(crate) fn is_waiting(&self) -> bool {
        self.input.is_some() && self.hypotheses.is_empty()
    }

    /// Severity of the worst loop of its best hypothesis, in tokens; 0 without a loop.
    pub(crate) fn severity(&self) -> usize {
        match (&self.input, self.hypotheses.first()) {
            (Some(input), Some(best)) => severity(&input.source, &best.ids),
            _ => 0,
        }
    }

    /// The number of its placeholders.
    pub(crate) fn n_placeholders(&self) -> usize {
        self.masked.as_ref().map_or(0, MaskedSentence::n_placeholders)
    }
}
