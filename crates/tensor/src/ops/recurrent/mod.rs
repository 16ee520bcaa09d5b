//! A whole recurrent layer in one direction: simple (Elman 1990), gated (GRU, Cho et al. 2014) or long short-term memory
//! (LSTM, Hochreiter & Schmidhuber 1997).
//!
//! The product of all inputs with W_ih is computed beforehand, for all positions at once. Here, per position: one product
//! p = W_hh·h + b_hh for all gates, then one pass over them. With x the projected input:
//!
//! - simple: h ← tanh(x + p), or ReLU;
//! - GRU, gates r, z, n: r, z = σ(x + p), n = tanh(x + r ∘ p), h ← n + z ∘ (h − n), as in PyTorch;
//! - LSTM, gates i, f, g, o: i, f, o = σ(x + p), g = tanh(x + p), c ← f ∘ c + i ∘ g, h ← o ∘ tanh(c).
//!
//! A row of length n takes part in its first n positions only: forwards its state stays as it was after them, backwards
//! it begins with the last of them. Its output beyond is 0. Rows never meet, so threads divide them and each goes through
//! all positions on its own. Backward: the gates' gradients from the last position taken to the first, each multiplied
//! with W_hh; dW_hh and its bias in one product over all positions ([`SharedWeight`]).
//!
//! A layer over one position is a step of a decoder: the bits are the same.

mod passes;
mod pointwise;

use std::cell::RefCell;
use std::rc::Rc;

use self::passes::{BackwardPass, ForwardPass};
use super::shared_weight::SharedWeight;
use crate::Result;
use crate::error::shape;
use crate::gemm::Output;
use crate::indices::Indices;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// The kind of a recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CellKind {
    /// h ← tanh(x + p).
    RnnTanh,
    /// h ← max(0, x + p).
    RnnRelu,
    /// The gated recurrent unit.
    Gru,
    /// Long short-term memory.
    #[default]
    Lstm,
}

impl CellKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::RnnTanh, Self::RnnRelu, Self::Gru, Self::Lstm];

    /// Number of gates, whose rows are stacked in the weights.
    pub fn n_gates(self) -> usize {
        match self {
            Self::RnnTanh | Self::RnnRelu => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// Number of vectors of the state: h, and c for an LSTM.
    pub fn n_states(self) -> usize {
        if self == Self::Lstm { 2 } else { 1 }
    }

    /// Vectors that the backward pass reads besides gates and h: c and tanh of the next c, or the product of n.
    pub(crate) fn n_extra(self) -> usize {
        match self {
            Self::RnnTanh | Self::RnnRelu => 0,
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// The order in which a layer reads its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// From the first position to the last.
    #[default]
    Forwards,
    /// From the last position of each row to the first.
    Backwards,
}

/// The kind of a layer and the order in which it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecurrentOptions {
    /// The cell; default: LSTM.
    pub cell: CellKind,
    /// The order; default: forwards.
    pub reading: Reading,
}

/// The inputs of a recurrent layer.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentInput<'a> {
    /// W_ih·x + b_ih of all positions: batch × length × (n_gates · d).
    pub projected: &'a Var,
    /// W_hh (n_gates · d × d) and b_hh.
    pub weight: &'a SharedWeight<'a>,
    /// The initial state, h and then c of each row: batch × (n_states · d). `None`: zeros.
    pub state: Option<&'a Var>,
    /// Number of positions of each row. `None`: all.
    pub lengths: Option<&'a Indices>,
}

/// The results of a recurrent layer.
#[derive(Debug, Clone)]
pub struct RecurrentOutput {
    /// h after each position: batch × length × d; 0 beyond a row's length.
    pub outputs: Var,
    /// The state after the last position: batch × (n_states · d).
    pub last: Var,
}

/// Sizes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) batch: usize,
    pub(crate) length: usize,
    pub(crate) d: usize,
    pub(crate) cell: CellKind,
}

impl Sizes {
    /// Width of all gates of a position.
    pub(crate) fn gates(&self) -> usize {
        self.cell.n_gates() * self.d
    }

    /// Width of a state.
    pub(crate) fn state(&self) -> usize {
        self.cell.n_states() * self.d
    }

    /// Width of what is saved for the backward pass besides gates and h.
    pub(crate) fn extra(&self) -> usize {
        self.cell.n_extra() * self.d
    }
}

