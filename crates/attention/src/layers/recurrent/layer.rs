//! A recurrent layer of any cell over whole sequences, by one fused operation; a decoder steps through it one position at
//! a time, with the same bits.
//!
//! Parameters have the names of [`super::Rnn`], [`super::Gru`] and [`super::Lstm`], which compute the same from single
//! operations. Weights are prepared (packed or int8) as those of any linear layer.
//!
//! ```
//! use polyhead_attention::layers::recurrent::{RecurrentLayer, RecurrentStart};
//! use polyhead_attention::{Builder, Capture, Pass};
//! use polyhead_tensor::ops::recurrent::CellKind;
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let layer = RecurrentLayer::new(&mut Builder::new(&mut parameters).at("encoder"), CellKind::Lstm, [3, 5]);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::new(&[2, 4, 3], (0..24).map(|n| n as f32 * 0.1).collect()));
//! let lengths = [4, 2].into();
//! let start = RecurrentStart { lengths: Some(&lengths), ..RecurrentStart::default() };
//! let found = layer.forward(&pass, &x, start)?;
//! assert_eq!((found.outputs.shape(), found.last.shape()), (&[2, 4, 5][..], &[2, 10][..]));
//! assert_eq!(found.outputs.value().data()[35..40], [0.0; 5]); // beyond the second row's two positions
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::linear::LinearOptions;
use polyhead_tensor::ops::recurrent::{
    CellKind, Reading, RecurrentInput, RecurrentOptions, RecurrentOutput, recurrent,
};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::{Indices, Init, ParameterId, Result, Var};

use crate::builder::Builder;
use crate::layers::linear::{product, shared};
use crate::pass::Pass;

/// A recurrent layer.
#[derive(Debug, Clone)]
pub struct RecurrentLayer {
    cell: CellKind,
    from_input: [ParameterId; 2],
    from_hidden: [ParameterId; 2],
    d_hidden: usize,
}

/// Where a layer starts and which positions of a row it reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecurrentStart<'a> {
    /// The initial state, batch × (n_states · d_hidden); default: zeros.
    pub state: Option<&'a Var>,
    /// Number of positions of each row; default: all.
    pub lengths: Option<&'a Indices>,
    /// The order of the positions; default: forwards.
    pub reading: Reading,
}

impl RecurrentLayer {
    /// Declares `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`, initialised uniformly within ±1/√d_hidden as in PyTorch.
    pub fn new(builder: &mut Builder<'_>, cell: CellKind, [d_in, d_hidden]: [usize; 2]) -> Self {
        let init = Init::Uniform(1.0 / (d_hidden as f32).sqrt());
        let rows = cell.n_gates() * d_hidden;
        let weights = [("weight_ih", d_in), ("weight_hh", d_hidden)];
        let [weight_ih, weight_hh] =
            weights.map(|(name, width)| builder.declare_product(name, &[rows, width], init));
        let [bias_ih, bias_hh] = ["bias_ih", "bias_hh"].map(|name| builder.declare(name, &[rows], init));
        Self { cell, from_input: [weight_ih, bias_ih], from_hidden: [weight_hh, bias_hh], d_hidden }
    }

    /// The cell.
    pub fn cell(&self) -> CellKind {
        self.cell
    }

    /// Width of h.
    pub fn d_hidden(&self) -> usize {
        self.d_hidden
    }

    /// W_ih·x + b_ih: … × d_in → … × (n_gates · d_hidden).
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    pub fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let [weight, bias] = self.from_input;
        product(pass, x, weight, Some(bias), LinearOptions::default())
    }

    /// W_hh and b_hh for all steps of a pass.
    ///
    /// # Errors
    /// If the parameters have other shapes than declared.
    pub fn weight<'a>(&self, pass: &Pass<'a>) -> Result<SharedWeight<'a>> {
        let [weight, bias] = self.from_hidden;
        shared(pass, weight, Some(bias))
    }

    /// Runs over the positions of a projected input, batch × length × (n_gates · d_hidden).
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn run(
        &self,
        pass: &Pass<'_>,
        projected: &Var,
        weight: &SharedWeight<'_>,
        start: RecurrentStart<'_>,
    ) -> Result<RecurrentOutput> {
        let RecurrentStart { state, lengths, reading } = start;
        let input = RecurrentInput { projected, weight, state, lengths };
        recurrent(pass.tape, input, RecurrentOptions { cell: self.cell, reading })
    }

    /// Runs over the positions of x, batch × length × d_in.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var, start: RecurrentStart<'_>) -> Result<RecurrentOutput> {
        self.run(pass, &self.project(pass, x)?, &self.weight(pass)?, start)
    }
}
