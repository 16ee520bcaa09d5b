//! The trace of a translation, searched for or given.

use std::ops::ControlFlow;

use polyhead_attention::{Capture, Filter, Intervention, Site, Sites};
use polyhead_models::decode::NextToken;
use polyhead_models::decode::beam::{BeamOptions, beam_traced};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::trace::BeamTrace;
use polyhead_models::{Decoding, Shortlisted};
use polyhead_text::tokenizer::{Encoding, UnknownWords};
use polyhead_translate::{DecodedSegment, Engine, Route, TranslateOptions};

use super::progress::ProgressModel;
use super::token::piece;
use super::{
    BeamTree, CaptureVectors, ObserveOptions, ProgressCallback, Token, Trace, TraceOutcome, TraceSide,
    TraceStep, observe, step,
};
use crate::{Error, Result};

/// Names of the two sequences.
const SIDES: [&str; 2] = ["source", "target"];

/// Options of a trace.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// Language of the text; default: detected if the model knows several.
    pub from: Option<String>,
    /// Target language, for models that know several; default: that of a tag before the text, or the model's default.
    pub to: Option<String>,
    /// A given translation; default: none, the model searches for one.
    pub target: Option<String>,
    /// Prefix ids of a searched translation; default: none.
    pub prefix: Vec<u32>,
    /// Beam size, 1 for greedy decoding; default: that of the model folder.
    pub beam_size: Option<usize>,
    /// Maximum length of the translation in tokens; default: that of the model folder.
    pub max_length: Option<usize>,
    /// Alternatives per step; default: 5.
    pub n_alternatives: usize,
    /// Attention to capture; default: all.
    pub filter: Filter,
    /// Capture of queries, keys and values; default: no.
    pub vectors: CaptureVectors,
    /// Changes to the model; default: none.
    pub intervention: Intervention,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            from: None,
            to: None,
            target: None,
            prefix: Vec::new(),
            beam_size: None,
            max_length: None,
            n_alternatives: 5,
            filter: Filter::default(),
            vectors: CaptureVectors::No,
            intervention: Intervention::default(),
        }
    }
}

/// The trace of a translation besides its text and attention.
#[derive(Debug, Clone)]
pub struct TranslationTrace {
    /// Source and target language, if known.
    pub route: Option<Route>,
    /// True if the translation was given.
    pub is_given: bool,
    /// Score by which hypotheses are ranked: log-probability over the length penalty.
    pub score: f64,
    /// Probabilities and alternatives of each target token.
    pub steps: Vec<TraceStep>,
    /// The beam search tree; `None` if greedy or given.
    pub tree: Option<BeamTree>,
    /// The attention site that word alignments are read from.
    pub alignment_site: Option<Site>,
    /// Target vocabulary size.
    pub vocab_size: usize,
}

impl TranslationTrace {
    /// Sum of the log-probabilities of the target tokens.
    pub fn log_probability(&self) -> f64 {
        self.steps.iter().map(|step| f64::from(step.log_probability)).sum()
    }
}

impl Trace {
    /// Translates `text` as one sentence, or takes the given translation, and records the trace.
    ///
    /// # Errors
    /// If the text is empty, or the options do not fit the model.
    pub fn new(engine: &Engine, text: &str, options: &TraceOptions) -> Result<Self> {
        Self::with_progress(engine, text, options, &|_| ControlFlow::Continue(()))
    }

    /// [`Self::new`] with a callback that receives the best hypothesis so far at every step of the search.
    ///
    /// # Errors
    /// Those of [`Self::new`], and if the callback cancels the search.
    pub fn with_progress(
        engine: &Engine,
        text: &str,
        options: &TraceOptions,
        progress: ProgressCallback<'_>,
    ) -> Result<Self> {
        if text.trim().is_empty() {
            let message = "an empty text, expected a sentence";
            return Err(Error::request(message, "enter a sentence"));
        }
        let (encoding, route) = engine.encode_source(text, options.from.as_deref(), options.to.as_deref())?;
        let search = SentenceSearch::new(engine, (text, encoding), options)?;
        let (target, tree) = match &options.target {
            Some(given) => {
                (TraceSide::new(SIDES[1], given, engine.encode_target_of(given, &search.words)?), None)
            }
            None => search.run(None, progress)?,
        };
        search.traced(target, tree, route)
    }

