//! A stack of Transformer layers: N × [self-attention, optional cross-attention, feed-forward], each with add & norm
//! (Vaswani et al. 2017, section 3.1).
//!
//! It takes embedded input and a mask. The encoder stack is a configuration without causal mask and cross-attention, the
//! decoder stack one with both.

use polyhead_attention::layers::feed_forward::{FeedForwardOptions, Gate};
use polyhead_attention::layers::{Bias, FeedForward, Norm, NormKind};
use polyhead_attention::multi_head::{
    CrossAttention, HeadShape, KeyValueProjection, Memory, PositionEncoding, ProjectionBiases, SelfAttention,
    SelfAttentionOptions,
};
use polyhead_attention::{AttentionKind, Builder, KvCache, Mask, Pass, Site, SiteGroup};
use polyhead_tensor::ops::attention::{KeysValues, StepRows};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Indices, Result, Tensor, Var};

use super::config::{CrossProjection, Dropout, NormOrder, PositionConfig, StackConfig};
use super::input::position_encoding;
use super::residual::Residual;

/// Options shared by all layers of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerOptions {
    /// Width of the input and output of every layer.
    pub(crate) d_model: usize,
    /// Kind of the norms.
    pub(crate) norm: NormKind,
    /// Position of the norms.
    pub(crate) norm_order: NormOrder,
    /// True if the stack ends with a final norm.
    pub(crate) final_norm: bool,
    /// Added to the variance in norms.
    pub(crate) norm_epsilon: f32,
    /// Activation of the feed-forward layers.
    pub(crate) activation: Activation,
    /// Gate of the feed-forward layers.
    pub(crate) gate: Gate,
    /// Biases of self-attention.
    pub(crate) biases: ProjectionBiases,
    /// Biases of the feed-forward layers.
    pub(crate) feed_forward_bias: Bias,
    /// Positional encoding.
    pub(crate) position: PositionConfig,
    /// Maximum number of positions.
    pub(crate) max_len: usize,
    /// Dropout probabilities in training.
    pub(crate) dropout: Dropout,
    /// Probability that the last layer is skipped for a row in training; that of the others rises to it from 0 (stochastic depth).
    pub(crate) stochastic_depth: f32,
}

/// Those of the paper, without sizes.
impl Default for LayerOptions {
    fn default() -> Self {
        Self {
            d_model: 0,
            norm: NormKind::Layer,
            norm_order: NormOrder::Post,
            final_norm: false,
            norm_epsilon: 1e-5,
            activation: Activation::Relu,
            gate: Gate::Absent,
            biases: ProjectionBiases::default(),
            feed_forward_bias: Bias::Present,
            position: PositionConfig::None {},
            max_len: 0,
            dropout: Dropout::default(),
            stochastic_depth: 0.0,
        }
    }
}

/// Options of a stack.
#[derive(Debug, Clone)]
pub(crate) struct StackOptions {
    /// Its self-attention.
    pub(crate) kind: AttentionKind,
    /// Its sizes.
    pub(crate) sizes: StackConfig,
    /// Options of its layers.
    pub(crate) layer: LayerOptions,
    /// The mask of self-attention, apart from padding and a causal mask.
    pub(crate) mask: Mask,
    /// Cross-attention and its key/value projection; default: none.
    pub(crate) cross: Option<(AttentionKind, CrossProjection)>,
    /// Layers that differ from the others; default: none.
    pub(crate) special: SpecialLayers,
}

/// Layers of a stack that differ from the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpecialLayers {
    /// Every n-th layer, the first included, attends to all tokens, and its positions are these; default: none.
    pub(crate) global: Option<(usize, PositionConfig)>,
    /// True if the self-attention of the first layer has no norm of its own: its input is normed already.
    pub(crate) first_is_normed: bool,
}

impl SpecialLayers {
    /// True if the layer attends to all tokens although others do not.
    fn is_global(&self, layer: usize) -> bool {
        self.global.is_some_and(|(every, _)| layer.is_multiple_of(every))
    }
}

