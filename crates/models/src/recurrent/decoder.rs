//! The recurrent decoder: whole targets in training, one token at a time in decoding, with the same bits.
//!
//! - Without attention and with Luong's, layers run over the whole target, then all steps attend at once.
//! - Bahdanau's decoder attends before each step: the top layer's previous state is the query, and the context is added to
//!   the first layer's projected input by `feed`.
//! - Input feeding does the same with the previous attention vector tanh(W·[context; h]).
//!
//! With coverage the weights of earlier steps enter the score, so that steps attend one after the other.

use polyhead_attention::layers::recurrent::RecurrentStart;
use polyhead_attention::layers::{Dropout, Linear};
use polyhead_attention::{AttentionKind, Builder, Memory, Pass, Site, SourceAttention};
use polyhead_tensor::ops::elementwise::{add, tanh};
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::{Result, Tensor, Var};

use super::config::{DecoderAttention, RecurrentConfig};
use super::stack::{Layer, layer_output};
use crate::copying::Copying;

/// Attention from target to source.
pub(super) const CROSS: AttentionKind =
    AttentionKind::cross_attention(0, "cross", "decoder", ["target", "source"]);
/// The one attention layer.
pub(super) const SITE: Site = Site { kind: CROSS, layer: 0 };

/// The decoder.
#[derive(Debug, Clone)]
pub(super) struct DecoderStack {
    layers: Vec<Layer>,
    attention: Option<SourceAttention>,
    /// Projects the context or the attention vector to the gates of the first layer.
    feed: Option<Linear>,
    /// tanh(W·[context; h]), or of [context; h; embedding] for Bahdanau.
    combine: Option<Linear>,
    kind: DecoderAttention,
    /// True if the sums of earlier weights enter the score.
    covers: bool,
    /// True if the attention is an output too.
    copies: bool,
    d_model: usize,
    is_residual: bool,
    dropout: Dropout,
}

/// The outputs of the decoder for each target position.
pub(super) struct Decoded {
    /// The input of the output layer: rows × length × d_model.
    pub(super) vector: Var,
    /// The attention to the source; `None` unless the model copies.
    pub(super) attended: Option<Attended>,
}

/// The attention of target positions to the source.
pub(super) struct Attended {
    /// The top layer's outputs: rows × length × d_model.
    pub(super) hidden: Var,
    /// Rows × length × d_model.
    pub(super) context: Var,
    /// Rows × length × source length.
    pub(super) weights: Var,
}

/// The state of all rows between two steps.
#[derive(Debug, Clone)]
pub(super) struct StepState {
    /// The state of each layer.
    pub(super) layers: Vec<LayerState>,
    /// The attention vector of the previous step, rows × d_model, with input feeding.
    pub(super) vector: Option<Var>,
    /// The sum of the attention weights of earlier steps, rows × source length, with coverage.
    pub(super) covered: Option<Var>,
    /// Number of tokens so far.
    pub(super) position: usize,
}

/// The state of one layer.
#[derive(Debug, Clone)]
pub(super) struct LayerState {
    /// h and c: rows × (n_states · d_model).
    pub(super) state: Var,
    /// The output of the last step in the compute dtype, rows × 1 × d_model; `None` before the first.
    pub(super) output: Option<Var>,
    /// The earlier states of an LSTMN: rows × any number × width.
    pub(super) tape: Vec<Var>,
}

/// Weights that all steps of a pass share.
struct StepWeights<'a> {
    hidden: Vec<Option<SharedWeight<'a>>>,
    feed: Option<SharedWeight<'a>>,
    combine: Option<SharedWeight<'a>>,
}

impl DecoderStack {
    /// Declares `layers.0` and so on, `attention`, `feed` and `combine`.
    pub(super) fn new(builder: &mut Builder<'_>, config: &RecurrentConfig) -> Result<Self> {
        let &RecurrentConfig { cell, n_layers, d_embedding, d_model, attention: kind, .. } = config;
        let layer = |index: usize| {
            let d_in = if index == 0 { d_embedding } else { d_model };
            Layer::new(&mut builder.at(format!("layers.{index}")), cell, [d_in, d_model])
        };
        let layers: Vec<Layer> = (0..n_layers).map(layer).collect();
        let attends = kind != DecoderAttention::None;
        let mut attention = None;
        if attends {
            let (score, local) = (config.score_options(), config.locality());
            let mut builder = builder.at("attention");
            let plain = SourceAttention::new(&mut builder, score, local, SITE)?;
            attention = Some(if config.coverage > 0.0 {
                plain.with_coverage(&mut builder, score.d_hidden)
            } else {
                plain
            });
        }
        let feeds = kind == DecoderAttention::Bahdanau || config.input_feeding;
        let gates = layers[0].projected_width();
        let feed = feeds.then(|| Linear::without_bias(&mut builder.at("feed"), d_model, &[gates]));
        let width = 2 * d_model + if kind == DecoderAttention::Bahdanau { d_embedding } else { 0 };
        let combine = attends.then(|| Linear::new(&mut builder.at("combine"), width, d_model));
        let (is_residual, dropout) = (config.residual, Dropout::new(config.dropout));
        let (covers, copies) = (config.coverage > 0.0, config.copy != Copying::None);
        Ok(Self { layers, attention, feed, combine, kind, covers, copies, d_model, is_residual, dropout })
    }

