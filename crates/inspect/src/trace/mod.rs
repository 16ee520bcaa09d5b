//! The trace of one text: what a model read and wrote, and its attention, by the sites that it publishes.
//!
//! 1. `observe.rs` is the pass that is looked at, `token.rs` what stands where in the texts.
//! 2. `translation.rs` traces a translation, found or given; `classes.rs` the classes of a text.
//! 3. `step.rs` are probabilities and alternatives, `tree.rs` what a beam search looked at, `watch.rs` tells how far it is.
//!
//! The text is one sentence for the model, as it is: nothing is split, and nothing is changed before or after.
//!
//! ```no_run
//! use polyhead_inspect::trace::{Trace, TraceOptions};
//! use polyhead_translate::{Engine, LoadOptions};
//! let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let trace = Trace::new(&engine, "The cat ate the mouse.", &TraceOptions::default())?;
//! println!("{:?} {:?}", trace.side("target").map(|side| &side.text), trace.alignment());
//! # Ok::<(), polyhead_inspect::Error>(())
//! ```

mod classes;
mod observe;
mod step;
mod token;
mod translation;
mod tree;
mod watch;

pub use observe::{Attention, Kept, ObserveOptions, Observed, observe, observe_classes};
pub use step::{Alternative, Step};
pub use token::{Side, Token};
pub use translation::{TraceOptions, Translation};
pub use tree::{Node, NodeFate, Tree};
pub use watch::Watcher;

use polyhead_attention::vectors::Vectors;
use polyhead_attention::{Filter, Intervention, Kind, Site, Sites};
use polyhead_engine::classify::Class;

use crate::alignment::alignment;
use crate::matrix::Matrix;
use crate::rollout::{Rollout, rollout};
use crate::words::{Grouping, word_weights};

/// The longest sides whose rollout is computed: its cost grows with the cube of the length.
const MOST_ROLLED_OUT: usize = 512;

/// What was seen of one text.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The attentions of the model.
    pub sites: Sites,
    /// Width of its layers.
    pub d_model: usize,
    /// The sequences that it read or wrote, by the names that its sites give them.
    pub sides: Vec<Side>,
    /// What came out.
    pub outcome: Outcome,
    /// Attention weights.
    pub attentions: Vec<Attention>,
    /// Queries, keys and values, if they were asked for.
    pub vectors: Vec<Vectors>,
    /// What was changed in the model.
    pub intervention: Intervention,
}

/// What came out of a model.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one for a trace, which is far larger")]
pub enum Outcome {
    /// A sequence: the last side.
    Translation(Translation),
    /// Classes, the most probable first.
    Classes(Vec<Class>),
}

impl Trace {
    /// A sequence by its name.
    pub fn side(&self, name: &str) -> Option<&Side> {
        self.sides.iter().find(|side| side.name == name)
    }

    /// What is known of the translation, where there is one.
    pub fn translation(&self) -> Option<&Translation> {
        match &self.outcome {
            Outcome::Translation(found) => Some(found),
            Outcome::Classes(_) => None,
        }
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

    /// The attention that word alignments are read from, where the model has one.
    pub fn alignment_site(&self) -> Option<Site> {
        self.translation().and_then(|found| found.alignment_site)
    }

    /// Weights between words: of the words that ask to those that are looked at.
    pub fn word_weights(&self, kind: Kind, pieces: &Matrix) -> Option<Matrix> {
        let (queries, keys) = (self.side(kind.queries)?.grouping(), self.side(kind.keys)?);
        // What a position of a written sequence reads stands one place later than what it writes.
        let shifted = keys.read_words();
        let word_of = if kind.is_causal { &shifted } else { keys.grouping().word_of };
        word_weights(pieces, queries, Grouping { word_of, ..keys.grouping() })
    }

    /// Pairs of source and target words; none if their attention was not kept. Long pieces of a target word count for more.
    pub fn alignment(&self) -> Option<Vec<(usize, usize)>> {
        let site = self.alignment_site()?;
        let mut pieces = self.attention(site)?.mean()?;
        for (row, token) in self.side(site.kind.queries)?.tokens.iter().enumerate() {
            pieces.row_mut(row).iter_mut().for_each(|weight| *weight *= token.span.len() as f32);
        }
        Some(self.word_weights(site.kind, &pieces).map_or_else(Vec::new, |weights| alignment(&weights)))
    }

    /// What tokens are made of after all layers; none if not all attention was kept, or of very long texts.
    pub fn rollout(&self) -> Option<Rollout> {
        if self.sides.iter().any(|side| side.tokens.len() > MOST_ROLLED_OUT) {
            return None;
        }
        let n_heads = |site: Site| self.sites.of(site.kind).map_or(0, |group| group.heads.n_heads);
        let whole = |site: Site| self.attention(site).filter(|found| found.heads.len() == n_heads(site));
        rollout(&self.sites, |site| whole(site)?.mean())
    }

    /// Labels of the rows and columns of an attention: what asked, and what was looked at.
    pub fn labels(&self, kind: Kind) -> [Vec<String>; 2] {
        let rows = self.side(kind.queries).map_or_else(Vec::new, Side::labels);
        let read = if kind.is_causal { Side::read_labels } else { Side::labels };
        [rows, self.side(kind.keys).map_or_else(Vec::new, read)]
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