/// A stack of layers.
#[derive(Debug, Clone)]
pub(crate) struct Stack {
    kind: AttentionKind,
    cross: Option<AttentionKind>,
    heads: HeadShape,
    layers: Vec<Layer>,
    /// The key/value projection of the source shared by all layers, if they have none of their own.
    shared_key_value: Option<KeyValueProjection>,
    norm: Option<Norm>,
    mask: Mask,
    special: SpecialLayers,
}

#[derive(Debug, Clone)]
struct Layer {
    attention: SelfAttention,
    attention_residual: Residual,
    cross: Option<CrossLayer>,
    feed_forward: FeedForward,
    feed_forward_residual: Residual,
}

#[derive(Debug, Clone)]
struct CrossLayer {
    attention: CrossAttention,
    key_value: Option<KeyValueProjection>,
    residual: Residual,
}

/// The source sequence of cross-attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// rows × source length × d_model.
    pub(crate) states: &'a Var,
    /// Number of tokens of each row.
    pub(crate) lengths: &'a Indices,
}

/// The state of incremental decoding.
#[derive(Debug)]
pub(crate) struct StackState {
    /// The K/V cache of self-attention.
    pub(crate) cache: KvCache,
    /// Keys and values of the source, one per layer or one for all layers.
    pub(super) memory: Vec<KeysValues>,
}

impl Stack {
    /// Declares the layers, the shared projection and the final norm under `builder`.
    pub(crate) fn new(builder: &mut Builder<'_>, options: &StackOptions) -> Result<Self> {
        let StackOptions { kind, sizes, layer, mask, cross, special } = options;
        let heads = sizes.heads(layer.d_model);
        let positions = position_encoding(layer.position, heads.d_key, layer.max_len)?;
        let global = match special.global {
            Some((_, position)) => position_encoding(position, heads.d_key, layer.max_len)?,
            None => PositionEncoding::default(),
        };
        let layers = (0..sizes.n_layers)
            .map(|index| {
                let positions = if special.is_global(index) { &global } else { &positions };
                let has_norm = index > 0 || !special.first_is_normed;
                let skipped = skip_probability(layer.stochastic_depth, (index, sizes.n_layers));
                Layer::new(&mut builder.at("layers").at(index), options, (positions, has_norm, skipped))
            })
            .collect();
        let shared_key_value = matches!(cross, Some((_, CrossProjection::Shared)))
            .then(|| KeyValueProjection::new(&mut builder.at("cross_key_value"), heads));
        let norm = layer
            .final_norm
            .then(|| Norm::new(&mut builder.at("norm"), layer.norm, layer.d_model, layer.norm_epsilon));
        let mask = if kind.is_causal { mask.clone().and(Mask::causal()) } else { mask.clone() };
        let cross = cross.map(|(kind, _)| kind);
        Ok(Self { kind: *kind, cross, heads, layers, shared_key_value, norm, mask, special: special.clone() })
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        let group = |kind| SiteGroup { kind, n_layers: self.layers.len(), heads: self.heads };
        [Some(self.kind), self.cross].into_iter().flatten().map(group)
    }

