//! Cross-attention of a layer, to one source or several.
//!
//! Several sources are combined in one of four ways (Libovický, Helcl & Mareček 2018, "Input Combination Strategies for
//! Multi-Source Transformer Decoder"): flat and hierarchical attention are those of [`polyhead_attention::several_sources`];
//! parallel attention adds the contexts of the sources; serial attention has a sub-layer for each source, one after the other.

use polyhead_attention::mask::ResolvedMask;
use polyhead_attention::multi_head::{CrossAttention, HeadShape, KeyValueProjection, Memory};
use polyhead_attention::several_sources::{ContextAttention, FlatAttention, FlatKeys, SourceOrder};
use polyhead_attention::{AttentionKind, Builder, Mask, Pass, Site, SiteGroup};
use polyhead_tensor::ops::attention::{KeysValues, StepRows};
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::{Indices, Result, Var};

use super::config::{Combination, CrossProjection};
use super::residual::Residual;
use super::stack::LayerOptions;

/// Options of the cross-attention of a stack.
#[derive(Debug, Clone)]
pub(crate) struct CrossOptions {
    /// The attention to each source.
    pub(crate) kinds: Vec<AttentionKind>,
    /// The second attention, of a hierarchical combination.
    pub(crate) contexts: Option<AttentionKind>,
    /// The projection of the sources to keys and values.
    pub(crate) projection: CrossProjection,
    /// How several sources are combined.
    pub(crate) combination: Combination,
}

impl CrossOptions {
    /// The attention to one source.
    pub(crate) fn one(kind: AttentionKind, projection: CrossProjection) -> Self {
        Self { kinds: vec![kind], contexts: None, projection, combination: Combination::default() }
    }
}

/// States of one source (rows × length × d_model) and the number of tokens of each row.
pub(crate) type EncodedRows<'a> = (&'a Var, &'a Indices);

/// The sources of cross-attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// rows × source length × d_model each.
    pub(crate) states: &'a [Var],
    /// Number of tokens of each row in each source.
    pub(crate) lengths: &'a [Indices],
    /// The order of the tokens of several sources.
    pub(crate) order: Option<&'a SourceOrder>,
}

impl<'a> Source<'a> {
    /// One source.
    pub(crate) fn one((states, lengths): EncodedRows<'a>) -> Self {
        let (states, lengths) = (std::slice::from_ref(states), std::slice::from_ref(lengths));
        Self { states, lengths, order: None }
    }
}

/// The cross-attentions of a stack.
#[derive(Debug, Clone)]
pub(super) struct Cross {
    kinds: Vec<AttentionKind>,
    contexts: Option<AttentionKind>,
    heads: HeadShape,
    combination: Combination,
    /// Key/value projections of the sources shared by all layers, if they have none of their own.
    shared: Vec<KeyValueProjection>,
}

/// The cross-attention of one layer.
#[derive(Debug, Clone)]
pub(super) struct CrossLayer {
    /// The attention to each source; flat attention has one for all.
    attention: Attention,
    /// Own key/value projections of the sources; none if all layers share them.
    key_values: Vec<KeyValueProjection>,
    /// One for each sub-layer.
    residuals: Vec<Residual>,
}

#[derive(Debug, Clone)]
enum Attention {
    /// To each source by itself, and to the contexts of the sources.
    Each(Vec<CrossAttention>, Option<ContextAttention>),
    Flat(FlatAttention),
}

/// Projected sources of whole sequences.
pub(super) enum ProjectedSources {
    Each(Vec<Var>),
    Flat(FlatKeys),
}

/// What a layer attends to: sources of whole sequences with their masks, or those of decoding rows.
#[derive(Clone, Copy)]
pub(super) enum Attended<'a> {
    Whole(&'a ProjectedSources, &'a [ResolvedMask], Option<&'a SourceOrder>),
    Step(&'a [KeysValues], &'a StepRows),
}

/// The name of the part of source `index`: that of the first has no number.
pub(crate) fn numbered(name: &str, index: usize) -> String {
    if index == 0 { name.to_owned() } else { format!("{name}_{}", index + 1) }
}

impl Cross {
    /// Declares the projections that all layers share under `builder`.
    pub(super) fn new(builder: &mut Builder<'_>, heads: HeadShape, options: &CrossOptions) -> Self {
        let CrossOptions { kinds, contexts, projection, combination } = options.clone();
        let n_shared = if projection == CrossProjection::Shared { kinds.len() } else { 0 };
        let shared = (0..n_shared)
            .map(|index| KeyValueProjection::new(&mut builder.at(numbered("cross_key_value", index)), heads));
        Self { heads, shared: shared.collect(), kinds, contexts, combination }
    }

