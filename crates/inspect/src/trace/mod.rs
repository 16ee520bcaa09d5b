//! The trace of one sentence: how a model translated it, or reads a translation that is given.
//!
//! 1. `observe.rs` is the pass that is looked at, `token.rs` what stands where in the texts.
//! 2. `step.rs` are probabilities and alternatives, `tree.rs` what a beam search looked at, `watch.rs` tells how far it is.
//!
//! The text is one sentence for the model, as it is: nothing is split, and nothing is changed before or after.
//!
//! ```no_run
//! use polyhead_inspect::trace::{Trace, TraceOptions};
//! use polyhead_translate::{Engine, LoadOptions};
//! let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let trace = Trace::new(&engine, "The cat ate the mouse.", &TraceOptions::default())?;
//! println!("{} {:?}", trace.target.text, trace.alignment());
//! # Ok::<(), polyhead_inspect::Error>(())
//! ```

mod observe;
mod step;
mod token;
mod tree;
mod watch;

pub use observe::{Attention, Kept, ObserveOptions, Observed, observe};
pub use step::{Alternative, Step};
pub use token::{Side, Token};
pub use tree::{Node, NodeFate, Tree};
pub use watch::Watcher;

use std::ops::ControlFlow;

use polyhead_attention::vectors::Vectors;
use polyhead_attention::{Capture, Filter, Intervention, Kind, Site};
use polyhead_models::decode::beam::{BeamOptions, beam_traced};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::transformer::{Decoding, TransformerConfig};
use polyhead_translate::{Engine, Route, TranslateOptions};

use self::watch::Watched;
use crate::alignment::alignment;
use crate::matrix::Matrix;
use crate::rollout::{Rollout, rollout};
use crate::words::word_weights;
use crate::{Error, Result};

/// The longest sides whose rollout is computed: its cost grows with the cube of the length.
const MOST_ROLLED_OUT: usize = 512;

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

