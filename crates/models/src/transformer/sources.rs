//! The sources of a translator: the names of their attentions, and their encoders.
//!
//! A translator of several sources reads them as one list of ids, each source with its end token ([`Ids::divided`]). So decoding,
//! batches, shortlists and files know nothing of it. The encoders read the parts of the list.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{AttentionKind, Builder, Pass, SiteGroup};
use polyhead_tensor::{Indices, Result, Var};

use super::config::{Combination, TransformerConfig};
use super::cross::{CrossOptions, Source, numbered};
use super::encoder::EncoderStack;
use super::input::InputOptions;
use super::stack::StackOptions;
use crate::ids::Ids;

/// Maximum number of sources.
pub(crate) const MAX_SOURCES: usize = 4;

/// Self-attention over each source. Ranks 1 and 3 are those of the decoder and of the copy head.
pub(crate) const ENCODERS: [AttentionKind; MAX_SOURCES] = [
    AttentionKind::self_attention(0, "encoder", "source"),
    AttentionKind::self_attention(4, "encoder_2", "source_2"),
    AttentionKind::self_attention(5, "encoder_3", "source_3"),
    AttentionKind::self_attention(6, "encoder_4", "source_4"),
];

/// Cross-attention from the target to each source.
pub(crate) const CROSS: [AttentionKind; MAX_SOURCES] = [
    AttentionKind::cross_attention(2, "cross", "decoder", ["target", "source"]),
    cross(7, "cross_2", "cross_attention_2", "source_2"),
    cross(8, "cross_3", "cross_attention_3", "source_3"),
    cross(9, "cross_4", "cross_attention_4", "source_4"),
];

/// The attention to the contexts of the sources, of a hierarchical combination.
pub(crate) const CONTEXTS: AttentionKind = cross(10, "sources", "context_attention", "sources");

const fn cross(
    rank: usize,
    name: &'static str,
    sub_layer: &'static str,
    keys: &'static str,
) -> AttentionKind {
    AttentionKind { rank, name, stack: "decoder", sub_layer, queries: "target", keys, is_causal: false }
}

/// The encoders of the sources.
#[derive(Debug, Clone)]
pub(crate) struct Encoders {
    each: Vec<EncoderStack>,
}

/// Encoded sources.
pub(crate) struct EncodedSources {
    states: Vec<Var>,
    lengths: Vec<Indices>,
}

impl Encoders {
    /// Declares an encoder for each source under `builder`, or one for all; `stack` has the options of the first.
    pub(crate) fn new(
        builder: &mut Builder<'_>,
        embedding: &Embedding,
        input: &InputOptions,
        (config, stack): (&TransformerConfig, &StackOptions),
    ) -> Result<Self> {
        let mut each: Vec<EncoderStack> = Vec::with_capacity(config.sources);
        for (index, &kind) in ENCODERS.iter().enumerate().take(config.sources) {
            let own = match each.first() {
                Some(first) if config.shared_encoder => first.named(kind),
                _ => {
                    let stack = StackOptions { kind, ..stack.clone() };
                    EncoderStack::new(
                        &mut builder.at(numbered("encoder", index)),
                        embedding.clone(),
                        input,
                        &stack,
                    )?
                }
            };
            each.push(own);
        }
        Ok(Self { each })
    }

    /// The table of embeddings.
    pub(crate) fn embedding(&self) -> &Embedding {
        self.each[0].embedding()
    }

    /// The attention layers of the encoders.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.each.iter().flat_map(EncoderStack::sites)
    }

    /// Encodes the sources of a batch.
    pub(crate) fn forward(&self, pass: &Pass<'_>, source: &Ids) -> Result<EncodedSources> {
        let pairs = self.each.iter().zip(source.sources());
        let states = pairs.map(|(encoder, ids)| encoder.forward(pass, ids)).collect::<Result<_>>()?;
        Ok(EncodedSources {
            states,
            lengths: source.sources().iter().map(|ids| ids.lengths().clone()).collect(),
        })
    }
}

impl EncodedSources {
    /// The states of the first source.
    pub(crate) fn first(&self) -> &Var {
        &self.states[0]
    }

    /// What the decoder attends to; `source` is the batch that was encoded.
    pub(crate) fn source<'a>(&'a self, source: &'a Ids) -> Source<'a> {
        Source { states: &self.states, lengths: &self.lengths, order: source.order() }
    }
}

/// Numbers of tokens of the rows of a batch in CPU memory: of its source, or of all sources together and then of each.
pub(crate) fn source_lengths(source: &Ids) -> Vec<&[u32]> {
    let each = source.order().map(|_| source.sources()).unwrap_or_default();
    std::iter::once(source).chain(each).map(|ids| ids.lengths().host()).collect()
}

impl TransformerConfig {
    /// The cross-attention of the decoder.
    pub(crate) fn cross(&self) -> CrossOptions {
        let is_hierarchical = self.sources > 1 && self.combination == Combination::Hierarchical;
        CrossOptions {
            kinds: CROSS[..self.sources].to_vec(),
            contexts: is_hierarchical.then_some(CONTEXTS),
            projection: self.cross_projection,
            combination: self.combination,
        }
    }
}
