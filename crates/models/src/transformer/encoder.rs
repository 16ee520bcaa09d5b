//! The encoder: N × [self-attention, add & norm, feed-forward, add & norm] (Vaswani et al. 2017, section 3.1).

use polyhead_attention::layers::feed_forward::FeedForwardOptions;
use polyhead_attention::layers::{Embedding, FeedForward, LayerNorm};
use polyhead_attention::multi_head::{Order, SelfAttention, SelfAttentionOptions};
use polyhead_attention::{Builder, Kind, Mask, Pass, Site, Stack};
use polyhead_tensor::{Result, Var};

use super::config::{Sight, StackConfig, TransformerConfig};
use super::input::{Input, order};
use super::residual::Residual;
use crate::ids::Ids;

/// The layers that read.
#[derive(Debug, Clone)]
pub struct Encoder {
    input: Input,
    layers: Vec<EncoderLayer>,
    norm: Option<LayerNorm>,
    sight: Mask,
}

#[derive(Debug, Clone)]
struct EncoderLayer {
    attention: SelfAttention,
    attention_residual: Residual,
    feed_forward: FeedForward,
    feed_forward_residual: Residual,
}

impl Encoder {
    /// Declares the stack here; `embedding` may be shared.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        embedding: Embedding,
        config: &TransformerConfig,
    ) -> Result<Self> {
        let input = Input::new(builder, embedding, config);
        let order = order(config, config.encoder)?;
        let layers = (0..config.encoder.n_layers)
            .map(|layer| EncoderLayer::new(&mut builder.at("layers").at(layer), config, &order))
            .collect();
        let norm = final_norm(builder, config);
        Ok(Self { input, layers, norm, sight: mask(&config.encoder_sight) })
    }

    /// Ids → rows × length × d_model.
    pub(super) fn forward(&self, pass: &Pass<'_>, source: &Ids) -> Result<Var> {
        let length = source.length();
        let mut x = self.input.forward(pass, source.ids(), length, 0)?;
        pass.capture.activation(|| "encoder.embedding".into(), &x);
        let sight = self.sight.clone().and(Mask::padding(source.lengths().clone())).resolve(length, length);
        for (index, layer) in self.layers.iter().enumerate() {
            if pass.skips(Stack::Encoder, index) {
                continue;
            }
            let site = Site { kind: Kind::EncoderSelf, layer: index };
            x = layer.attention_residual.around(pass, &x, |x| {
                let y = layer.attention.forward(pass, x, &sight, site)?;
                pass.capture.activation(|| site.to_string(), &y);
                Ok(y)
            })?;
            x = feed_forward(pass, &layer.feed_forward, &layer.feed_forward_residual, &x, site)?;
        }
        if let Some(norm) = &self.norm {
            x = norm.forward(pass, &x)?;
        }
        pass.capture.activation(|| "encoder".into(), &x);
        Ok(x)
    }
}

impl EncoderLayer {
    fn new(builder: &mut Builder<'_>, config: &TransformerConfig, order: &Order) -> Self {
        Self {
            attention: self_attention(builder, config, config.encoder, order),
            attention_residual: Residual::new(&mut builder.at("self_attention_norm"), config),
            feed_forward: FeedForward::new(
                &mut builder.at("feed_forward"),
                feed_forward_options(config, config.encoder),
            ),
            feed_forward_residual: Residual::new(&mut builder.at("feed_forward_norm"), config),
        }
    }
}

/// The feed-forward sub-layer of either stack, the end of layer `site.layer`.
pub(super) fn feed_forward(
    pass: &Pass<'_>,
    layer: &FeedForward,
    residual: &Residual,
    x: &Var,
    site: Site,
) -> Result<Var> {
    let stack = if site.kind == Kind::EncoderSelf { "encoder" } else { "decoder" };
    let x = residual.around(pass, x, |x| {
        let y = layer.forward(pass, x)?;
        pass.capture.activation(|| format!("{stack}.layers.{}.feed_forward", site.layer), &y);
        Ok(y)
    })?;
    pass.capture.activation(|| format!("{stack}.layers.{}", site.layer), &x);
    Ok(x)
}

/// The self-attention of a layer of either stack; `order` is the same for all its layers.
pub(super) fn self_attention(
    builder: &mut Builder<'_>,
    config: &TransformerConfig,
    stack: StackConfig,
    order: &Order,
) -> SelfAttention {
    let options = SelfAttentionOptions { order: order.clone(), dropout: config.dropout.attention };
    SelfAttention::new(&mut builder.at("self_attention"), stack.heads(config.d_model), options)
}

pub(super) fn feed_forward_options(config: &TransformerConfig, stack: StackConfig) -> FeedForwardOptions {
    FeedForwardOptions {
        d_model: config.d_model,
        d_ff: stack.d_ff,
        activation: config.activation,
        dropout: config.dropout.activation,
    }
}

pub(super) fn final_norm(builder: &mut Builder<'_>, config: &TransformerConfig) -> Option<LayerNorm> {
    config.final_norm.then(|| LayerNorm::new(&mut builder.at("norm"), config.d_model, config.norm_epsilon))
}

/// What a stack's self-attention sees besides padding and the future.
pub(super) fn mask(sight: &Sight) -> Mask {
    match sight {
        Sight::Full => Mask::full(),
        Sight::Window { distance } => Mask::window(*distance),
        Sight::Dilated { distance, dilation } => Mask::dilated(*distance, *dilation),
        Sight::GlobalWindow { distance, global } => Mask::window(*distance).or(Mask::global(global.clone())),
    }
}
