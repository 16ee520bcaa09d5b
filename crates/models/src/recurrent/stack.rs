//! Stacked recurrent layers: an encoder over whole sentences, in one or both directions, or a language model's layers.
//!
//! A layer's output is dropped out before the next layer, as in PyTorch's `nn.LSTM`; with residual connections each layer
//! but the first adds its input to its output.

use polyhead_attention::layers::recurrent::{RecurrentLayer, RecurrentStart};
use polyhead_attention::layers::{Dropout, Lstmn};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::recurrent::{Reading, RecurrentOutput};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Indices, Result, Tensor, Var};

use super::config::{Cell, MAX_LAYERS, RecurrentConfig};
use crate::transformer::validate;

/// A layer of any cell.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    /// RNN, GRU or LSTM.
    Plain(RecurrentLayer),
    /// An LSTM with attention to its own memory.
    Lstmn(Lstmn),
}

impl Layer {
    pub(super) fn new(builder: &mut Builder<'_>, cell: Cell, sizes: [usize; 2]) -> Self {
        match cell {
            Cell::Lstmn => Self::Lstmn(Lstmn::new(builder, sizes)),
            _ => Self::Plain(RecurrentLayer::new(builder, cell.kind(), sizes)),
        }
    }

    /// Runs over the positions of x, batch × length × d_in.
    pub(super) fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        start: RecurrentStart<'_>,
    ) -> Result<RecurrentOutput> {
        match self {
            Self::Plain(layer) => layer.forward(pass, x, start),
            Self::Lstmn(layer) => layer.forward(pass, x, start.state, start.lengths),
        }
    }
}

/// The options of a stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackOptions {
    /// The name of the stack in parameters, activations and interventions.
    pub(super) name: &'static str,
    pub(super) cell: Cell,
    pub(super) n_layers: usize,
    /// Two directions, each with half of d_model.
    pub(super) bidirectional: bool,
    pub(super) d_embedding: usize,
    pub(super) d_model: usize,
    pub(super) residual: bool,
    pub(super) dropout: f32,
}

impl StackOptions {
    /// What is inconsistent in the keys of a stack over a vocabulary of `vocab_size` ids.
    pub(super) fn problems(&self, vocab_size: usize) -> Vec<String> {
        let &Self { cell, n_layers, bidirectional, d_embedding, d_model, dropout, .. } = self;
        let mut problems = Vec::new();
        for (name, value) in [("vocab_size", vocab_size), ("d_embedding", d_embedding), ("d_model", d_model)]
        {
            validate::size(name, value, &mut problems);
        }
        if n_layers == 0 || n_layers > MAX_LAYERS {
            problems.push(format!("n_layers is {n_layers}, expected 1 to {MAX_LAYERS}"));
        }
        if bidirectional && !d_model.is_multiple_of(2) {
            problems.push(format!("d_model is {d_model}, expected an even number for two directions"));
        }
        if cell == Cell::Lstmn {
            problems
                .push("cell lstmn, expected rnn, rnn_relu, gru or lstm: only translators have lstmn".into());
        }
        validate::dropout("dropout", dropout, &mut problems);
        problems
    }

    /// Activations of one position that a training step stores, in elements: gates, states and projected inputs.
    pub(super) fn activation_elements(&self) -> usize {
        self.n_layers * self.d_model * (2 * self.cell.kind().n_gates() + 6) + self.d_embedding
    }

    /// The stack in words.
    pub(super) fn describe(&self) -> String {
        let &Self { n_layers, d_model, cell, bidirectional, .. } = self;
        let layers = if n_layers == 1 { "1 layer".to_owned() } else { format!("{n_layers} layers") };
        let directions = if bidirectional { ", both directions" } else { "" };
        format!("{layers} of {}, width {d_model}{directions}", cell.name())
    }
}

impl RecurrentConfig {
    /// The options of the encoder.
    pub(super) fn encoder_options(&self) -> StackOptions {
        let &Self { cell, n_layers, bidirectional, d_embedding, d_model, residual, dropout, .. } = self;
        StackOptions {
            name: "encoder",
            cell,
            n_layers,
            bidirectional,
            d_embedding,
            d_model,
            residual,
            dropout,
        }
    }
}

