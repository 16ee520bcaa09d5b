//! The long short-term memory network: an LSTM whose previous state is a weighted mean of all earlier ones (Cheng, Dong &
//! Lapata 2016, "Long short-term memory-networks for machine reading", section 3).
//!
//! aᵢ = vᵀ·tanh(W_h·hᵢ + W_x·x_t + W_m·h̃_{t−1}), s = softmax(a) over all i < t, (h̃, c̃)_t = Σ sᵢ·(hᵢ, cᵢ); then the gates
//! of an LSTM from x_t and h̃_t, c_t = f ∘ c̃_t + i ∘ g, h_t = o ∘ tanh(c_t). The initial state is the first of the earlier
//! states.

use polyhead_tensor::ops::additive::additive_scores;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::masked_softmax::{Locality, masked_softmax};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::recurrent::{
    CellKind, RecurrentInput, RecurrentOptions, RecurrentOutput, recurrent,
};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Indices, Init, ParameterId, Result, Tensor, Var};

use crate::builder::Builder;
use crate::layers::Linear;
use crate::layers::linear::shared;
use crate::pass::Pass;

/// An LSTM with attention to its own earlier states.
#[derive(Debug, Clone)]
pub struct Lstmn {
    /// Projects x to the gates and to W_x·x.
    input: Linear,
    from_hidden: [ParameterId; 2],
    /// W_h.
    key: Linear,
    /// W_m.
    mean: Linear,
    vector: ParameterId,
    d_hidden: usize,
}

/// Weights that all steps of a pass share.
struct LstmnWeights<'a> {
    hidden: SharedWeight<'a>,
    key: SharedWeight<'a>,
    mean: SharedWeight<'a>,
    vector: Var,
}

impl Lstmn {
    /// Declares `input` (gates, then the query), `weight_hh`, `bias_hh`, `memory.key`, `memory.mean` and `memory.vector`.
    pub fn new(builder: &mut Builder<'_>, [d_in, d_hidden]: [usize; 2]) -> Self {
        let d = d_hidden;
        let init = Init::Uniform(1.0 / (d as f32).sqrt());
        let weight = builder.declare_product("weight_hh", &[4 * d, d], init);
        let bias = builder.declare("bias_hh", &[4 * d], init);
        Self {
            input: Linear::stacked(&mut builder.at("input"), d_in, &[d; 5]),
            from_hidden: [weight, bias],
            key: Linear::without_bias(&mut builder.at("memory.key"), d, &[d]),
            mean: Linear::without_bias(&mut builder.at("memory.mean"), d, &[d]),
            vector: builder.at("memory").declare("vector", &[d], Init::Xavier { d_out: 1 }),
            d_hidden,
        }
    }

    /// Width of [`Lstmn::project`].
    pub fn projected_width(&self) -> usize {
        5 * self.d_hidden
    }

    /// The parts of all steps that depend on x alone: … × d_in → … × (5 · d_hidden).
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    pub fn project(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.input.forward(pass, x)
    }