    /// Keys and values for the steps; `None` without attention.
    pub(super) fn memory(
        &self,
        pass: &Pass<'_>,
        states: &Var,
        lengths: &polyhead_tensor::Indices,
    ) -> Result<Option<Memory>> {
        self.attention.as_ref().map(|attention| attention.memory(pass, states, lengths)).transpose()
    }

    /// The state before the first token: the encoder's last states.
    pub(super) fn start(
        &self,
        pass: &Pass<'_>,
        last: Vec<Var>,
        memory: Option<&Memory>,
    ) -> Result<StepState> {
        let rows = last.first().map_or(0, |state| state.shape()[0]);
        let zeros = |width: usize| -> Result<Var> {
            Ok(Var::constant(Tensor::zeros(&[rows, width]).to_device(&pass.parameters.device())?))
        };
        let vector = match self.kind {
            DecoderAttention::Luong if self.feed.is_some() => Some(zeros(self.d_model)?),
            _ => None,
        };
        let covered =
            memory.filter(|_| self.covers).map(|memory| zeros(memory.keys.shape()[1])).transpose()?;
        let layers =
            last.into_iter().map(|state| LayerState { state, output: None, tape: Vec::new() }).collect();
        Ok(StepState { layers, vector, covered, position: 0 })
    }

    /// The input of the output layer for embedded target tokens (rows × length × d_embedding): rows × length × d_model.
    /// The state advances by as many tokens.
    pub(super) fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        memory: Option<&Memory>,
        state: &mut StepState,
    ) -> Result<Decoded> {
        let Decoded { vector, attended } = if self.feed.is_some() {
            self.by_steps(pass, x, memory, state)?
        } else {
            self.at_once(pass, x, memory, state)?
        };
        pass.capture.activation(|| "decoder.vector".into(), &vector);
        Ok(Decoded { vector: self.dropout.forward(pass, &vector)?, attended })
    }

    /// All positions at once, layer by layer.
    fn at_once(
        &self,
        pass: &Pass<'_>,
        embedded: &Var,
        memory: Option<&Memory>,
        state: &mut StepState,
    ) -> Result<Decoded> {
        let mut x = embedded.clone();
        for (index, (layer, state)) in self.layers.iter().zip(&mut state.layers).enumerate() {
            if index > 0 {
                x = self.dropout.forward(pass, &x)?;
            }
            let outputs = layer.advance(pass, &x, state)?;
            x = layer_output(pass, ("decoder", index), [&x, &outputs], self.is_residual)?;
            pass.capture.activation(|| format!("decoder.layers.{index}"), &x);
        }
        let start = state.position;
        state.position += embedded.shape()[1];
        let (Some(attention), Some(memory), Some(combine)) = (&self.attention, memory, &self.combine) else {
            return Ok(Decoded { vector: x, attended: None });
        };
        let (context, weights) = attend((pass, attention, memory), &x, start, &mut state.covered)?;
        attention.capture(pass, std::slice::from_ref(&weights))?;
        let both = concat(pass.tape, &[&context, &x], 2)?;
        let options = LinearOptions { activation: Activation::Tanh, ..Default::default() };
        let vector = combine.forward_with(pass, &both, options)?;
        Ok(Decoded { vector, attended: self.copies.then_some(Attended { hidden: x, context, weights }) })
    }

    /// One position after the other, because each step's input depends on the attention of the last.
    fn by_steps(
        &self,
        pass: &Pass<'_>,
        embedded: &Var,
        memory: Option<&Memory>,
        state: &mut StepState,
    ) -> Result<Decoded> {
        let (Some(attention), Some(memory)) = (&self.attention, memory) else {
            unreachable!("a decoder that feeds has attention")
        };
        let &[rows, length, _] = embedded.shape() else { unreachable!("embeddings have three axes") };
        let weights = self.step_weights(pass)?;
        let projected = self.layers[0].project(pass, embedded)?;
        let (mut vectors, mut hidden) = (Vec::new(), Vec::new());
        let (mut contexts, mut captured) = (Vec::new(), Vec::new());
        for t in 0..length {
            let projected = slice(pass.tape, &projected, 1, t..t + 1)?;
            let embedded = || slice(pass.tape, embedded, 1, t..t + 1);
            let step = Step { pass, attention, memory, weights: &weights };
            let own = if self.kind == DecoderAttention::Bahdanau {
                self.bahdanau(&step, &projected, embedded, state)?
            } else {
                let (own, vector) = self.fed(&step, &projected, embedded, state)?;
                vectors.push(vector);
                own
            };
            state.position += 1;
            hidden.push(own.hidden);
            contexts.push(own.context);
            captured.push(own.weights);
        }
        attention.capture(pass, &captured)?;
        let all = |parts: &[Var]| -> Result<Var> {
            let parts: Vec<Var> = parts.iter().map(|part| part.reshaped(&[rows, 1, self.d_model])).collect();
            concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 1)
        };
        let vector = match (self.kind, &self.combine) {
            (DecoderAttention::Bahdanau, Some(combine)) => {
                let both = concat(pass.tape, &[&all(&contexts)?, &all(&hidden)?, embedded], 2)?;
                let options = LinearOptions { activation: Activation::Tanh, ..Default::default() };
                combine.forward_with(pass, &both, options)?
            }
            _ => all(&vectors)?,
        };
        let attended = || -> Result<Attended> {
            let weights = concat(pass.tape, &captured.iter().collect::<Vec<_>>(), 1)?;
            Ok(Attended { hidden: all(&hidden)?, context: all(&contexts)?, weights })
        };
        Ok(Decoded { vector, attended: self.copies.then(attended).transpose()? })
    }

    fn step_weights<'a>(&self, pass: &Pass<'a>) -> Result<StepWeights<'a>> {
        let shared = |layer: &Option<Linear>| layer.as_ref().map(|layer| layer.shared(pass)).transpose();
        Ok(StepWeights {
            hidden: self.layers.iter().map(|layer| layer.weight(pass)).collect::<Result<_>>()?,
            feed: shared(&self.feed)?,
            combine: shared(&self.combine)?,
        })
    }

    /// A step with attention before the cell.
    fn bahdanau(
        &self,
        step: &Step<'_, '_>,
        projected: &Var,
        embedded: impl Fn() -> Result<Var>,
        state: &mut StepState,
    ) -> Result<Attended> {
        let pass = step.pass;
        let top = state.layers.last().expect("at least one layer");
        let query = if let Some(output) = &top.output {
            output.clone()
        } else {
            let h = slice(pass.tape, &top.state, 1, 0..self.d_model)?;
            h.reshaped(&[h.shape()[0], 1, self.d_model])
        };
        let of = (pass, step.attention, step.memory);
        let (context, weights) = attend(of, &query, state.position, &mut state.covered)?;
        let hidden = self.cells(step, projected, &context, (embedded, state))?;
        Ok(Attended { hidden, context, weights })
    }

    /// A step with attention after the cell and input feeding, and its attention vector.
    fn fed(
        &self,
        step: &Step<'_, '_>,
        projected: &Var,
        embedded: impl Fn() -> Result<Var>,
        state: &mut StepState,
    ) -> Result<(Attended, Var)> {
        let pass = step.pass;
        let last = state.vector.clone().expect("set at the start");
        let rows = last.shape()[0];
        let h =
            self.cells(step, projected, &last.reshaped(&[rows, 1, self.d_model]), (embedded, &mut *state))?;
        let of = (pass, step.attention, step.memory);
        let (context, weights) = attend(of, &h, state.position, &mut state.covered)?;
        let both = concat(pass.tape, &[&context, &h], 2)?;
        let combine = step.weights.combine.as_ref().expect("declared with attention");
        let vector = tanh(pass.tape, &combine.linear(pass.tape, &both)?);
        state.vector = Some(vector.reshaped(&[rows, self.d_model]));
        Ok((Attended { hidden: h, context, weights }, vector))
    }

    /// One position through all layers, `fed` being added to the first layer's input: the top layer's output, rows × 1 ×
    /// d_model.
    fn cells(
        &self,
        step: &Step<'_, '_>,
        projected: &Var,
        fed: &Var,
        (embedded, state): (impl Fn() -> Result<Var>, &mut StepState),
    ) -> Result<Var> {
        let (pass, weights) = (step.pass, step.weights);
        let feed = weights.feed.as_ref().expect("declared with attention before the cell or input feeding");
        let mut projected = add(pass.tape, projected, &feed.linear(pass.tape, fed)?)?;
        let mut x = None;
        for (index, (layer, state)) in self.layers.iter().zip(&mut state.layers).enumerate() {
            if index > 0 {
                let input = self.dropout.forward(pass, x.as_ref().expect("set by the layer below"))?;
                projected = layer.project(pass, &input)?;
                x = Some(input);
            }
            let outputs = layer.step(pass, &projected, weights.hidden[index].as_ref(), state)?;
            let is_needed = index > 0 || pass.skips("decoder", 0);
            let input = match x.take() {
                Some(input) => input,
                None if is_needed => embedded()?,
                None => outputs.clone(),
            };
            x = Some(layer_output(pass, ("decoder", index), [&input, &outputs], self.is_residual)?);
        }
        Ok(x.expect("at least one layer"))
    }
}