    /// The norm after the last layer.
    pub(crate) fn final_norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
    }

    /// The mask of self-attention, apart from padding.
    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Embedded tokens (rows × length × d_model) → the same shape. `lengths` mask padding, to which tokens of a causal
    /// stack do not attend anyway.
    pub(crate) fn forward(
        &self,
        pass: &Pass<'_>,
        x: Var,
        lengths: Option<&Indices>,
        source: Option<Source<'_>>,
    ) -> Result<Var> {
        self.forward_with(pass, x, (lengths, None), source)
    }

    /// Same as [`Stack::forward`], with a bias of the scores of self-attention, n_heads × length × length.
    pub(crate) fn forward_with(
        &self,
        pass: &Pass<'_>,
        mut x: Var,
        (lengths, bias): (Option<&Indices>, Option<&Tensor>),
        source: Option<Source<'_>>,
    ) -> Result<Var> {
        let length = x.shape()[1];
        let resolved = |mask: &Mask| {
            let mask = match lengths {
                Some(lengths) => mask.clone().and(Mask::padding(lengths.clone())),
                None => mask.clone(),
            };
            let mask = mask.resolve(length, length);
            bias.map_or(mask.clone(), |bias| mask.with_bias(bias.clone()))
        };
        let mask = resolved(&self.mask);
        let global = self.special.global.map(|_| resolved(&Mask::full()));
        let source_mask = source
            .map(|source| Mask::padding(source.lengths.clone()).resolve(length, source.states.shape()[1]));
        let project = |own: &KeyValueProjection| source.map(|source| own.forward(pass, source.states));
        let shared = self.shared_key_value.as_ref().and_then(project).transpose()?;
        for (index, layer) in self.layers.iter().enumerate() {
            pass.check_wanted()?;
            if pass.skips(self.kind.stack, index) {
                continue;
            }
            let own = layer.cross.as_ref().and_then(|cross| cross.key_value.as_ref()).and_then(project);
            let own = own.transpose()?;
            let key_value = own.as_ref().or(shared.as_ref()).zip(source_mask.as_ref());
            let mask = global.as_ref().filter(|_| self.special.is_global(index)).unwrap_or(&mask);
            x = self.layer(
                pass,
                (index, layer),
                &x,
                |x, site| layer.attention.forward(pass, x, mask, site),
                |cross, x, site| {
                    let (key_value, mask) = key_value.expect(NO_SOURCE);
                    cross.forward(pass, x, key_value, mask, site)
                },
            )?;
        }
        self.finish(pass, x)
    }

    /// The state before the first token; `source` is rows × source length × d_model.
    pub(crate) fn start(&self, pass: &Pass<'_>, source: Option<&Var>, rows: StepRows) -> Result<StackState> {
        let own = self.layers.iter().filter_map(|layer| layer.cross.as_ref()?.key_value.as_ref());
        let projections = own.chain(&self.shared_key_value);
        let memory =
            projections.map(|own| own.cached(pass, source.expect(NO_SOURCE))).collect::<Result<_>>()?;
        Ok(StackState { cache: KvCache::new(self.heads.cache(), self.layers.len(), rows), memory })
    }

    /// The state after embedded tokens (rows × length × d_model), of which each row has as many as `rows` say; the stack has no
    /// cross-attention.
    pub(crate) fn prefill(&self, pass: &Pass<'_>, mut x: Var, rows: StepRows) -> Result<StackState> {
        let mut cache = KvCache::new(self.heads.cache(), self.layers.len(), rows);
        let mask = self.mask.resolve(x.shape()[1], x.shape()[1]);
        for (index, layer) in self.layers.iter().enumerate() {
            if pass.skips(self.kind.stack, index) {
                continue;
            }
            let mut own = cache.layer_mut(index);
            x = self.layer(
                pass,
                (index, layer),
                &x,
                |x, site| layer.attention.prefill(pass, x, (&mask, &mut own), site),
                |_, _, _| unreachable!("a stack without cross-attention"),
            )?;
        }
        Ok(StackState { cache, memory: Vec::new() })
    }

    /// One decoding step: the embedded newest token of each row (rows × d_model) → the same shape.
    pub(crate) fn step(&self, pass: &Pass<'_>, mut x: Var, state: &mut StackState) -> Result<Var> {
        let StackState { cache, memory } = state;
        for (index, layer) in self.layers.iter().enumerate() {
            if pass.skips(self.kind.stack, index) {
                continue;
            }
            let key_values = memory.get(index).or(memory.first());
            let mut own = cache.layer_mut(index);
            let memory = key_values.map(|key_values| Memory { key_values, rows: own.rows });
            x = self.layer(
                pass,
                (index, layer),
                &x,
                |x, site| layer.attention.step(pass, x, &mut own, site),
                |cross, x, site| cross.step(pass, x, &memory.expect(NO_SOURCE), site),
            )?;
        }
        self.finish(pass, x)
    }

    /// One layer; the closures attend over whole sequences or in a decoding step.
    fn layer(
        &self,
        pass: &Pass<'_>,
        (index, layer): (usize, &Layer),
        x: &Var,
        attend_to_self: impl FnOnce(&Var, Site) -> Result<Var>,
        attend_to_source: impl FnOnce(&CrossAttention, &Var, Site) -> Result<Var>,
    ) -> Result<Var> {
        let site = Site { kind: self.kind, layer: index };
        let mut x = layer.attention_residual.around(pass, x, |x| {
            let y = attend_to_self(x, site)?;
            pass.capture.activation(|| site.to_string(), &y);
            Ok(y)
        })?;
        if let Some((cross, kind)) = layer.cross.as_ref().zip(self.cross) {
            let site = Site { kind, layer: index };
            x = cross.residual.around(pass, &x, |x| {
                let y = attend_to_source(&cross.attention, x, site)?;
                pass.capture.activation(|| site.to_string(), &y);
                Ok(y)
            })?;
        }
        let stack = self.kind.stack;
        let x = layer.feed_forward_residual.around(pass, &x, |x| {
            let y = layer.feed_forward.forward(pass, x)?;
            pass.capture.activation(|| format!("{stack}.layers.{index}.feed_forward"), &y);
            Ok(y)
        })?;
        pass.capture.activation(|| format!("{stack}.layers.{index}"), &x);
        Ok(x)
    }

    fn finish(&self, pass: &Pass<'_>, mut x: Var) -> Result<Var> {
        if let Some(norm) = &self.norm {
            x = norm.forward(pass, &x)?;
        }
        pass.capture.activation(|| self.kind.stack.into(), &x);
        Ok(x)
    }
}

