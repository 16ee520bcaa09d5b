//! The layers of a pointer network: points → LSTM → keys; previous point → LSTM → query; pointer attention.

use polyhead_attention::layers::Linear;
use polyhead_attention::layers::recurrent::{RecurrentLayer, RecurrentStart};
use polyhead_attention::multi_head::HeadShape;
use polyhead_attention::score::Additive;
use polyhead_attention::{AttentionKind, Builder, Pass, Site, SiteGroup, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::{add, scale};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::recurrent::CellKind;
use polyhead_tensor::ops::shape::concat;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Var};

use super::batch::{NO_POINT, Orders, Points};
use super::config::{Glimpse, PointerConfig};
use crate::Result;

/// The pointer: each position of the answer attends to the points.
const POINTER: AttentionKind = AttentionKind::cross_attention(0, "pointer", "pointer", ["order", "points"]);
/// The attention before it.
const GLIMPSE: AttentionKind = AttentionKind::cross_attention(1, "glimpse", "glimpse", ["order", "points"]);

/// A pointer network.
#[derive(Debug, Clone)]
pub struct PointerNetwork {
    config: PointerConfig,
    input: Linear,
    encoder: RecurrentLayer,
    decoder: RecurrentLayer,
    /// What the decoder reads first, and the key that ends an answer; each 1 × d_model.
    start: ParameterId,
    end: ParameterId,
    glimpse: Option<(Additive, Linear)>,
    pointer: Additive,
}

/// What the decoder needs of the points.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    /// rows × (1 + points) × d_model: the end, then the encoder states.
    pub(super) keys: Var,
    /// rows × (1 + points) × d_model: the start, then the embedded points.
    pub(super) inputs: Var,
    /// rows × (1 + points).
    pub(super) mask: Var,
    /// The encoder's last state: rows × 2·d_model.
    pub(super) state: Var,
}