/// What a step reads.
struct Step<'a, 'b> {
    pass: &'a Pass<'b>,
    attention: &'a SourceAttention,
    memory: &'a Memory,
    weights: &'a StepWeights<'b>,
}

impl Layer {
    /// Width of the projected input.
    fn projected_width(&self) -> usize {
        match self {
            Self::Plain(layer) => layer.cell().n_gates() * layer.d_hidden(),
            Self::Lstmn(layer) => layer.projected_width(),
        }
    }

    /// The part of the input that does not depend on the state.
    fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        match self {
            Self::Plain(layer) => layer.project(pass, x),
            Self::Lstmn(layer) => layer.project(pass, x),
        }
    }

    /// The weight of the state for all steps of a pass.
    fn weight<'a>(&self, pass: &Pass<'a>) -> Result<Option<SharedWeight<'a>>> {
        match self {
            Self::Plain(layer) => layer.weight(pass).map(Some),
            Self::Lstmn(_) => Ok(None),
        }
    }

    /// Runs over the positions of x from `state`, which becomes the last: the outputs.
    fn advance(&self, pass: &Pass<'_>, x: &Var, state: &mut LayerState) -> Result<Var> {
        match self {
            Self::Plain(layer) => {
                let start = RecurrentStart { state: Some(&state.state), ..Default::default() };
                let found = layer.forward(pass, x, start)?;
                state.state = found.last;
                Ok(found.outputs)
            }
            Self::Lstmn(layer) => {
                let projected = layer.project(pass, x)?;
                layer.continue_from(pass, &projected, (&mut state.state, &mut state.tape), None)
            }
        }
    }

    /// One position of a projected input, rows × 1 × gates.
    fn step(
        &self,
        pass: &Pass<'_>,
        projected: &Var,
        weight: Option<&SharedWeight<'_>>,
        state: &mut LayerState,
    ) -> Result<Var> {
        match (self, weight) {
            (Self::Plain(layer), Some(weight)) => {
                let start = RecurrentStart { state: Some(&state.state), ..Default::default() };
                let found = layer.run(pass, projected, weight, start)?;
                (state.state, state.output) = (found.last, Some(found.outputs.clone()));
                Ok(found.outputs)
            }
            (Self::Lstmn(layer), _) => {
                let memory = (&mut state.state, &mut state.tape);
                let outputs = layer.continue_from(pass, projected, memory, None)?;
                state.output = Some(outputs.clone());
                Ok(outputs)
            }
            (Self::Plain(_), None) => unreachable!("its weight is shared by the steps"),
        }
    }
}

/// Context and weights of queries (rows × length × d_model); with coverage they attend one after the other.
fn attend(
    step: (&Pass<'_>, &SourceAttention, &Memory),
    query: &Var,
    start: usize,
    covered: &mut Option<Var>,
) -> Result<(Var, Var)> {
    let (pass, attention, memory) = step;
    let Some(sum) = covered else { return attention.attend(pass, query, memory, start) };
    let (mut contexts, mut all) = (Vec::new(), Vec::new());
    for t in 0..query.shape()[1] {
        let query = slice(pass.tape, query, 1, t..t + 1)?;
        let memory = attention.covered(pass, memory, sum)?;
        let (context, weights) = attention.attend(pass, &query, &memory, start + t)?;
        *sum = add(pass.tape, sum, &weights.reshaped(sum.shape()))?;
        contexts.push(context);
        all.push(weights);
    }
    let joined = |parts: &[Var]| concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 1);
    Ok((joined(&contexts)?, joined(&all)?))
}
