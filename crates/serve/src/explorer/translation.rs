//! Translations, as `polyhead translate` gives them, with the trace of one of their segments.

use std::ops::ControlFlow;

use polyhead_attention::Filter;
use polyhead_inspect::export::json;
use polyhead_inspect::trace::{ProgressCallback, Trace, TraceOptions};
use polyhead_translate::{DecodedSegment, Evidence, Note, RoutedSentence, TranslateOptions, Translation};

use super::Explorer;
use super::call::Call;
use super::inspect::at_most;
use crate::wire::{self, NoteAnswer, SegmentAnswer, TraceRequest, TranslationAnswer};
use crate::{Error, Result};

/// Sentences that are translated at once.
const SENTENCES_AT_ONCE: usize = 8;

/// Bytes of memory for each byte of text while it is translated, with its segments.
const TEXT_MEMORY: usize = 32;

/// Heads of the one site that the trace of a long text has, at most.
const ONE_SITE_HEADS: usize = 16;

impl Explorer {
    /// The JSON of a translation and a trace: `{"translation", "trace"}`.
    pub(super) fn trace(
        &self,
        request: &TraceRequest,
        watcher: ProgressCallback<'_>,
        call: &mut Call,
    ) -> Result<String> {
        self.check(request)?;
        let stop = call.stop.clone();
        let watcher: ProgressCallback<'_> =
            &|ids: &[u32]| if stop.is_over() { ControlFlow::Break(()) } else { watcher(ids) };
        if request.as_is || request.target.is_some() {
            let length = self.length(request)?;
            call.reserve(self.trace_memory(request, length))?;
            let options = self.options(request, length)?;
            let trace = Trace::with_progress(self.engine(), &request.text, &options, watcher)?;
            return Ok(answer(&serde_json::Value::Null, Some(&trace)));
        }
        let translation = self.translation(request, call)?;
        let segments = &translation.segments;
        let index = chosen(segments, request.segment)?;
        let trace = index.map(|index| {
            let segment = &segments[index];
            let length = segment.source.len().max(segment.target.len());
            call.reserve(self.trace_memory(request, length))?;
            let options = self.options(request, length)?;
            Trace::of_segment(self.engine(), segment, &options, watcher).map_err(Error::from)
        });
        let trace = trace.transpose()?;
        Ok(answer(&serde_json::json!(described(&translation, index)), trace.as_ref()))
    }

    /// The translation of the text, with its segments.
    fn translation(&self, request: &TraceRequest, call: &mut Call) -> Result<Translation> {
        call.reserve(TEXT_MEMORY * request.text.len())?;
        let options = TranslateOptions {
            from: request.from.clone(),
            to: request.to.clone(),
            english_to: self.english_to.clone(),
            beam_size: request.beam_size,
            evidence: Evidence::Segments,
            ..TranslateOptions::default()
        };
        let plan = self.engine().plan_texts(&[&request.text], &options)?.remove(0);
        let sentences: Vec<RoutedSentence> = plan.sentences().collect();
        let is_wanted = || !call.stop.is_over();
        let mut translated: Vec<Translation> = Vec::with_capacity(sentences.len());
        for some in sentences.chunks(SENTENCES_AT_ONCE) {
            translated.extend(self.engine().translate_sentences_while(some, &options, &is_wanted)?);
        }
        Ok(plan.join(&translated))
    }

    /// Memory of a trace of a text of `length` tokens, in bytes.
    fn trace_memory(&self, request: &TraceRequest, length: usize) -> usize {
        let n_heads = match self.engine().model().alignment_site() {
            _ if request.without_weights => 0,
            Some(_) if length > self.limits.whole => self.n_heads().min(ONE_SITE_HEADS),
            _ => self.n_heads(),
        };
        let target = if request.target.is_some() { length } else { 2 * length + 16 };
        self.pass_memory([length, target.min(self.engine().model().max_len())], n_heads)
    }

    /// Checks a request against the limits.
    fn check(&self, request: &TraceRequest) -> Result<()> {
        for text in [Some(&request.text), request.target.as_ref()].into_iter().flatten() {
            at_most(text.chars().count(), self.limits.text, "characters")?;
        }
        if let Some(beam_size) = request.beam_size {
            at_most(beam_size, self.limits.beam_size, "hypotheses")?;
        }
        at_most(request.prefix.len(), self.limits.tokens, "tokens")?;
        for id in &request.prefix {
            wire::check_index("token", *id as usize, self.engine().model().vocab_sizes()[1])?;
        }
        if request.as_is || request.target.is_some() {
            at_most(self.length(request)?, self.limits.tokens, "tokens")?;
        }
        Ok(())
    }

    /// Tokens of the text as one sentence, or of the given translation, whichever are more.
    fn length(&self, request: &TraceRequest) -> Result<usize> {
        let engine = self.engine();
        let source = engine.encode_source(&request.text, request.from.as_deref(), request.to.as_deref())?.0;
        let target = request.target.as_ref().map(|target| engine.encode_target(target)).transpose()?;
        Ok(source.ids.len().max(target.map_or(0, |target| target.ids.len())))
    }

    /// The options of a trace of this many tokens.
    fn options(&self, request: &TraceRequest, length: usize) -> Result<TraceOptions> {
        let model = self.engine().model();
        let filter = match model.alignment_site() {
            _ if request.without_weights => Filter { layers: Some(Vec::new()), ..Filter::default() },
            Some(site) if length > self.limits.whole => {
                Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), ..Filter::default() }
            }
            _ => Filter::default(),
        };
        Ok(TraceOptions {
            from: request.from.clone(),
            to: request.to.clone(),
            target: request.target.clone(),
            prefix: request.prefix.clone(),
            beam_size: request.beam_size,
            n_alternatives: 8,
            filter,
            intervention: request.intervention.intervention(&model.sites())?,
            ..TraceOptions::default()
        })
    }
}

/// The segment to trace: the requested one, or the first that the model decoded.
fn chosen(segments: &[DecodedSegment], requested: Option<usize>) -> Result<Option<usize>> {
    let is_decoded = |segment: &DecodedSegment| !segment.source.is_empty();
    match requested {
        Some(index) => {
            wire::check_index("segment", index, segments.len())?;
            Ok(Some(index).filter(|index| is_decoded(&segments[*index])))
        }
        None => Ok(segments.iter().position(is_decoded)),
    }
}

/// `{"translation", "trace"}`.
fn answer(translation: &serde_json::Value, trace: Option<&Trace>) -> String {
    let trace = trace.map_or_else(|| "null".to_owned(), |trace| json(trace, &Filter::default()));
    format!("{{\"translation\":{translation},\"trace\":{trace}}}")
}

fn described(translation: &Translation, segment: Option<usize>) -> TranslationAnswer {
    let note = |note: &Note| NoteAnswer { message: note.to_string(), is_warning: note.is_warning() };
    let own = |segment: &DecodedSegment| {
        let (from, to) = segment.languages.clone().unzip();
        SegmentAnswer {
            sentence: segment.sentence,
            hop: segment.hop,
            from,
            to,
            text: segment.text.clone(),
            read: (!segment.source.is_empty()).then(|| segment.read.clone()),
            translation: segment.translation.clone(),
        }
    };
    TranslationAnswer {
        text: translation.text().to_owned(),
        route: translation.route.clone(),
        notes: translation.notes.iter().map(note).collect(),
        segments: translation.segments.iter().map(own).collect(),
        segment,
    }
}
