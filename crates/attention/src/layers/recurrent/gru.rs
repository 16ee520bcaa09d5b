//! The gated recurrent unit (Cho et al. 2014), with a reset gate r, an update gate z and a candidate n.
//!
//! r, z = σ(W_ih·x_t + b_ih + W_hh·h_{t−1} + b_hh), n = tanh(W_in·x_t + b_in + r ∘ (W_hn·h_{t−1} + b_hn)),
//! h_t = (1 − z) ∘ n + z ∘ h_{t−1}. As in PyTorch the reset gate acts on the product with h, not on h as in the paper, so
//! that one product serves all gates; their rows are in the order r, z, n.
//!
//! ```
//! use polyhead_attention::{Builder, layers::recurrent::Gru};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! Gru::new(&mut Builder::new(&mut parameters).at("gru"), 620, 1000);
//! assert_eq!(parameters.count(), 3 * 1000 * (620 + 1000 + 2));
//! ```

use polyhead_tensor::ops::elementwise::{add, mul, sigmoid, sub, tanh};
use polyhead_tensor::ops::shape::split;
use polyhead_tensor::{Result, Tape, Var};

use super::Recurrent;
use super::gates::Gates;
use crate::builder::Builder;
use crate::pass::Pass;

/// A gated recurrent unit.
#[derive(Debug, Clone)]
pub struct Gru {
    gates: Gates,
}

impl Gru {
    /// Declares `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`.
    pub fn new(builder: &mut Builder<'_>, d_in: usize, d_hidden: usize) -> Self {
        Self { gates: Gates::new(builder, [d_in, d_hidden], 3) }
    }

    /// Splits the columns into those of r and z together, and those of n.
    fn split_candidate(&self, tape: &Tape, gates: &Var) -> Result<[Var; 2]> {
        let d = self.gates.d_hidden;
        let parts = split(tape, gates, 1, &[2 * d, d])?;
        Ok(parts.try_into().expect("two sizes give two parts"))
    }
}

impl Recurrent for Gru {
    /// h, batch × d_hidden.
    type State = Var;

    fn start(&self, batch: usize) -> Var {
        self.gates.zeros(batch)
    }

    fn output<'a>(&self, state: &'a Var) -> &'a Var {
        state
    }

    fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.gates.of_input(pass, x)
    }

    fn advance(&self, pass: &Pass<'_>, projected: &Var, hidden: &Var) -> Result<Var> {
        let tape = pass.tape;
        let [gates_of_x, candidate_of_x] = self.split_candidate(tape, projected)?;
        let [gates_of_h, candidate_of_h] =
            self.split_candidate(tape, &self.gates.of_hidden(pass, projected, hidden)?)?;
        let gates = sigmoid(tape, &add(tape, &gates_of_x, &gates_of_h)?);
        let gates = split(tape, &gates, 1, &[self.gates.d_hidden; 2])?;
        let (reset, update) = (&gates[0], &gates[1]);
        let candidate = tanh(tape, &add(tape, &candidate_of_x, &mul(tape, reset, &candidate_of_h)?)?);
        // (1 − z) ∘ n + z ∘ h with one product.
        add(tape, &candidate, &mul(tape, update, &sub(tape, hidden, &candidate)?)?)
    }
}
