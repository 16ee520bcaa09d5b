//! The two products of every recurrent cell, W_ih·x + b_ih and W_hh·h + b_hh, with the rows of all gates stacked.

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Init, ParameterId, Result, Tensor, Var};

use crate::builder::Builder;
use crate::pass::Pass;

/// Weights and biases of a cell.
#[derive(Debug, Clone)]
pub(super) struct Gates {
    from_input: [ParameterId; 2],
    from_hidden: [ParameterId; 2],
    pub(super) d_hidden: usize,
}

impl Gates {
    /// Declares the four parameters of `n_gates` gates, initialised uniformly within ±1/√d_hidden as in PyTorch.
    pub(super) fn new(builder: &mut Builder<'_>, [d_in, d_hidden]: [usize; 2], n_gates: usize) -> Self {
        let init = Init::Uniform(1.0 / (d_hidden as f32).sqrt());
        let rows = n_gates * d_hidden;
        let weights = [("weight_ih", d_in), ("weight_hh", d_hidden)];
        let [weight_ih, weight_hh] = weights.map(|(name, width)| builder.declare(name, &[rows, width], init));
        let [bias_ih, bias_hh] = ["bias_ih", "bias_hh"].map(|name| builder.declare(name, &[rows], init));
        Self { from_input: [weight_ih, bias_ih], from_hidden: [weight_hh, bias_hh], d_hidden }
    }

    /// W_ih·x + b_ih: … × d_in → … × (n_gates · d_hidden).
    pub(super) fn of_input(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        product(pass, x, self.from_input)
    }

    /// W_hh·h + b_hh: batch × d_hidden → batch × (n_gates · d_hidden); the batch must be that of `projected`.
    pub(super) fn of_hidden(&self, pass: &Pass<'_>, projected: &Var, hidden: &Var) -> Result<Var> {
        let expected = [projected.shape().first().copied().unwrap_or(0), self.d_hidden];
        if hidden.shape() != expected {
            return shape("recurrent", "state", hidden.shape(), format!("{expected:?}"));
        }
        product(pass, hidden, self.from_hidden)
    }

    /// A state of zeros, batch × d_hidden.
    pub(super) fn zeros(&self, batch: usize) -> Var {
        Var::constant(Tensor::zeros(&[batch, self.d_hidden]))
    }
}

fn product(pass: &Pass<'_>, x: &Var, parameters: [ParameterId; 2]) -> Result<Var> {
    let [weight, bias] = parameters.map(|id| pass.parameter(id));
    linear(pass.tape, x, &weight, Some(&bias), LinearOptions::default())
}
