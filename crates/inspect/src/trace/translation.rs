//! The trace of a translation, searched for or given.

use std::ops::ControlFlow;

use polyhead_attention::{Capture, Filter, Intervention, Site};
use polyhead_models::Decoding;
use polyhead_models::decode::beam::{BeamOptions, beam_traced};
use polyhead_models::decode::greedy::greedy;
use polyhead_translate::{Engine, Route, TranslateOptions};

use super::progress::ProgressModel;
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
        let [source_name, target_name] = SIDES;
        let source = TraceSide::new(source_name, text, encoding);
        let mut search = engine.beam_options(&TranslateOptions {
            beam_size: options.beam_size,
            max_length: options.max_length,
            ..TranslateOptions::default()
        })?;
        if !options.prefix.is_empty() {
            search.decode.rules.prefixes = vec![options.prefix.clone()];
        }
        let intervention = Some(&options.intervention).filter(|changed| !changed.is_empty());
        let (mut target, tree) = match &options.target {
            Some(given) => (TraceSide::new(target_name, given, engine.encode_target(given)?), None),
            None => searched(engine, &source.ids(), &search, intervention, progress)?,
        };
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
        let steps = step::steps(&seen.logits, &ids[1], options.n_alternatives, |id| engine.target_piece(id))?;
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
        Ok(Self {
            sites: model.sites(),
            d_model: model.config().d_model(),
            sides: vec![source, target],
            outcome: TraceOutcome::Translation(translation),
            attentions: seen.attentions,
            vectors: seen.vectors,
            intervention: options.intervention.clone(),
        })
    }
}

/// Searches for the best translation; returns it with the beam search tree.
fn searched(
    engine: &Engine,
    source: &[u32],
    search: &BeamOptions,
    intervention: Option<&Intervention>,
    progress: ProgressCallback<'_>,
) -> Result<(TraceSide, Option<BeamTree>)> {
    let capture = Capture::off();
    let decoding = Decoding { intervention, ..Decoding::new(engine.model(), engine.parameters(), &capture) };
    let decoding = ProgressModel { model: decoding, progress };
    if search.beam_size == 1 {
        let found = greedy(&decoding, &[source], &search.decode)?.remove(0);
        return Ok((TraceSide::written(SIDES[1], engine, &found.ids)?, None));
    }
    let (mut found, trace) = beam_traced(&decoding, &[source], search)?.remove(0);
    let ids = if found.is_empty() { Vec::new() } else { found.remove(0).ids };
    let tree = BeamTree::new(&trace, search.beam_size, &ids, |id| engine.target_piece(id));
    Ok((TraceSide::written(SIDES[1], engine, &ids)?, Some(tree)))
}
