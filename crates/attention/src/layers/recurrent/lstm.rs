//! Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers, Schmidhuber & Cummins 2000).
//!
//! i, f, o = σ(W_ih·x_t + b_ih + W_hh·h_{t−1} + b_hh), g = tanh of the same with its own rows,
//! c_t = f ∘ c_{t−1} + i ∘ g, h_t = o ∘ tanh(c_t). The rows are in the order i, f, g, o, as in PyTorch.
//!
//! ```
//! use polyhead_attention::{Builder, layers::recurrent::Lstm};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! Lstm::new(&mut Builder::new(&mut parameters).at("lstm"), 1000, 1000);
//! assert_eq!(parameters.count(), 4 * 1000 * (1000 + 1000 + 2));
//! ```

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::elementwise::{add, mul, sigmoid, tanh};
use polyhead_tensor::ops::shape::split;
use polyhead_tensor::{Result, Var};

use super::Recurrent;
use super::gates::Gates;
use crate::builder::Builder;
use crate::pass::Pass;

/// The recurrent state of an LSTM.
#[derive(Debug, Clone)]
pub struct LstmState {
    /// h, the output: batch × d_hidden.
    pub hidden: Var,
    /// c, the cell state: batch × d_hidden.
    pub cell: Var,
}

/// A long short-term memory cell.
#[derive(Debug, Clone)]
pub struct Lstm {
    gates: Gates,
}

impl Lstm {
    /// Declares `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`.
    pub fn new(builder: &mut Builder<'_>, d_in: usize, d_hidden: usize) -> Self {
        Self { gates: Gates::new(builder, [d_in, d_hidden], 4) }
    }
}

impl Recurrent for Lstm {
    type State = LstmState;

    fn start(&self, batch: usize) -> LstmState {
        LstmState { hidden: self.gates.zeros(batch), cell: self.gates.zeros(batch) }
    }

    fn output<'a>(&self, state: &'a LstmState) -> &'a Var {
        &state.hidden
    }

    fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.gates.of_input(pass, x)
    }

    fn advance(&self, pass: &Pass<'_>, projected: &Var, state: &LstmState) -> Result<LstmState> {
        let tape = pass.tape;
        let LstmState { hidden, cell } = state;
        let from_hidden = self.gates.of_hidden(pass, projected, hidden)?;
        if cell.shape() != hidden.shape() {
            return shape(
                "recurrent",
                "cell",
                cell.shape(),
                format!("{:?}, as the hidden state", hidden.shape()),
            );
        }
        let gates = split(tape, &add(tape, projected, &from_hidden)?, 1, &[self.gates.d_hidden; 4])?;
        let [input, forget, output] = [0, 1, 3].map(|gate: usize| sigmoid(tape, &gates[gate]));
        let candidate = tanh(tape, &gates[2]);
        let cell = add(tape, &mul(tape, &forget, cell)?, &mul(tape, &input, &candidate)?)?;
        Ok(LstmState { hidden: mul(tape, &output, &tanh(tape, &cell))?, cell })
    }
}
