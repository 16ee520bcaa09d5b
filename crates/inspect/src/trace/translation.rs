//! The trace of a translation: searched for, or given.

use std::ops::ControlFlow;

use polyhead_attention::{Capture, Filter, Intervention, Site};
use polyhead_models::Decoding;
use polyhead_models::decode::beam::{BeamOptions, beam_traced};
use polyhead_models::decode::greedy::greedy;
use polyhead_translate::{Engine, Route, TranslateOptions};

use super::watch::Watched;
use super::{Kept, ObserveOptions, Outcome, Side, Step, Token, Trace, Tree, Watcher, observe, step};
use crate::{Error, Result};

/// The names of the two sequences.
const SIDES: [&str; 2] = ["source", "target"];

/// What is traced, and how the translation comes about.
#[derive(Debug, Clone)]
pub struct TraceOptions {
    /// The language of the text; guessed if the model knows several.
    pub from: Option<String>,
    /// The language to translate into, for models that know several; what a tag before the text says, or the model's choice.
    pub to: Option<String>,
    /// A translation that is given; none, so the model searches for one.
    pub target: Option<String>,
    /// Ids that a translation which is searched for begins with; none.
    pub prefix: Vec<u32>,
    /// Hypotheses followed; as the model's folder says. 1 is greedy.
    pub beam_size: Option<usize>,
    /// Most tokens of the translation; as the model's folder says.
    pub max_length: Option<usize>,
    /// Alternatives at every step; 5.
    pub n_alternatives: usize,
    /// Which attentions are kept; all.
    pub filter: Filter,
    /// Whether queries, keys and values are kept of them too; no.
    pub vectors: Kept,
    /// What is changed in the model; nothing.
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
            vectors: Kept::No,
            intervention: Intervention::default(),
        }
    }
}

/// What is known of a translation besides its text.
#[derive(Debug, Clone)]
pub struct Translation {
    /// From which language into which, if the model tells.
    pub route: Option<Route>,
    /// True if the translation was given.
    pub is_given: bool,
    /// What the translation was ranked by: the sum over its length penalty; of a given one as of a found one.
    pub score: f64,
    /// Probabilities and alternatives, one entry for each target token.
    pub steps: Vec<Step>,
    /// What a beam search looked at; none if greedy or given.
    pub tree: Option<Tree>,
    /// The attention that word alignments are read from.
    pub alignment_site: Option<Site>,
    /// Ids of the target.
    pub vocab_size: usize,
}

impl Translation {
    /// The sum of the log-probabilities of the target's tokens.
    pub fn log_probability(&self) -> f64 {
        self.steps.iter().map(|step| f64::from(step.log_probability)).sum()
    }
}

impl Trace {
    /// Translates `text` as one sentence, or takes the given translation, and looks at how.
    ///
    /// # Errors
    /// If the text is empty, or the options make no sense for this model.
    pub fn new(engine: &Engine, text: &str, options: &TraceOptions) -> Result<Self> {
        Self::watched(engine, text, options, &|_| ControlFlow::Continue(()))
    }

    /// [`Self::new`], which tells `watcher` of the best translation so far at every step of the search.
    ///
    /// # Errors
    /// Those of [`Self::new`], and if the watcher ends the search.
    pub fn watched(
        engine: &Engine,
        text: &str,
        options: &TraceOptions,
        watcher: Watcher<'_>,
    ) -> Result<Self> {
        if text.trim().is_empty() {
            let message = "an empty text, expected a sentence".into();
            return Err(Error::Request { message, hint: "give it a sentence".into() });
        }
        let (encoding, route) = engine.encode_source(text, options.from.as_deref(), options.to.as_deref())?;
        let [source_name, target_name] = SIDES;
        let source = Side::new(source_name, text, encoding);
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
            Some(given) => (Side::new(target_name, given, engine.encode_target(given)?), None),
            None => searched(engine, &source.ids(), &search, intervention, watcher)?,
        };
        if target.tokens.is_empty() {
            let message = "the model wrote no token, not even an end".into();
            return Err(Error::Request { message, hint: "allow more tokens".into() });
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
        let translation = Translation {
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
            outcome: Outcome::Translation(translation),
            attentions: seen.attentions,
            vectors: seen.vectors,
            intervention: options.intervention.clone(),
        })
    }
}

/// The best translation, and what was looked at on the way.
fn searched(
    engine: &Engine,
    source: &[u32],
    search: &BeamOptions,
    intervention: Option<&Intervention>,
    watcher: Watcher<'_>,
) -> Result<(Side, Option<Tree>)> {
    let capture = Capture::off();
    let decoding = Decoding { intervention, ..Decoding::new(engine.model(), engine.parameters(), &capture) };
    let decoding = Watched { model: decoding, watcher };
    if search.beam_size == 1 {
        let found = greedy(&decoding, &[source], &search.decode)?.remove(0);
        return Ok((Side::written(SIDES[1], engine, &found.ids)?, None));
    }
    let (mut found, trace) = beam_traced(&decoding, &[source], search)?.remove(0);
    let ids = if found.is_empty() { Vec::new() } else { found.remove(0).ids };
    let tree = Tree::new(&trace, search.beam_size, &ids, |id| engine.target_piece(id));
    Ok((Side::written(SIDES[1], engine, &ids)?, Some(tree)))
}
