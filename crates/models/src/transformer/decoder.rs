//! The decoder: N × [masked self-attention, cross-attention, feed-forward], each with add & norm (Vaswani et al. 2017,
//! section 3.1). All target tokens at once in training, one after the other in decoding.

use polyhead_attention::layers::{Embedding, FeedForward, LayerNorm};
use polyhead_attention::multi_head::{CrossAttention, KeyValueProjection, Memory, Order, SelfAttention};
use polyhead_attention::{Builder, Kind, KvCache, Mask, Pass, Site, Stack};
use polyhead_tensor::ops::attention::{KeysValues, StepRows};
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Error, Indices, Result, Tensor, Var};

use super::config::{CrossProjection, PositionConfig, TransformerConfig};
use super::encoder::{feed_forward, feed_forward_options, final_norm, mask, self_attention};
use super::input::{Input, order};
use super::residual::Residual;
use crate::ids::Ids;

/// The layers that write.
#[derive(Debug, Clone)]
pub struct Decoder {
    input: Input,
    layers: Vec<DecoderLayer>,
    /// One projection of the encoder's output for all layers, if they have none of their own.
    shared_key_value: Option<KeyValueProjection>,
    norm: Option<LayerNorm>,
    sight: Mask,
    config: TransformerConfig,
}

#[derive(Debug, Clone)]
struct DecoderLayer {
    attention: SelfAttention,
    attention_residual: Residual,
    cross: CrossAttention,
    key_value: Option<KeyValueProjection>,
    cross_residual: Residual,
    feed_forward: FeedForward,
    feed_forward_residual: Residual,
}

/// What a step of decoding remembers of the steps before it and of the source.
#[derive(Debug)]
pub struct DecoderState {
    cache: KvCache,
    /// Keys and values of the source for each layer, or once for all.
    memory: Vec<KeysValues>,
    /// The step as a device recorded it, and what that hangs on.
    repeated: Repeated<Tensor>,
    form: [usize; 2],
}

/// Whether a device may record a step and replay it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// What the step gives outlives its recording.
    Allowed,
    /// It does not.
    Never,
}

impl DecoderState {
    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        self.cache.rows().sources()
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Row i becomes what row `rows[i]` was.
    pub fn reorder(&mut self, rows: &[usize]) {
        self.cache.reorder(rows);
    }
}

impl Decoder {
    /// Declares the stack here; `embedding` may be shared.
    pub(super) fn new(
        builder: &mut Builder<'_>,
        embedding: Embedding,
        config: &TransformerConfig,
    ) -> Result<Self> {
        let input = Input::new(builder, embedding, config);
        let order = order(config, config.decoder)?;
        let layers = (0..config.decoder.n_layers)
            .map(|layer| DecoderLayer::new(&mut builder.at("layers").at(layer), config, &order))
            .collect();
        let shape = config.decoder.heads(config.d_model);
        let shared_key_value = (config.cross_projection == CrossProjection::Shared)
            .then(|| KeyValueProjection::new(&mut builder.at("cross_key_value"), shape));
        let norm = final_norm(builder, config);
        let sight = mask(&config.decoder_sight).and(Mask::causal());
        Ok(Self { input, layers, shared_key_value, norm, sight, config: config.clone() })
    }

    /// Target ids and the encoder's output, rows × source length × d_model → rows × target length × d_model.
    pub(super) fn forward(
        &self,
        pass: &Pass<'_>,
        memory: &Var,
        source_lengths: &Indices,
        target: &Ids,
    ) -> Result<Var> {
        let length = target.length();
        let mut x = self.input.forward(pass, target.ids(), length, 0)?;
        pass.capture.activation(|| "decoder.embedding".into(), &x);
        let sight = self.sight.resolve(length, length);
        let source_sight = Mask::padding(source_lengths.clone()).resolve(length, memory.shape()[1]);
        let shared = self.shared_key_value.as_ref().map(|shared| shared.forward(pass, memory)).transpose()?;
        for (index, layer) in self.layers.iter().enumerate() {
            if pass.skips(Stack::Decoder, index) {
                continue;
            }
            let own = layer.key_value.as_ref().map(|own| own.forward(pass, memory)).transpose()?;
            let key_value =
                own.as_ref().or(shared.as_ref()).expect("each layer has keys and values, or all share them");
            x = layer.forward(
                pass,
                index,
                &x,
                |x, site| layer.attention.forward(pass, x, &sight, site),
                |x, site| layer.cross.forward(pass, x, key_value, &source_sight, site),
            )?;
        }
        self.finish(pass, x)
    }

    /// The state before the first token: one row for each source sentence, room for `n_rows` rows.
    pub(super) fn start(
        &self,
        pass: &Pass<'_>,
        memory: &Var,
        source_lengths: &[u32],
        n_rows: usize,
    ) -> Result<DecoderState> {
        let own = self.layers.iter().filter_map(|layer| layer.key_value.as_ref());
        let projections = own.chain(&self.shared_key_value);
        let memory = projections.map(|projection| projection.keep(pass, memory)).collect::<Result<_>>()?;
        let shape = self.config.decoder.heads(self.config.d_model).cache();
        let rows = StepRows::of_sources(source_lengths, n_rows).on(&pass.parameters.device());
        let cache = KvCache::new(shape, self.layers.len(), rows);
        Ok(DecoderState { cache, memory, repeated: Repeated::New, form: [0; 2] })
    }