    /// Traces a segment of a translation: what the model read and wrote of it. With a prefix or an intervention it is decoded
    /// again. A translation that the search alone does not find, such as one that was decoded again against repetition,
    /// has no beam search tree.
    ///
    /// # Errors
    /// If the model did not decode the segment, the options do not fit the model, or the callback cancels the search.
    pub fn of_segment(
        engine: &Engine,
        segment: &DecodedSegment,
        options: &TraceOptions,
        progress: ProgressCallback<'_>,
    ) -> Result<Self> {
        if segment.source.is_empty() {
            let message = "a segment that was copied, expected one that the model decoded";
            return Err(Error::request(message, "choose another segment"));
        }
        let is_own = options.prefix.is_empty() && options.intervention.is_empty();
        let route = segment.languages.clone().map(|(from, to)| Route {
            from,
            to,
            through: None,
            guessed: false,
            is_default: false,
        });
        let source = (segment.read.as_str(), engine.encode_segment(segment)?);
        let search = SentenceSearch::new(engine, source, options)?;
        let (target, tree) = search.run(is_own.then_some(segment.target.as_slice()), progress)?;
        search.traced(target, tree, route)
    }
}

/// The search for the translation of one source.
struct SentenceSearch<'a> {
    engine: &'a Engine,
    source: TraceSide,
    /// The words of the source that the vocabulary lacks, if the model copies them.
    words: UnknownWords,
    search: BeamOptions,
    options: &'a TraceOptions,
}

impl<'a> SentenceSearch<'a> {
    fn new(
        engine: &'a Engine,
        (text, encoding): (&str, Encoding),
        options: &'a TraceOptions,
    ) -> Result<Self> {
        let words = engine.unknown_words(&encoding)?;
        let source = TraceSide::new(SIDES[0], text, encoding);
        let mut search = engine.beam_options(&TranslateOptions {
            beam_size: options.beam_size,
            max_length: options.max_length,
            ..TranslateOptions::default()
        })?;
        if !options.prefix.is_empty() {
            search.decode.rules.prefixes = vec![options.prefix.clone()];
        }
        Ok(Self { engine, source, words, search, options })
    }

