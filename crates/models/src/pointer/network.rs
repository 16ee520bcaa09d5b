//! The layers of a pointer network: points → LSTM → keys; previous point → LSTM → query; pointer attention.

use polyhead_attention::layers::recurrent::{Lstm, LstmState};
use polyhead_attention::layers::{Linear, Recurrent as _};
use polyhead_attention::multi_head::HeadShape;
use polyhead_attention::score::Additive;
use polyhead_attention::{AttentionKind, Builder, Pass, Site, SiteGroup, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::{add, scale};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Tensor, Var};

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
    encoder: Lstm,
    decoder: Lstm,
    /// What the decoder reads first, and the key that ends an answer; each of d_model.
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
    /// rows × 1 × (1 + points).
    pub(super) mask: Var,
    /// The encoder's last state.
    pub(super) state: LstmState,
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
            encoder: Lstm::new(&mut builder.at("encoder"), d, d),
            decoder: Lstm::new(&mut builder.at("decoder"), d, d),
            start: builder.declare("start", &[d], vector),
            end: builder.declare("end", &[d], vector),
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
        Ok(self.decode(pass, &memory, &memory.state, orders.inputs())?.0)
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
        let (hidden, cells) = self.encoded(pass, &x)?;
        let last = |states: &Var| last(pass, states, points.last());
        let state = LstmState { hidden: last(&hidden)?, cell: last(&cells)? };
        let before = |vector: ParameterId, rest: &Var| {
            // One copy of the vector for each row: 0 + vector.
            let zeros = Tensor::zeros(&[points.rows(), 1, self.config.d_model]);
            let zeros = Var::constant(zeros.to_device(&pass.parameters.device())?);
            let first = add(pass.tape, &zeros, &pass.parameter(vector))?;
            concat(pass.tape, &[&first, rest], 1)
        };
        let (keys, inputs) = (before(self.end, &hidden)?, before(self.start, &x)?);
        Ok(Memory { keys, inputs, mask: Var::constant(points.mask()), state })
    }

    /// Outputs and cell states of the encoder, each rows × points × d_model.
    fn encoded(&self, pass: &Pass<'_>, x: &Var) -> Result<(Var, Var)> {
        let &[rows, length, d] = x.shape() else { unreachable!("rows × points × d_model") };
        let projected = self.encoder.project(pass, x)?;
        let mut state = self.encoder.start(rows);
        let (mut hidden, mut cells) = (Vec::with_capacity(length), Vec::with_capacity(length));
        for position in 0..length {
            let input = slice(pass.tape, &projected, 1, position..position + 1)?.reshaped(&[rows, 4 * d]);
            state = self.encoder.advance(pass, &input, &state)?;
            hidden.push(state.hidden.reshaped(&[rows, 1, d]));
            cells.push(state.cell.reshaped(&[rows, 1, d]));
        }
        let joined = |parts: &[Var]| concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 1);
        Ok((joined(&hidden)?, joined(&cells)?))
    }

    /// Scores of all keys at each step, and the last state. `inputs` are places among all rows × (1 + points).
    pub(super) fn decode(
        &self,
        pass: &Pass<'_>,
        memory: &Memory,
        state: &LstmState,
        inputs: &Indices,
    ) -> Result<(Var, LstmState)> {
        let &[rows, n_keys, d] = memory.inputs.shape() else { unreachable!("rows × keys × d_model") };
        let table = memory.inputs.reshaped(&[rows * n_keys, d]);
        let read = embedding(pass.tape, inputs, inputs.len() / rows, &table, &EmbeddingOptions::default())?;
        let (query, state) = self.decoder.forward(pass, &read, state)?;
        let query = dropout(pass.tape, &query, self.config.dropout)?;
        let query = self.glimpsed(pass, memory, query)?;
        let scores = self.pointer.scores(pass, &query, &memory.keys)?;
        let site = Site { kind: POINTER, layer: 0 };
        let scores = match factor(pass, site) {
            None => scores,
            Some(factor) => scale(pass.tape, &scores, factor),
        };
        let logits = add(pass.tape, &scores, &memory.mask)?;
        capture(pass, site, &logits);
        pass.capture.activation(|| "logits".into(), &logits);
        Ok((logits, state))
    }

    /// The query after the glimpse, if there is one.
    fn glimpsed(&self, pass: &Pass<'_>, memory: &Memory, query: Var) -> Result<Var> {
        let Some((score, output)) = &self.glimpse else { return Ok(query) };
        let site = Site { kind: GLIMPSE, layer: 0 };
        let scores = add(pass.tape, &score.scores(pass, &query, &memory.keys)?, &memory.mask)?;
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

/// Of each row the state at the place `last`: rows × d_model.
fn last(pass: &Pass<'_>, states: &Var, last: &Indices) -> Result<Var> {
    let &[rows, length, d] = states.shape() else { unreachable!("rows × points × d_model") };
    let flat = states.reshaped(&[rows * length, d]);
    let found = embedding(pass.tape, last, 1, &flat, &EmbeddingOptions::default())?;
    Ok(found.reshaped(&[rows, d]))
}