    /// Runs over the positions of x, batch × length × d_in. The last state is that after a row's own length.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        state: Option<&Var>,
        lengths: Option<&Indices>,
    ) -> Result<RecurrentOutput> {
        let batch = x.shape().first().copied().unwrap_or(0);
        let zeros = || Tensor::zeros(&[batch, 2 * self.d_hidden]).to_device(&x.value().device());
        let mut state = state.map_or_else(|| zeros().map(Var::constant), |state| Ok(state.clone()))?;
        let projected = self.project(pass, x)?;
        let outputs = self.continue_from(pass, &projected, (&mut state, &mut Vec::new()), lengths)?;
        Ok(RecurrentOutput { outputs, last: state })
    }

    /// Runs over the positions of a projected input, batch × length × (5 · d_hidden), from a state and the memory of
    /// earlier positions (empty before the first): the outputs. State and memory become those after the last position;
    /// with `lengths` the state is that after each row's own length.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn continue_from(
        &self,
        pass: &Pass<'_>,
        projected: &Var,
        (state, memory): (&mut Var, &mut Vec<Var>),
        lengths: Option<&Indices>,
    ) -> Result<Var> {
        let (tape, d) = (pass.tape, self.d_hidden);
        let &[batch, length, _] = projected.shape() else {
            return polyhead_tensor::error::shape("lstmn", "projected", projected.shape(), "three axes");
        };
        let weights = LstmnWeights {
            hidden: shared(pass, self.from_hidden[0], Some(self.from_hidden[1]))?,
            key: self.key.shared(pass)?,
            mean: self.mean.shared(pass)?,
            vector: pass.parameter(self.vector),
        };
        if memory.is_empty() {
            *memory = self.first_memory(pass, &weights, state)?;
        }
        let (mut outputs, mut states) = (Vec::new(), Vec::new());
        for t in 0..length {
            let x = slice(tape, projected, 1, t..t + 1)?;
            let gates = slice(tape, &x, 2, 0..4 * d)?;
            let query = slice(tape, &x, 2, 4 * d..5 * d)?;
            let query = add(tape, &query, &weights.mean.linear(tape, &memory[2])?)?;
            let scores = additive_scores(tape, &query, &memory[1], &weights.vector)?;
            let mean = matmul(tape, &softmax(tape, &scores), &memory[0], MatmulOptions::default())?;
            let before = mean.reshaped(&[batch, 2 * d]);
            let input = RecurrentInput {
                projected: &gates,
                weight: &weights.hidden,
                state: Some(&before),
                lengths: None,
            };
            let found =
                recurrent(tape, input, RecurrentOptions { cell: CellKind::Lstm, ..Default::default() })?;
            let key = weights.key.linear(tape, &found.outputs)?;
            let own = found.last.reshaped(&[batch, 1, 2 * d]);
            *memory = vec![
                concat(tape, &[&memory[0], &own], 1)?,
                concat(tape, &[&memory[1], &key], 1)?,
                slice(tape, &mean, 2, 0..d)?,
            ];
            *state = found.last;
            outputs.push(found.outputs);
            states.push(own);
        }
        if let Some(lengths) = lengths.filter(|_| length > 0) {
            *state = last_of(pass, &states, lengths)?;
        }
        concat(tape, &outputs.iter().collect::<Vec<_>>(), 1)
    }

    /// The initial state as the only earlier one: states, keys, and h̃.
    fn first_memory(&self, pass: &Pass<'_>, weights: &LstmnWeights<'_>, state: &Var) -> Result<Vec<Var>> {
        let (batch, d) = (state.shape()[0], self.d_hidden);
        let h = slice(pass.tape, state, 1, 0..d)?.reshaped(&[batch, 1, d]);
        let key = weights.key.linear(pass.tape, &h)?;
        Ok(vec![state.reshaped(&[batch, 1, 2 * d]), key, h])
    }
}

/// The state after each row's own length; zeros for a row without positions.
fn last_of(pass: &Pass<'_>, states: &[Var], lengths: &Indices) -> Result<Var> {
    let (batch, n) = (lengths.len(), states.len());
    // A softmax over scores so far apart is 1 at the last position of a row and 0 before it.
    let steep = (0..batch).flat_map(|_| (0..n).map(|position| 1000.0 * position as f32)).collect();
    let steep = Tensor::new(&[batch, 1, n], steep).to_device(&states[0].value().device())?;
    let chosen = masked_softmax(pass.tape, &Var::constant(steep), lengths, Locality::Global)?;
    let all = concat(pass.tape, &states.iter().collect::<Vec<_>>(), 1)?;
    let last = matmul(pass.tape, &chosen, &all, MatmulOptions::default())?;
    Ok(last.reshaped(&[batch, states[0].shape()[2]]))
}