    fn intervention(&self) -> Option<&'a Intervention> {
        Some(&self.options.intervention).filter(|changed| !changed.is_empty())
    }

    /// The best translation and the beam search tree. Where the translation is known, it is that one, and the tree is there
    /// only if the search finds it.
    fn run(
        &self,
        known: Option<&[u32]>,
        progress: ProgressCallback<'_>,
    ) -> Result<(TraceSide, Option<BeamTree>)> {
        let written = |ids: &[u32]| TraceSide::written(SIDES[1], (self.engine, &self.words), ids);
        // A prefix up to the end token is a whole translation; a search would continue after it.
        if self.options.prefix.last() == Some(&self.engine.model().special_ids().end_id) {
            return Ok((written(&self.options.prefix)?, None));
        }
        let (ids, tree) = self.searched(&self.search, known, progress)?;
        let Some(known) = known.filter(|known| **known != ids) else { return Ok((written(&ids)?, tree)) };
        if tree.as_ref().is_some_and(|tree| tree.has_path(known)) {
            return Ok((written(known)?, tree));
        }
        // A search for all hypotheses of the beam, as for texts with placeholders, may continue longer.
        let all = BeamOptions { top_beams: self.search.beam_size, ..self.search.clone() };
        let (_, tree) = self.searched(&all, Some(known), &|_| ControlFlow::Continue(()))?;
        Ok((written(known)?, tree.filter(|tree| tree.has_path(known))))
    }

    fn searched(
        &self,
        search: &BeamOptions,
        known: Option<&[u32]>,
        progress: ProgressCallback<'_>,
    ) -> Result<(Vec<u32>, Option<BeamTree>)> {
        let source = self.source.ids();
        let capture = Capture::off();
        let decoding = Decoding {
            intervention: self.intervention(),
            ..Decoding::new(self.engine.model(), self.engine.parameters(), &capture)
        };
        let (ids, trace) = self.engine.with_shortlist(&source, &self.options.prefix, |shortlist| {
            match shortlist.filter(|_| known.is_some()) {
                Some(shortlist) => decoded(
                    &ProgressModel { model: Shortlisted { decoding, shortlist }, progress },
                    &source,
                    search,
                ),
                None => decoded(&ProgressModel { model: decoding, progress }, &source, search),
            }
        })??;
        let best = known.unwrap_or(&ids);
        let piece = |id| piece(self.engine, &self.words, id);
        let tree = trace.map(|trace| BeamTree::new(&trace, search.beam_size, best, piece));
        Ok((ids, tree))
    }

    /// The trace of one pass over the source and a target.
    fn traced(self, mut target: TraceSide, tree: Option<BeamTree>, route: Option<Route>) -> Result<Trace> {
        let intervention = self.intervention();
        let Self { engine, source, words, search, options } = self;
        if target.tokens.is_empty() {
            let message = "the model wrote no token, expected at least an end token";
            return Err(Error::request(message, "allow more tokens"));
        }
        let (model, parameters) = (engine.model(), engine.parameters());
        let observe_options =
            ObserveOptions { filter: options.filter.clone(), vectors: options.vectors, intervention };
        let start_id = search.decode.start_id;
        let ids = [source.ids(), target.ids()];
        let seen = observe(model, parameters, [&ids[0], &ids[1]], start_id, &observe_options)?;
        let steps =
            step::steps(&seen.logits, &ids[1], options.n_alternatives, |id| piece(engine, &words, id))?;
        let sum = steps.iter().map(|step| f64::from(step.log_probability)).sum();
        target.start =
            Some(Token { id: start_id, piece: engine.target_piece(start_id), span: 0..0, word: None });
        let translation = TranslationTrace {
            route,
            is_given: options.target.is_some(),
            score: search.length_penalty.score(sum, steps.len().max(1)),
            steps,
            tree,
            alignment_site: model.alignment_site(),
            vocab_size: model.vocab_sizes()[1],
        };
        let mut sides = sources(&model.sites(), source, model.special_ids().end_id);
        sides.push(target);
        Ok(Trace {
            sites: model.sites(),
            d_model: model.config().d_model(),
            sides,
            outcome: TraceOutcome::Translation(translation),
            attentions: seen.attentions,
            vectors: seen.vectors,
            intervention: options.intervention.clone(),
        })
    }
}

/// The sides of a source: of several texts one each, and one for all if they are weighed as wholes.
fn sources(sites: &Sites, source: TraceSide, end_id: u32) -> Vec<TraceSide> {
    let is_source = |name: &&'static str| *name != SIDES[1];
    let encoders = sites.groups().iter().filter(|group| group.kind.is_self());
    let names: Vec<&'static str> = encoders.map(|group| group.kind.keys).filter(is_source).collect();
    if names.len() < 2 {
        return vec![source];
    }
    let mut sides = source.divided(&names, end_id);
    let keys = sites.groups().iter().map(|group| group.kind.keys).filter(is_source);
    let whole = keys.filter(|keys| !names.contains(keys)).map(|keys| TraceSide::of_names(keys, &names));
    sides.extend(whole);
    sides
}

/// The ids of the best translation, and the candidates of a beam search.
fn decoded<M: NextToken>(
    model: &M,
    source: &[u32],
    search: &BeamOptions,
) -> Result<(Vec<u32>, Option<BeamTrace>)> {
    if search.beam_size == 1 {
        return Ok((greedy(model, &[source], &search.decode)?.remove(0).ids, None));
    }
    let (mut found, trace) = beam_traced(model, &[source], search)?.remove(0);
    let ids = if found.is_empty() { Vec::new() } else { found.remove(0).ids };
    Ok((ids, Some(trace)))
}