/// A stack of layers.
#[derive(Debug, Clone)]
pub(super) struct RecurrentStack {
    name: &'static str,
    /// One or two directions for each layer.
    layers: Vec<Vec<Layer>>,
    d_model: usize,
    n_states: usize,
    is_residual: bool,
    dropout: Dropout,
}

/// The states of a stack.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    /// The last layer's outputs: batch × length × d_model.
    pub(super) states: Var,
    /// The last state of each layer, h and then c of both directions: batch × (n_states · d_model).
    pub(super) last: Vec<Var>,
}

impl RecurrentStack {
    /// Declares `layers.0.forward`, `layers.0.backward` and so on under the name of the stack.
    pub(super) fn new(builder: &mut Builder<'_>, options: &StackOptions) -> Self {
        let &StackOptions { name, cell, n_layers, bidirectional, d_embedding, d_model, .. } = options;
        let mut builder = builder.at(name);
        let directions: &[&str] = if bidirectional { &["forward", "backward"] } else { &["forward"] };
        let layer = |index: usize| {
            let d_in = if index == 0 { d_embedding } else { d_model };
            let sizes = [d_in, d_model / directions.len()];
            let path = |direction: &&str| {
                Layer::new(&mut builder.at(format!("layers.{index}.{direction}")), cell, sizes)
            };
            directions.iter().map(path).collect()
        };
        Self {
            name,
            layers: (0..n_layers).map(layer).collect(),
            d_model,
            n_states: cell.kind().n_states(),
            is_residual: options.residual,
            dropout: Dropout::new(options.dropout),
        }
    }

    /// Runs over embeddings, batch × length × d_embedding, from the last states of an earlier run or from zeros.
    pub(super) fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        lengths: Option<&Indices>,
        before: Option<&[Var]>,
    ) -> Result<Encoded> {
        let (mut x, mut last) = (x.clone(), Vec::new());
        for (index, directions) in self.layers.iter().enumerate() {
            if index > 0 {
                x = self.dropout.forward(pass, &x)?;
            }
            let mut found = Vec::new();
            for (layer, reading) in directions.iter().zip([Reading::Forwards, Reading::Backwards]) {
                let start = RecurrentStart { state: before.map(|states| &states[index]), lengths, reading };
                found.push(layer.forward(pass, &x, start)?);
            }
            let (outputs, state) = self.joined(pass, &found)?;
            x = layer_output(pass, (self.name, index), [&x, &outputs], self.is_residual)?;
            last.push(state);
            pass.capture.activation(|| format!("{}.layers.{index}", self.name), &x);
        }
        Ok(Encoded { states: x, last })
    }

    /// Outputs and last states of both directions side by side.
    fn joined(&self, pass: &Pass<'_>, found: &[RecurrentOutput]) -> Result<(Var, Var)> {
        let [one, other] = found else { return Ok((found[0].outputs.clone(), found[0].last.clone())) };
        let outputs = concat(pass.tape, &[&one.outputs, &other.outputs], 2)?;
        let half = self.d_model / 2;
        let mut parts = Vec::new();
        for vector in 0..self.n_states {
            for direction in found {
                parts.push(slice(pass.tape, &direction.last, 1, vector * half..(vector + 1) * half)?);
            }
        }
        Ok((outputs, concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 1)?))
    }
}

/// The output of layer `index` of a stack: `outputs`, plus x if the layer is residual; a skipped layer returns x, or zeros
/// if x has another width.
pub(super) fn layer_output(
    pass: &Pass<'_>,
    (stack, index): (&'static str, usize),
    [x, outputs]: [&Var; 2],
    is_residual: bool,
) -> Result<Var> {
    if pass.skips(stack, index) {
        let nothing = || Tensor::zeros(outputs.shape()).to_device(&pass.parameters.device());
        return if x.shape() == outputs.shape() { Ok(x.clone()) } else { Ok(Var::constant(nothing()?)) };
    }
    if is_residual && index > 0 { add(pass.tape, x, outputs) } else { Ok(outputs.clone()) }
}