    /// The attentions of a stack of `n_layers` layers.
    pub(super) fn sites(&self, n_layers: usize) -> impl Iterator<Item = SiteGroup> {
        let heads = self.heads;
        self.kinds.iter().copied().chain(self.contexts).map(move |kind| SiteGroup { kind, n_layers, heads })
    }

    fn sites_of(&self, layer: usize) -> Vec<Site> {
        self.kinds.iter().map(|&kind| Site { kind, layer }).collect()
    }

    /// The masks of the sources: of flat attention one for all.
    pub(super) fn masks(&self, source: Source<'_>, length: usize) -> Vec<ResolvedMask> {
        let resolved = |lengths: &Indices, n| Mask::padding(lengths.clone()).resolve(length, n);
        if self.is_flat() {
            let order = source.order.expect(NO_ORDER);
            return vec![resolved(order.lengths(), order.length())];
        }
        let each = source.lengths.iter().zip(source.states);
        each.map(|(lengths, states)| resolved(lengths, states.shape()[1])).collect()
    }

    fn is_flat(&self) -> bool {
        self.kinds.len() > 1 && self.combination == Combination::Flat
    }

    /// The sources projected for all layers; `None` if each layer has projections of its own.
    pub(super) fn shared(&self, pass: &Pass<'_>, source: Source<'_>) -> Result<Option<ProjectedSources>> {
        if self.shared.is_empty() {
            return Ok(None);
        }
        each(pass, &self.shared, source).map(Some)
    }

    /// Keys and values of decoding steps that all layers share, or nothing.
    pub(super) fn shared_memory(
        &self,
        pass: &Pass<'_>,
        source: Source<'_>,
    ) -> Result<Option<Vec<KeysValues>>> {
        self.shared(pass, source)?.map(|projected| self.memory(&projected)).transpose()
    }

    fn memory(&self, projected: &ProjectedSources) -> Result<Vec<KeysValues>> {
        let cached = |projected: &Var| KeysValues::of_product(self.heads.cache(), projected.value());
        match projected {
            ProjectedSources::Each(each) => each.iter().map(cached).collect(),
            ProjectedSources::Flat(keys) => Ok(vec![cached(&keys.joined)?]),
        }
    }
}

/// The invariant that a model with several sources guarantees.
const NO_ORDER: &str = "several sources have an order";

fn each(pass: &Pass<'_>, projections: &[KeyValueProjection], source: Source<'_>) -> Result<ProjectedSources> {
    let pairs = projections.iter().zip(source.states);
    let projected = pairs.map(|(projection, states)| projection.forward(pass, states));
    projected.collect::<Result<_>>().map(ProjectedSources::Each)
}