impl PointerNetwork {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &PointerConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let d = config.d_model;
        let vector = Init::Uniform(1.0 / (d as f32).sqrt());
        Ok(Self {
            input: Linear::new(&mut builder.at("input"), config.d_point, d),
            encoder: RecurrentLayer::new(&mut builder.at("encoder"), CellKind::Lstm, [d, d]),
            decoder: RecurrentLayer::new(&mut builder.at("decoder"), CellKind::Lstm, [d, d]),
            start: builder.declare("start", &[1, d], vector),
            end: builder.declare("end", &[1, d], vector),
            glimpse: (config.glimpse == Glimpse::Additive).then(|| {
                let score = Additive::new(&mut builder.at("glimpse.score"), [d, d], d);
                (score, Linear::new(&mut builder.at("glimpse.output"), d, d))
            }),
            pointer: Additive::new(&mut builder.at("pointer"), [d, d], d),
            config: config.clone(),
        })
    }

    /// The config of the model.
    pub fn config(&self) -> &PointerConfig {
        &self.config
    }

    /// The attention layers, the pointer first. Their keys are the end and then the points.
    pub fn sites(&self) -> Sites {
        let heads = HeadShape::even(self.config.d_model, 1);
        let kinds = std::iter::once(POINTER).chain(self.glimpse.iter().map(|_| GLIMPSE));
        Sites::new(kinds.map(|kind| SiteGroup { kind, n_layers: 1, heads }).collect())
    }

    /// A batch of rows of coordinates, each row flat, padded to `length` points; `None` is a padding row.
    ///
    /// # Panics
    /// If a row has more points, or not a multiple of d_point numbers.
    pub fn points<'a>(&self, rows: impl Iterator<Item = Option<&'a [f32]>>, length: usize) -> Points {
        let PointerConfig { d_point, offset, scale, .. } = &self.config;
        let scaled = |row: &[f32]| {
            let each = row.iter().zip(offset.iter().zip(scale).cycle());
            each.map(|(number, (offset, scale))| (number - offset) / scale).collect::<Vec<f32>>()
        };
        let rows: Vec<Vec<f32>> = rows.map(|row| scaled(row.unwrap_or_default())).collect();
        Points::new(&rows, length.max(1), *d_point)
    }

    /// Scores of all keys at each step: rows × steps × (1 + points), −∞ for padding.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(&self, pass: &Pass<'_>, points: &Points, orders: &Orders) -> Result<Var> {
        let memory = self.encode(pass, points)?;
        Ok(self.decode(pass, &memory, &memory.state, orders)?.0)
    }

    /// Mean cross-entropy of the steps that are not padding; a scalar.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn loss(&self, pass: &Pass<'_>, points: &Points, orders: &Orders) -> Result<Var> {
        let logits = self.forward(pass, points, orders)?;
        let options = CrossEntropyOptions { ignored_id: Some(NO_POINT), label_smoothing: 0.0 };
        Ok(cross_entropy(pass.tape, &logits, orders.targets(), options)?)
    }

    /// Encodes a batch of points.
    pub(super) fn encode(&self, pass: &Pass<'_>, points: &Points) -> Result<Memory> {
        let x = self.input.forward(pass, &Var::constant(points.coordinates()))?;
        let x = dropout(pass.tape, &x, self.config.dropout)?;
        let start = RecurrentStart { lengths: Some(points.lengths()), ..RecurrentStart::default() };
        let encoded = self.encoder.forward(pass, &x, start)?;
        let before = |vector: ParameterId, rest: &Var| {
            let first = rows_of(pass, &pass.parameter(vector), points.shared(), 1)?;
            Ok::<_, crate::Error>(concat(pass.tape, &[&first, rest], 1)?)
        };
        let (keys, inputs) = (before(self.end, &encoded.outputs)?, before(self.start, &x)?);
        Ok(Memory { keys, inputs, mask: Var::constant(points.mask()), state: encoded.last })
    }

    /// Scores of all keys at each step, and the last state.
    pub(super) fn decode(
        &self,
        pass: &Pass<'_>,
        memory: &Memory,
        state: &Var,
        orders: &Orders,
    ) -> Result<(Var, Var)> {
        let &[rows, n_keys, d] = memory.inputs.shape() else { unreachable!("rows × keys × d_model") };
        let table = memory.inputs.reshaped(&[rows * n_keys, d]);
        let read = rows_of(pass, &table, orders.inputs(), orders.length())?;
        let start = RecurrentStart { state: Some(state), ..RecurrentStart::default() };
        let decoded = self.decoder.forward(pass, &read, start)?;
        // One mask for all steps of a row.
        let mask = rows_of(pass, &memory.mask, orders.rows(), orders.length())?;
        let query = dropout(pass.tape, &decoded.outputs, self.config.dropout)?;
        let query = self.glimpsed(pass, memory, query, &mask)?;
        let scores = self.pointer.scores(pass, &query, &memory.keys)?;
        let site = Site { kind: POINTER, layer: 0 };
        let scores = match factor(pass, site) {
            None => scores,
            Some(factor) => scale(pass.tape, &scores, factor),
        };
        let logits = add(pass.tape, &scores, &mask)?;
        capture(pass, site, &logits);
        pass.capture.activation(|| "logits".into(), &logits);
        Ok((logits, decoded.last))
    }

    /// The query after the glimpse, if there is one.
    fn glimpsed(&self, pass: &Pass<'_>, memory: &Memory, query: Var, mask: &Var) -> Result<Var> {
        let Some((score, output)) = &self.glimpse else { return Ok(query) };
        let site = Site { kind: GLIMPSE, layer: 0 };
        let scores = add(pass.tape, &score.scores(pass, &query, &memory.keys)?, mask)?;
        capture(pass, site, &scores);
        let context =
            matmul(pass.tape, &softmax(pass.tape, &scores), &memory.keys, MatmulOptions::default())?;
        let seen = output.forward(pass, &context)?;
        let seen = match factor(pass, site) {
            None => seen,
            Some(factor) => scale(pass.tape, &seen, factor),
        };
        Ok(add(pass.tape, &query, &seen)?)
    }
}

/// The factor of an intervention at `site`: 0 if its layer is skipped.
fn factor(pass: &Pass<'_>, site: Site) -> Option<f32> {
    if pass.skips(site.kind.stack, site.layer) {
        return Some(0.0);
    }
    pass.intervention.and_then(|intervention| intervention.factors(site, 1)).map(|factors| factors[0])
}

/// Records the softmax of scores, rows × steps × keys.
fn capture(pass: &Pass<'_>, site: Site, scores: &Var) {
    if pass.capture.wants(site) {
        let &[rows, steps, keys] = scores.shape() else { unreachable!("rows × steps × keys") };
        let weights = softmax(pass.tape, scores);
        pass.capture.weights(site, &weights.value().reshaped(&[rows, 1, steps, keys]));
    }
}

/// Rows of a table by their indices, `length` of them for each row of the batch: rows × length × width.
fn rows_of(pass: &Pass<'_>, table: &Var, indices: &Indices, length: usize) -> Result<Var> {
    Ok(embedding(pass.tape, indices, length, table, &EmbeddingOptions::default())?)
}