/// What was seen of one sentence.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Sizes of the model.
    pub config: TransformerConfig,
    /// From which language into which, if the model tells.
    pub route: Option<Route>,
    /// What the model read.
    pub source: Side,
    /// What it wrote; position t of the decoder writes token t.
    pub target: Side,
    /// What position 0 of the decoder read; position t reads token t − 1.
    pub start: Token,
    /// Whether the translation was given.
    pub is_given: bool,
    /// What the translation was ranked by: the sum over its length penalty; of a given one as of a found one.
    pub score: f64,
    /// Probabilities and alternatives, one entry for each target token.
    pub steps: Vec<Step>,
    /// What a beam search looked at; none if greedy or given.
    pub tree: Option<Tree>,
    /// Attention weights.
    pub attentions: Vec<Attention>,
    /// Queries, keys and values, if they were asked for.
    pub vectors: Vec<Vectors>,
    /// What was changed in the model.
    pub intervention: Intervention,
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
        let source = Side::new(text, encoding);
        let mut search = engine.beam_options(&TranslateOptions {
            beam_size: options.beam_size,
            max_length: options.max_length,
            ..TranslateOptions::default()
        })?;
        if !options.prefix.is_empty() {
            search.decode.rules.prefixes = vec![options.prefix.clone()];
        }
        let intervention = Some(&options.intervention).filter(|changed| !changed.is_empty());
        let (target, tree) = match &options.target {
            Some(given) => (Side::new(given, engine.encode_target(given)?), None),
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
        Ok(Self {
            config: model.config().clone(),
            route,
            score: search.length_penalty.score(sum, steps.len().max(1)),
            source,
            target,
            start: Token { id: start_id, piece: engine.target_piece(start_id), span: 0..0, word: None },
            is_given: options.target.is_some(),
            steps,
            tree,
            attentions: seen.attentions,
            vectors: seen.vectors,
            intervention: options.intervention.clone(),
        })
    }

    /// The sum of the log-probabilities of the target's tokens.
    pub fn log_probability(&self) -> f64 {
        self.steps.iter().map(|step| f64::from(step.log_probability)).sum()
    }

    /// One attention, if it was kept.
    pub fn attention(&self, site: Site) -> Option<&Attention> {
        self.attentions.iter().find(|attention| attention.site == site)
    }

    /// The attentions, and of each the heads, that a filter lets through.
    pub fn selected(&self, filter: &Filter) -> Vec<Selected<'_>> {
        let some = |attention| {
            let attention: &Attention = attention;
            let site = attention.site;
            let heads = attention.heads.iter().zip(&attention.weights);
            let wanted = heads.filter(|(head, _)| filter.accepts_head(site, **head));
            let (heads, weights): (Vec<usize>, Vec<_>) = wanted.map(|(head, own)| (*head, own)).unzip();
            Selected { site, heads, weights }
        };
        let all = self.attentions.iter().map(some);
        all.filter(|found| !found.heads.is_empty()).collect()
    }

    /// The cross-attention that alignments are read from: see [`TransformerConfig::alignment_layer`].
    pub fn alignment_site(&self) -> Site {
        Site { kind: Kind::Cross, layer: self.config.alignment_layer() }
    }

    /// Weights between words: of target words to source words, or within a side.
    pub fn word_weights(&self, kind: Kind, pieces: &Matrix) -> Option<Matrix> {
        let (source, target) = (self.source.grouping(), self.target.grouping());
        match kind {
            Kind::EncoderSelf => word_weights(pieces, source, source),
            Kind::Cross => word_weights(pieces, target, source),
            Kind::DecoderSelf => {
                // What is looked at stands one place later than in the target, behind the start.
                let shifted: Vec<Option<usize>> =
                    [None].into_iter().chain(target.word_of.iter().copied()).collect();
                word_weights(pieces, target, crate::words::Grouping { word_of: &shifted, ..target })
            }
        }
    }

    /// Pairs of source and target words; none if their attention was not kept. Long pieces of a target word count for more.
    pub fn alignment(&self) -> Option<Vec<(usize, usize)>> {
        let mut pieces = self.attention(self.alignment_site())?.mean()?;
        for (row, token) in self.target.tokens.iter().enumerate() {
            pieces.row_mut(row).iter_mut().for_each(|weight| *weight *= token.span.len() as f32);
        }
        Some(self.word_weights(Kind::Cross, &pieces).map_or_else(Vec::new, |weights| alignment(&weights)))
    }

    /// What tokens are made of after all layers; none if not all attention was kept, or of very long texts.
    pub fn rollout(&self) -> Option<Rollout> {
        if self.source.tokens.len().max(self.target.tokens.len()) > MOST_ROLLED_OUT {
            return None;
        }
        let heads = |site: Site| match site.kind {
            Kind::EncoderSelf => self.config.encoder.n_heads,
            Kind::DecoderSelf | Kind::Cross => self.config.decoder.n_heads,
        };
        let whole = |site: Site| self.attention(site).filter(|found| found.heads.len() == heads(site));
        let n_layers = [self.config.encoder.n_layers, self.config.decoder.n_layers];
        rollout(n_layers, |site| whole(site)?.mean())
    }

    /// Labels of the rows and columns of an attention: what was written, and what was looked at.
    pub fn labels(&self, kind: Kind) -> [Vec<String>; 2] {
        let (source, target) = (self.source.labels(), self.target.labels());
        match kind {
            Kind::EncoderSelf => [source.clone(), source],
            Kind::Cross => [target, source],
            Kind::DecoderSelf => {
                let read = [self.start.piece.clone()].into_iter().chain(target.iter().cloned());
                let read = read.take(target.len()).collect();
                [target, read]
            }
        }
    }
}

/// Some heads of an attention.
#[derive(Debug, Clone)]
pub struct Selected<'a> {
    /// Which attention it is.
    pub site: Site,
    /// The heads, as many as matrices.
    pub heads: Vec<usize>,
    /// Each head's weights: queries × keys.
    pub weights: Vec<&'a Matrix>,
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
        return Ok((Side::written(engine, &found.ids)?, None));
    }
    let (mut found, trace) = beam_traced(&decoding, &[source], search)?.remove(0);
    let ids = if found.is_empty() { Vec::new() } else { found.remove(0).ids };
    let tree = Tree::new(&trace, search.beam_size, &ids, |id| engine.target_piece(id));
    Ok((Side::written(engine, &ids)?, Some(tree)))
}