impl CrossLayer {
    /// Declares the attentions, projections and norms of a layer under `builder`; `skipped` is the probability that a row skips
    /// the layer in training.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        (options, heads): (&CrossOptions, HeadShape),
        (layer, skipped): (&LayerOptions, f32),
    ) -> Self {
        let (n_sources, dropout) = (options.kinds.len(), layer.dropout.attention);
        let has_own = options.projection == CrossProjection::PerLayer;
        let mut key_values = Vec::new();
        let mut projection = |builder: &mut Builder<'_>, name: &str| {
            if has_own {
                key_values.push(KeyValueProjection::new(&mut builder.at(name), heads));
            }
        };
        let attention = if n_sources > 1 && options.combination == Combination::Flat {
            let mut builder = builder.at("cross_attention");
            let attention = FlatAttention::new(&mut builder, heads, dropout);
            (0..n_sources).for_each(|index| projection(&mut builder, &numbered("key_value", index)));
            Attention::Flat(attention)
        } else {
            let each = (0..n_sources).map(|index| {
                let mut builder = builder.at(numbered("cross_attention", index));
                let attention = CrossAttention::new(&mut builder, heads, dropout);
                projection(&mut builder, "key_value");
                attention
            });
            let each = each.collect();
            let contexts = options
                .contexts
                .map(|_| ContextAttention::new(&mut builder.at("context_attention"), heads, dropout));
            Attention::Each(each, contexts)
        };
        let n_residuals = if options.combination == Combination::Serial { n_sources } else { 1 };
        let residual = |index| {
            Residual::new(&mut builder.at(numbered("cross_attention_norm", index)), layer)
                .skipped_with(skipped)
        };
        Self { attention, key_values, residuals: (0..n_residuals).map(residual).collect() }
    }

    /// The sources projected for this layer; `None` if all layers share the projections.
    pub(super) fn projected(
        &self,
        pass: &Pass<'_>,
        source: Source<'_>,
        (cross, layer): (&Cross, usize),
    ) -> Result<Option<ProjectedSources>> {
        if self.key_values.is_empty() {
            return Ok(None);
        }
        match &self.attention {
            Attention::Each(..) => each(pass, &self.key_values, source).map(Some),
            Attention::Flat(attention) => {
                let order = source.order.expect(NO_ORDER);
                let sites = cross.sites_of(layer);
                let keys = attention.keys(pass, source.states, (&self.key_values, order), &sites)?;
                Ok(Some(ProjectedSources::Flat(keys)))
            }
        }
    }

    /// Keys and values of decoding steps, or nothing if all layers share them.
    pub(super) fn memory(
        &self,
        pass: &Pass<'_>,
        source: Source<'_>,
        (cross, layer): (&Cross, usize),
    ) -> Result<Option<Vec<KeysValues>>> {
        let projected = self.projected(pass, source, (cross, layer))?;
        projected.map(|projected| cross.memory(&projected)).transpose()
    }

    /// The sub-layers of a layer, of whole sequences (rows × length × d_model) or of a decoding step (rows × d_model).
    pub(super) fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        attended: Attended<'_>,
        (cross, layer): (&Cross, usize),
    ) -> Result<Var> {
        let sites = cross.sites_of(layer);
        match &self.attention {
            Attention::Flat(attention) => self.residuals[0].around(pass, x, |x| {
                let y = match attended {
                    Attended::Whole(ProjectedSources::Flat(keys), masks, Some(order)) => {
                        attention.forward(pass, x, (keys, order, &masks[0]), &sites)?
                    }
                    Attended::Step(memory, rows) => {
                        let memory = Memory { key_values: &memory[0], rows, source: 0 };
                        attention.step(pass, x, &memory, &sites)?
                    }
                    Attended::Whole(..) => unreachable!("sources are projected by their layer"),
                };
                Ok(noted(pass, y, sites[0]))
            }),
            // Serial attention: a sub-layer for each source.
            Attention::Each(each, _) if self.residuals.len() > 1 => {
                let mut x = x.clone();
                for ((index, attention), residual) in each.iter().enumerate().zip(&self.residuals) {
                    let to = |x: &Var| attended.to(pass, attention, (x, index), sites[index]);
                    x = residual.around(pass, &x, to)?;
                }
                Ok(x)
            }
            Attention::Each(each, contexts) => self.residuals[0].around(pass, x, |x| {
                let to = |(index, attention)| attended.to(pass, attention, (x, index), sites[index]);
                let found = each.iter().enumerate().map(to).collect::<Result<Vec<Var>>>()?;
                if let Some((contexts, kind)) = contexts.as_ref().zip(cross.contexts) {
                    let site = Site { kind, layer };
                    let y = contexts.forward(pass, x, (&found, attended.n_rows(x)), site)?;
                    return Ok(noted(pass, y, site));
                }
                let (first, others) = found.split_first().expect("a source");
                others.iter().try_fold(first.clone(), |sum, other| add(pass.tape, &sum, other))
            }),
        }
    }
}

/// Captures the output of an attention, if outputs are captured.
fn noted(pass: &Pass<'_>, y: Var, site: Site) -> Var {
    pass.capture.activation(|| site.to_string(), &y);
    y
}

impl Attended<'_> {
    /// The attention of x to source `index`.
    fn to(
        self,
        pass: &Pass<'_>,
        attention: &CrossAttention,
        (x, index): (&Var, usize),
        site: Site,
    ) -> Result<Var> {
        let y = match self {
            Self::Whole(ProjectedSources::Each(each), masks, _) => {
                attention.forward(pass, x, &each[index], &masks[index], site)?
            }
            Self::Step(memory, rows) => {
                // Of several sources, the lengths of all together come first.
                let source = if memory.len() > 1 { 1 + index } else { 0 };
                attention.step(pass, x, &Memory { key_values: &memory[index], rows, source }, site)?
            }
            Self::Whole(..) => unreachable!("sources are projected by their layer"),
        };
        Ok(noted(pass, y, site))
    }

    /// Rows that are not there for the size of a recorded step.
    fn n_rows(self, x: &Var) -> usize {
        match self {
            Self::Whole(..) => x.shape()[0],
            Self::Step(_, rows) => rows.count(),
        }
    }
}
