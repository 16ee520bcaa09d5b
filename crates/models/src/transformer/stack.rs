//! A stack of Transformer layers: N × [self-attention, optional cross-attention, feed-forward], each with add & norm
//! (Vaswani et al. 2017, section 3.1).
//!
//! It takes embedded input and a mask. The encoder stack is a configuration without causal mask and cross-attention, the
//! decoder stack one with both.

use polyhead_attention::layers::feed_forward::{FeedForwardOptions, Gate};
use polyhead_attention::layers::{Bias, FeedForward, Norm, NormKind};
use polyhead_attention::multi_head::{
    HeadShape, PositionEncoding, ProjectionBiases, SelfAttention, SelfAttentionOptions,
};
use polyhead_attention::{AttentionKind, Builder, KvCache, Mask, Pass, Site, SiteGroup};
use polyhead_tensor::ops::attention::{KeysValues, StepRows};
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::{Indices, Result, Tensor, Var};

use super::config::{Dropout, NormOrder, PositionConfig, StackConfig};
use super::cross::{Attended, Cross, CrossLayer, CrossOptions, Source};
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
    /// Cross-attention; default: none.
    pub(crate) cross: Option<CrossOptions>,
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
    cross: Option<Cross>,
    heads: HeadShape,
    layers: Vec<Layer>,
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

/// The state of incremental decoding.
#[derive(Debug)]
pub(crate) struct StackState {
    /// The K/V cache of self-attention.
    pub(crate) cache: KvCache,
    /// Keys and values of the sources, per layer or for all layers.
    pub(super) memory: Vec<Vec<KeysValues>>,
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
        let cross = cross.as_ref().map(|cross| Cross::new(builder, heads, cross));
        let norm = layer
            .final_norm
            .then(|| Norm::new(&mut builder.at("norm"), layer.norm, layer.d_model, layer.norm_epsilon));
        let mask = if kind.is_causal { mask.clone().and(Mask::causal()) } else { mask.clone() };
        Ok(Self { kind: *kind, cross, heads, layers, norm, mask, special: special.clone() })
    }

    /// The same layers with the same parameters under another name.
    pub(crate) fn named(&self, kind: AttentionKind) -> Self {
        Self { kind, ..self.clone() }
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        let n_layers = self.layers.len();
        let own = SiteGroup { kind: self.kind, n_layers, heads: self.heads };
        std::iter::once(own).chain(self.cross.iter().flat_map(move |cross| cross.sites(n_layers)))
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
        let source = self.cross.as_ref().zip(source);
        let source_masks = source.map(|(cross, source)| cross.masks(source, length)).unwrap_or_default();
        let shared = match source {
            Some((cross, source)) => cross.shared(pass, source)?,
            None => None,
        };
        for (index, layer) in self.layers.iter().enumerate() {
            pass.check_wanted()?;
            if pass.skips(self.kind.stack, index) {
                continue;
            }
            let own = match layer.cross.as_ref().zip(source) {
                Some((own, (cross, source))) => own.projected(pass, source, (cross, index))?,
                None => None,
            };
            let order = source.and_then(|(_, source)| source.order);
            let projected = own.as_ref().or(shared.as_ref());
            let attended = projected.map(|projected| Attended::Whole(projected, &source_masks, order));
            let mask = global.as_ref().filter(|_| self.special.is_global(index)).unwrap_or(&mask);
            x = self.layer(
                pass,
                (index, layer),
                &x,
                |x, site| layer.attention.forward(pass, x, mask, site),
                attended,
            )?;
        }
        self.finish(pass, x)
    }

    /// The state before the first token.
    pub(crate) fn start(
        &self,
        pass: &Pass<'_>,
        source: Option<Source<'_>>,
        rows: StepRows,
    ) -> Result<StackState> {
        let mut memory = Vec::new();
        if let Some(cross) = &self.cross {
            let source = source.expect(NO_SOURCE);
            for (index, layer) in self.layers.iter().enumerate() {
                let own = layer.cross.as_ref().map(|own| own.memory(pass, source, (cross, index)));
                memory.extend(own.transpose()?.flatten());
            }
            memory.extend(cross.shared_memory(pass, source)?);
        }
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
                None,
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
            let memory = memory.get(index).or(memory.first());
            let mut own = cache.layer_mut(index);
            let attended = memory.map(|memory| Attended::Step(memory, own.rows));
            x = self.layer(
                pass,
                (index, layer),
                &x,
                |x, site| layer.attention.step(pass, x, &mut own, site),
                attended,
            )?;
        }
        self.finish(pass, x)
    }

    /// One layer; the closure attends over whole sequences or in a decoding step.
    fn layer(
        &self,
        pass: &Pass<'_>,
        (index, layer): (usize, &Layer),
        x: &Var,
        attend_to_self: impl FnOnce(&Var, Site) -> Result<Var>,
        attended: Option<Attended<'_>>,
    ) -> Result<Var> {
        let site = Site { kind: self.kind, layer: index };
        let mut x = layer.attention_residual.around(pass, x, |x| {
            let y = attend_to_self(x, site)?;
            pass.capture.activation(|| site.to_string(), &y);
            Ok(y)
        })?;
        if let Some((own, cross)) = layer.cross.as_ref().zip(self.cross.as_ref()) {
            x = own.forward(pass, &x, attended.expect(NO_SOURCE), (cross, index))?;
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
        let cross = cross.as_ref().map(|cross| CrossLayer::new(builder, (cross, heads), (layer, skipped)));
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
