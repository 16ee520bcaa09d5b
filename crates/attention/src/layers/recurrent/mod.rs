//! Recurrent layers: state_t = step(x_t, state_{t−1}), one position after the other.
//!
//! Three cells, [`Rnn`], [`Gru`] and [`Lstm`], hold their parameters under PyTorch's names and in its order of gates:
//! `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`, the rows of the gates stacked. The product with the input does not
//! depend on the state, so it is computed once for a whole sequence. [`RecurrentLayer`] has any of these cells and runs
//! over whole sequences by one fused operation.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::{Recurrent, recurrent::Gru}};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let gru = Gru::new(&mut Builder::new(&mut parameters).at("encoder"), 3, 5);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::new(&[2, 4, 3], (0..24).map(|n| n as f32 * 0.1).collect()));
//! let (outputs, last) = gru.forward(&pass, &x, &gru.start(2))?;
//! assert_eq!((outputs.shape(), last.shape()), (&[2, 4, 5][..], &[2, 5][..]));
//! assert_eq!(outputs.value().data()[15..20], last.value().data()[..5]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

mod gates;
pub mod gru;
pub mod layer;
pub mod lstm;
pub mod lstmn;
pub mod rnn;

pub use gru::Gru;
pub use layer::{RecurrentLayer, RecurrentStart};
pub use lstm::{Lstm, LstmState};
pub use lstmn::Lstmn;
pub use rnn::Rnn;

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Result, Var};

use crate::pass::Pass;

/// A recurrent cell.
pub trait Recurrent {
    /// The state passed from one position to the next.
    type State: Clone;

    /// The initial state: zeros.
    fn start(&self, batch: usize) -> Self::State;

    /// The output at a position, batch × d_hidden.
    fn output<'a>(&self, state: &'a Self::State) -> &'a Var;

    /// The part of a step that does not depend on the state: … × d_in → … × (n_gates · d_hidden).
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var>;

    /// The rest of a step, for a projected input of batch × (n_gates · d_hidden).
    ///
    /// # Errors
    /// If the shapes do not match.
    fn advance(&self, pass: &Pass<'_>, projected: &Var, state: &Self::State) -> Result<Self::State>;

    /// One step: x (batch × d_in) and a state → the next state.
    ///
    /// # Errors
    /// If the shapes do not match.
    fn step(&self, pass: &Pass<'_>, x: &Var, state: &Self::State) -> Result<Self::State> {
        self.advance(pass, &self.project(pass, x)?, state)
    }

    /// Runs over all positions of x (batch × length × d_in): the outputs (batch × length × d_hidden) and the last state.
    ///
    /// # Errors
    /// If the shapes do not match or the length is 0.
    fn forward(&self, pass: &Pass<'_>, x: &Var, state: &Self::State) -> Result<(Var, Self::State)> {
        let &[batch, length @ (1..), _] = x.shape() else {
            return shape("recurrent", "x", x.shape(), "batch × length × d_in with a length of at least 1");
        };
        let projected = self.project(pass, x)?;
        let width = projected.shape()[2];
        let (mut state, mut outputs) = (state.clone(), Vec::with_capacity(length));
        for position in 0..length {
            let input = slice(pass.tape, &projected, 1, position..position + 1)?.reshaped(&[batch, width]);
            state = self.advance(pass, &input, &state)?;
            let output = self.output(&state);
            outputs.push(output.reshaped(&[batch, 1, output.shape()[1]]));
        }
        let outputs: Vec<&Var> = outputs.iter().collect();
        Ok((concat(pass.tape, &outputs, 1)?, state))
    }
}
