//! The trace of one text: tokens read and written by a model, and its attention weights by site.
//!
//! 1. `observe.rs` runs the forward pass with capture, `token.rs` maps tokens to positions in the texts.
//! 2. `translation.rs` traces a translation, searched for or given; [`encoder`] a text under an encoder,
//!    `order.rs` the answer of a pointer network, `image.rs` an image, [`text`] a text under a language model.
//! 3. `step.rs` has probabilities and alternatives, `tree.rs` the beam search tree, `progress.rs` reports the search's progress.
//!
//! The text is given to the model as one sentence: it is not split, and nothing is changed before or after.
//!
//! ```no_run
//! use polyhead_inspect::trace::{Trace, TraceOptions};
//! use polyhead_translate::{Engine, LoadOptions};
//! let engine = Engine::load("opus-mt-en-tr", &LoadOptions::default())?;
//! let trace = Trace::new(&engine, "The cat ate the mouse.", &TraceOptions::default())?;
//! println!("{:?} {:?}", trace.side("target").map(|side| &side.text), trace.alignment());
//! # Ok::<(), polyhead_inspect::Error>(())
//! ```

pub mod encoder;
mod image;
mod observe;
mod order;
mod progress;
mod speech;
mod step;
pub mod text;
mod token;
mod translation;
mod tree;

pub(crate) use encoder::captured_encoder_pass;
pub use encoder::{EncoderOptions, EncoderTrace, HeadOutput};
pub use image::ImageTrace;
pub(crate) use image::ROLLOUT;
pub use observe::{AttentionWeights, CaptureVectors, ObserveOptions, Observed, observe};
pub(crate) use observe::{KeepActivations, captured_pass};
pub use order::OrderTrace;
pub use progress::ProgressCallback;
pub use speech::SpeechTrace;
pub use step::{Alternative, TraceStep};
pub use text::TextTrace;
pub(crate) use text::captured_text_pass;
pub use token::{Token, TraceSide};
pub use translation::{TraceOptions, TranslationTrace};
pub use tree::{BeamNode, BeamTree, NodeFate};

use polyhead_attention::vectors::Vectors;
use polyhead_attention::{AttentionKind, Filter, Intervention, Site, Sites};
use polyhead_translate::alignment::{TokenAttention, WordAligner};

use crate::matrix::Matrix;
use crate::rollout::{Rollout, rollout};
use crate::words::{WordGrouping, word_weights};

/// Longest side whose rollout is computed: its cost grows with the cube of the length.
const MOST_ROLLED_OUT: usize = 512;

/// The trace of one text.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Attention sites of the model.
    pub sites: Sites,
    /// Model width.
    pub d_model: usize,
    /// Sequences that the model read or wrote, named as in its sites.
    pub sides: Vec<TraceSide>,
    /// Result of the model.
    pub outcome: TraceOutcome,
    /// Attention weights by site.
    pub attentions: Vec<AttentionWeights>,
    /// Queries, keys and values, if captured.
    pub vectors: Vec<Vectors>,
    /// Changes to the model.
    pub intervention: Intervention,
}

/// Result of a model.
#[derive(Debug, Clone)]
pub enum TraceOutcome {
    /// A translation; its text is the last side.
    Translation(TranslationTrace),
    /// States of an encoder and the output of its head; the side is `text`.
    Encoder(EncoderTrace),
    /// The order of points; its side is `order`.
    Order(OrderTrace),
    /// The distributions of next tokens; the side is `text`.
    Text(TextTrace),
    /// The classes of an image; the side is `image`.
    Image(ImageTrace),
    /// The text of a sound; its sides are `frames` and `target`.
    Speech(SpeechTrace),
}

impl Trace {
    /// The sequence of a name.
    pub fn side(&self, name: &str) -> Option<&TraceSide> {
        self.sides.iter().find(|side| side.name == name)
    }

    /// The translation, if the model is a translator.
    pub fn translation(&self) -> Option<&TranslationTrace> {
        match &self.outcome {
            TraceOutcome::Translation(found) => Some(found),
            TraceOutcome::Encoder(_)
            | TraceOutcome::Order(_)
            | TraceOutcome::Text(_)
            | TraceOutcome::Image(_)
            | TraceOutcome::Speech(_) => None,
        }
    }

    /// The distributions of next tokens, if the model is a language model.
    pub fn text(&self) -> Option<&TextTrace> {
        match &self.outcome {
            TraceOutcome::Text(found) => Some(found),
            _ => None,
        }
    }

