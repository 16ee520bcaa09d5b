//! The simple recurrent network, h_t = tanh(W_ih·x_t + b_ih + W_hh·h_{t−1} + b_hh) (Elman 1990).
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::{Recurrent, recurrent::Rnn}};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let rnn = Rnn::new(&mut Builder::new(&mut parameters).at("rnn"), 1, 1);
//! for (name, value) in [("weight_ih", 1.0), ("weight_hh", 2.0)] {
//!     let id = parameters.find(&format!("rnn.{name}")).expect("just declared");
//!     parameters.set(id, Tensor::new(&[1, 1], vec![value]));
//! }
//! for name in ["bias_ih", "bias_hh"] {
//!     let id = parameters.find(&format!("rnn.{name}")).expect("just declared");
//!     parameters.set(id, Tensor::zeros(&[1]));
//! }
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let [x, h] = [0.5, 0.25].map(|number| Var::constant(Tensor::new(&[1, 1], vec![number])));
//! let h = rnn.step(&pass, &x, &h)?;
//! assert!((h.value().data()[0] - 1_f32.tanh()).abs() < 1e-6);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::elementwise::{add, tanh};
use polyhead_tensor::{Result, Var};

use super::Recurrent;
use super::gates::Gates;
use crate::builder::Builder;
use crate::pass::Pass;

/// A simple (Elman) recurrent cell; its state is its output.
#[derive(Debug, Clone)]
pub struct Rnn {
    gates: Gates,
}

impl Rnn {
    /// Declares `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`.
    pub fn new(builder: &mut Builder<'_>, d_in: usize, d_hidden: usize) -> Self {
        Self { gates: Gates::new(builder, [d_in, d_hidden], 1) }
    }
}

impl Recurrent for Rnn {
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
        let from_hidden = self.gates.of_hidden(pass, projected, hidden)?;
        Ok(tanh(pass.tape, &add(pass.tape, projected, &from_hidden)?))
    }
}