    /// One token in each row: `finish` gets rows × d_model and gives what a step is to give, a row for each token. Where a
    /// device can replay a step it does so, unless something is captured or changed or `finish` is not to be recorded.
    pub(super) fn step<E: From<Error>>(
        &self,
        pass: &Pass<'_>,
        (state, tokens): (&mut DecoderState, &[u32]),
        replay: Replay,
        finish: impl FnOnce(&Var) -> std::result::Result<Tensor, E>,
    ) -> std::result::Result<Tensor, E> {
        let DecoderState { cache, memory, repeated, form } = state;
        self.check(cache.len(), tokens)?;
        cache.begin(tokens, &self.sight);
        if std::mem::replace(form, cache.rows().form()) != *form {
            *repeated = Repeated::New;
        }
        let is_recorded = cache.rows().are_few() && pass.capture.is_off() && pass.intervention.is_none();
        let work = || finish(&self.attend(pass, cache, memory)?);
        let mut y = None;
        match replay {
            Replay::Allowed if is_recorded => {
                repeated.go(&pass.parameters.device(), work, |found| y = Some(found.clone()))?;
            }
            Replay::Allowed | Replay::Never => y = Some(work()?),
        }
        cache.advance();
        Ok(y.expect("a step gives something").first_rows(tokens.len()))
    }

    /// What operations check when they are done is not checked again when they are replayed.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<()> {
        let TransformerConfig { target_vocab_size: vocab_size, max_len, position, .. } = self.config;
        if let Some((place, &id)) = tokens.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
            return Err(Error::Id { operation: "embedding", id, position: place, vocab_size });
        }
        let is_limited = matches!(position, PositionConfig::Learned {} | PositionConfig::Rotary { .. });
        if is_limited && len >= max_len {
            let expected = format!("more than {len} places");
            return Err(Error::Shape { operation: "step", name: "places", found: vec![max_len], expected });
        }
        Ok(())
    }

    /// The newest token of each row → rows × d_model.
    fn attend(&self, pass: &Pass<'_>, cache: &mut KvCache, memory: &[KeysValues]) -> Result<Var> {
        cache.rows().follow_parents();
        let mut x = self.input.step(pass, cache.rows())?;
        pass.capture.activation(|| "decoder.embedding".into(), &x);
        for (index, layer) in self.layers.iter().enumerate() {
            if pass.skips(Stack::Decoder, index) {
                continue;
            }
            let kept = memory
                .get(index)
                .or(memory.first())
                .expect("each layer has keys and values, or all share them");
            let mut own = cache.layer_mut(index);
            let memory = Memory { kept, rows: own.rows };
            x = layer.forward(
                pass,
                index,
                &x,
                |x, site| layer.attention.step(pass, x, &mut own, site),
                |x, site| layer.cross.step(pass, x, &memory, site),
            )?;
        }
        self.finish(pass, x)
    }

    fn finish(&self, pass: &Pass<'_>, mut x: Var) -> Result<Var> {
        if let Some(norm) = &self.norm {
            x = norm.forward(pass, &x)?;
        }
        pass.capture.activation(|| "decoder".into(), &x);
        Ok(x)
    }
}

impl DecoderLayer {
    fn new(builder: &mut Builder<'_>, config: &TransformerConfig, order: &Order) -> Self {
        let shape = config.decoder.heads(config.d_model);
        let attention = self_attention(builder, config, config.decoder, order);
        let attention_residual = Residual::new(&mut builder.at("self_attention_norm"), config);
        let mut cross_builder = builder.at("cross_attention");
        let cross = CrossAttention::new(&mut cross_builder, shape, config.dropout.attention);
        let key_value = (config.cross_projection == CrossProjection::PerLayer)
            .then(|| KeyValueProjection::new(&mut cross_builder.at("key_value"), shape));
        Self {
            attention,
            attention_residual,
            cross,
            key_value,
            cross_residual: Residual::new(&mut builder.at("cross_attention_norm"), config),
            feed_forward: FeedForward::new(
                &mut builder.at("feed_forward"),
                feed_forward_options(config, config.decoder),
            ),
            feed_forward_residual: Residual::new(&mut builder.at("feed_forward_norm"), config),
        }
    }

    /// The three sub-layers; how to attend differs between all tokens at once and one step.
    fn forward(
        &self,
        pass: &Pass<'_>,
        index: usize,
        x: &Var,
        attend_to_self: impl FnOnce(&Var, Site) -> Result<Var>,
        attend_to_source: impl FnOnce(&Var, Site) -> Result<Var>,
    ) -> Result<Var> {
        let site = Site { kind: Kind::DecoderSelf, layer: index };
        let x = self.attention_residual.around(pass, x, |x| {
            let y = attend_to_self(x, site)?;
            pass.capture.activation(|| site.to_string(), &y);
            Ok(y)
        })?;
        let cross_site = Site { kind: Kind::Cross, layer: index };
        let x = self.cross_residual.around(pass, &x, |x| {
            let y = attend_to_source(x, cross_site)?;
            pass.capture.activation(|| cross_site.to_string(), &y);
            Ok(y)
        })?;
        feed_forward(pass, &self.feed_forward, &self.feed_forward_residual, &x, site)
    }
}