/// Runs a recurrent layer over all positions.
///
/// # Errors
/// If the shapes do not fit together, or a length exceeds that of the input.
pub fn recurrent(
    tape: &Tape,
    input: RecurrentInput<'_>,
    options: RecurrentOptions,
) -> Result<RecurrentOutput> {
    let sizes = check(&input, options)?;
    on_gpu!(input.projected.value() => Ok(crate::cuda::ops::recurrent::recurrent(tape, input, (sizes, options))));
    let lengths = input.lengths.map(|lengths| lengths.host().to_vec());
    if let Some(&long) = lengths.iter().flatten().find(|length| **length as usize > sizes.length) {
        let expected = format!("lengths of at most {}", sizes.length);
        return shape("recurrent", "lengths", &[long as usize], expected);
    }
    let forward = ForwardPass { sizes, input, options, lengths: lengths.as_deref() };
    let (outputs, last, saved) = forward.run(tape.is_training());
    let saved = saved.map(|saved| CpuSaved {
        projected: input.projected.node_only(),
        state: input.state.map(Var::node_only),
        weight: input.weight.detached(),
        pass: BackwardPass { sizes, options, lengths, saved },
    });
    let backward = move |gradient: &Tensor, last: Option<&Tensor>, gradients: &mut Gradients| {
        saved.expect("saved while the tape records").backward(gradient, last, gradients);
    };
    Ok(record(tape, &input, [outputs, last], backward))
}

/// Records outputs and last state as two results of one operation: the gradient of the last state is kept until the
/// outputs', recorded before it, is complete.
pub(crate) fn record(
    tape: &Tape,
    input: &RecurrentInput<'_>,
    [outputs, last]: [Tensor; 2],
    backward: impl FnOnce(&Tensor, Option<&Tensor>, &mut Gradients) + 'static,
) -> RecurrentOutput {
    let of_last = Rc::new(RefCell::new(None::<Tensor>));
    let kept = Rc::clone(&of_last);
    let inputs: Vec<&Var> =
        [input.projected, input.weight.collector()].into_iter().chain(input.state).collect();
    let outputs = tape.record(outputs, &inputs, move |gradient, gradients| {
        backward(gradient, kept.take().as_ref(), gradients);
    });
    let node = outputs.node_only();
    let last = tape.record(last, &[&outputs], move |gradient, gradients| {
        of_last.replace(Some(gradient.clone()));
        // The outputs may have no gradient of their own; zeros let their backward function run.
        #[cfg(feature = "cuda")]
        if gradient.gpu().is_some() {
            return gradients.update_array(&node, |out, output| {
                if output == Output::Overwrite {
                    out.clear();
                }
            });
        }
        gradients.update(&node, |out, output| {
            if output == Output::Overwrite {
                out.fill(0.0);
            }
        });
    });
    RecurrentOutput { outputs, last }
}

struct CpuSaved {
    projected: Var,
    state: Option<Var>,
    weight: SharedWeight<'static>,
    pass: BackwardPass,
}

impl CpuSaved {
    fn backward(self, gradient: &Tensor, last: Option<&Tensor>, gradients: &mut Gradients) {
        let Self { projected, state, weight, pass } = self;
        let (of_input, of_hidden, of_state) = pass.run(gradient, last, &weight);
        gradients.add(&projected, &of_input);
        if let Some(state) = state {
            gradients.add(&state, &of_state);
        }
        weight.collect((of_hidden, pass.saved.before), gradients);
    }
}

fn check(input: &RecurrentInput<'_>, options: RecurrentOptions) -> Result<Sizes> {
    let [rows, d] = input.weight.shape();
    let n_gates = options.cell.n_gates();
    if rows != n_gates * d || d == 0 {
        return shape(
            "recurrent",
            "weight",
            &[rows, d],
            format!("[{}, {d}], the rows of {n_gates} gates", n_gates * d),
        );
    }
    let &[batch, length, width] = input.projected.shape() else {
        return shape("recurrent", "projected", input.projected.shape(), "batch × length × gates");
    };
    if width != rows {
        return shape(
            "recurrent",
            "projected",
            input.projected.shape(),
            format!("[{batch}, {length}, {rows}]"),
        );
    }
    let sizes = Sizes { batch, length, d, cell: options.cell };
    if let Some(state) = input.state.filter(|state| state.shape() != [batch, sizes.state()]) {
        return shape("recurrent", "state", state.shape(), format!("[{batch}, {}]", sizes.state()));
    }
    if let Some(lengths) = input.lengths.filter(|lengths| lengths.len() != batch) {
        return shape("recurrent", "lengths", &[lengths.len()], format!("[{batch}], one for each row"));
    }
    Ok(sizes)
}