    /// The states and the output of the head, if the model is an encoder.
    pub fn encoder(&self) -> Option<&EncoderTrace> {
        match &self.outcome {
            TraceOutcome::Encoder(found) => Some(found),
            _ => None,
        }
    }

    /// The attention weights of a site, if captured.
    pub fn attention(&self, site: Site) -> Option<&AttentionWeights> {
        self.attentions.iter().find(|attention| attention.site == site)
    }

    /// The heads that pass a filter, by site.
    pub fn selected(&self, filter: &Filter) -> Vec<SelectedHeads<'_>> {
        let some = |attention| {
            let attention: &AttentionWeights = attention;
            let site = attention.site;
            let heads = attention.heads.iter().zip(&attention.weights);
            let wanted = heads.filter(|(head, _)| filter.accepts_head(site, **head));
            let (heads, weights): (Vec<usize>, Vec<_>) = wanted.map(|(head, own)| (*head, own)).unzip();
            SelectedHeads { site, heads, weights }
        };
        let all = self.attentions.iter().map(some);
        all.filter(|found| !found.heads.is_empty()).collect()
    }

    /// The attention site that word alignments are read from, if the model has one.
    pub fn alignment_site(&self) -> Option<Site> {
        if let TraceOutcome::Speech(_) = &self.outcome {
            // The last layer of the cross-attention, which alone was captured.
            return self.sites.all().last();
        }
        self.translation().and_then(|found| found.alignment_site)
    }

    /// Converts token weights of a kind of attention to word weights, query words × key words.
    pub fn word_weights(&self, kind: AttentionKind, tokens: &Matrix) -> Option<Matrix> {
        let (queries, keys) = (self.side(kind.queries)?.grouping(), self.side(kind.keys)?);
        // A decoder position reads the token before the one that it predicts.
        let shifted = keys.read_words();
        let word_of = if kind.is_causal { &shifted } else { keys.grouping().word_of };
        word_weights(tokens, queries, WordGrouping { word_of, ..keys.grouping() })
    }

    /// Pairs of source and target words, as `translate` aligns them; none if the attention of the alignment layer was not
    /// captured.
    pub fn alignment(&self) -> Option<Vec<(usize, usize)>> {
        let site = self.alignment_site()?;
        let heads = &self.attention(site)?.weights;
        let (source, target) = (self.side(site.kind.keys)?, self.side(site.kind.queries)?);
        let mut weights: Vec<f64> = vec![0.0; heads.first()?.numbers().len()];
        for head in heads {
            weights.iter_mut().zip(head.numbers()).for_each(|(sum, weight)| *sum += f64::from(*weight));
        }
        let spans =
            |side: &TraceSide| -> Vec<_> { side.tokens.iter().map(|token| token.span.clone()).collect() };
        let target_lengths = target.tokens.iter().map(|token| token.span.len()).collect();
        let (source_spans, target_spans) = (spans(source), spans(target));
        let mut aligner = WordAligner::new(&source.text, &target.text);
        aligner.add_attention(&TokenAttention { source_spans, target_spans, target_lengths, weights });
        Some(aligner.alignment())
    }

    /// Attention rollout; `None` if not all heads were captured, for very long texts, or for several sources.
    pub fn rollout(&self) -> Option<Rollout> {
        if self.side("source_2").is_some()
            || self.sides.iter().any(|side| side.tokens.len() > MOST_ROLLED_OUT)
        {
            return None;
        }
        let n_heads = |site: Site| self.sites.of(site.kind).map_or(0, |group| group.heads.n_heads);
        let whole = |site: Site| self.attention(site).filter(|found| found.heads.len() == n_heads(site));
        rollout(&self.sites, |site| whole(site)?.mean())
    }

    /// Row labels (queries) and column labels (keys) of a kind of attention.
    pub fn labels(&self, kind: AttentionKind) -> [Vec<String>; 2] {
        let rows = self.side(kind.queries).map_or_else(Vec::new, TraceSide::labels);
        let read = if kind.is_causal { TraceSide::read_labels } else { TraceSide::labels };
        [rows, self.side(kind.keys).map_or_else(Vec::new, read)]
    }
}

/// Selected heads of an attention site.
#[derive(Debug, Clone)]
pub struct SelectedHeads<'a> {
    /// The site.
    pub site: Site,
    /// Head indices, one per matrix.
    pub heads: Vec<usize>,
    /// Weights of each head: queries × keys.
    pub weights: Vec<&'a Matrix>,
}