/// The probability that a layer is skipped in training: it rises linearly from the first layer to `last` (Huang et al. 2016).
fn skip_probability(last: f32, (layer, n_layers): (usize, usize)) -> f32 {
    if n_layers > 1 { last * layer as f32 / (n_layers - 1) as f32 } else { last }
}

/// The invariant that a model with cross-attention guarantees.
const NO_SOURCE: &str = "a stack with cross-attention is given a source";

impl Layer {
    fn new(
        builder: &mut Builder<'_>,
        options: &StackOptions,
        (positions, has_norm, skipped): (&PositionEncoding, bool, f32),
    ) -> Self {
        let StackOptions { sizes, layer, cross, .. } = options;
        let heads = sizes.heads(layer.d_model);
        let own = SelfAttentionOptions {
            positions: positions.clone(),
            dropout: layer.dropout.attention,
            biases: layer.biases,
        };
        let attention = SelfAttention::new(&mut builder.at("self_attention"), heads, own);
        let attention_residual = if has_norm {
            Residual::new(&mut builder.at("self_attention_norm"), layer)
        } else {
            Residual::without_norm(layer)
        };
        let attention_residual = attention_residual.skipped_with(skipped);
        let cross = cross.map(|(_, projection)| {
            let mut cross_builder = builder.at("cross_attention");
            let attention = CrossAttention::new(&mut cross_builder, heads, layer.dropout.attention);
            let key_value = (projection == CrossProjection::PerLayer)
                .then(|| KeyValueProjection::new(&mut cross_builder.at("key_value"), heads));
            let residual =
                Residual::new(&mut builder.at("cross_attention_norm"), layer).skipped_with(skipped);
            CrossLayer { attention, key_value, residual }
        });
        let feed_forward = FeedForwardOptions {
            d_model: layer.d_model,
            d_ff: sizes.d_ff,
            activation: layer.activation,
            dropout: layer.dropout.activation,
            gate: layer.gate,
            bias: layer.feed_forward_bias,
        };
        Self {
            attention,
            attention_residual,
            cross,
            feed_forward: FeedForward::new(&mut builder.at("feed_forward"), feed_forward),
            feed_forward_residual: Residual::new(&mut builder.at("feed_forward_norm"), layer)
                .skipped_with(skipped),
        }
    }
}
