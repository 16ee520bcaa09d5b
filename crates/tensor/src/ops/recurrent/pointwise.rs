//! One position of one row: gates from the projected input and the product with h, the next state, and the backward pass.

use super::CellKind;
use crate::lanes::vectorised;
use crate::ops::activation::{relu, sigmoid, tanh};

/// What a step reads and writes of one row; slices have as many vectors of width d as their names say.
pub(super) struct RowStep<'a> {
    /// W_ih·x + b_ih: gates.
    pub(super) x: &'a [f32],
    /// W_hh·h: gates.
    pub(super) p: &'a [f32],
    /// b_hh: gates.
    pub(super) bias: &'a [f32],
    /// h, and c of an LSTM: overwritten with the next.
    pub(super) state: &'a mut [f32],
    /// Gates after their functions.
    pub(super) gates: &'a mut [f32],
    /// c and tanh of the next c of an LSTM; the product of n of a GRU.
    pub(super) extra: &'a mut [f32],
}

/// What the backward step reads and writes of one row.
pub(super) struct RowStepBack<'a> {
    /// Gates after their functions.
    pub(super) gates: &'a [f32],
    /// See [`RowStep::extra`].
    pub(super) extra: &'a [f32],
    /// h before the step.
    pub(super) before: &'a [f32],
    /// Gradient of the output of this position.
    pub(super) of_output: &'a [f32],
    /// Gradient of the state after the step; becomes that of the state before it, except for the product with W_hh.
    pub(super) of_state: &'a mut [f32],
    /// Gradient of the projected input: gates.
    pub(super) of_input: &'a mut [f32],
    /// Gradient of the product with W_hh, if it differs from that of the input (GRU).
    pub(super) of_hidden: &'a mut [f32],
}

/// One step of one row.
pub(super) fn forward(cell: CellKind, step: RowStep<'_>) {
    let RowStep { x, p, bias, state, gates, extra } = step;
    match cell {
        CellKind::RnnTanh => simple_tanh([x, p, bias], state, gates),
        CellKind::RnnRelu => simple_relu([x, p, bias], state, gates),
        CellKind::Gru => gru([x, p, bias], state, gates, extra),
        CellKind::Lstm => lstm([x, p, bias], state, gates, extra),
    }
}

/// One step back of one row.
pub(super) fn backward(cell: CellKind, step: RowStepBack<'_>) {
    let RowStepBack { gates, extra, before, of_output, of_state, of_input, of_hidden } = step;
    match cell {
        CellKind::RnnTanh => simple_tanh_back([gates, of_output], of_state, of_input),
        CellKind::RnnRelu => simple_relu_back([gates, of_output], of_state, of_input),
        CellKind::Gru => gru_back([gates, extra, before, of_output], of_state, of_input, of_hidden),
        CellKind::Lstm => lstm_back([gates, extra, of_output], of_state, of_input),
    }
}

/// The slices of N gates side by side.
#[inline(always)]
fn parts<const N: usize>(all: &[f32], d: usize) -> [&[f32]; N] {
    std::array::from_fn(|part| &all[part * d..(part + 1) * d])
}

/// As [`parts`], mutable.
#[inline(always)]
fn parts_mut<const N: usize>(all: &mut [f32], d: usize) -> [&mut [f32]; N] {
    let mut parts = all[..N * d].chunks_exact_mut(d);
    std::array::from_fn(|_| parts.next().expect("N parts of width d"))
}

vectorised! {
    fn simple_tanh(sides: [&[f32]; 3], state: &mut [f32], gates: &mut [f32]) {
        let d = state.len();
        let [x, p, bias] = sides.map(|side| &side[..d]);
        let gates = &mut gates[..d];
        for j in 0..d {
            let y = tanh(x[j] + (p[j] + bias[j])).0;
            (state[j], gates[j]) = (y, y);
        }
    }
}

vectorised! {
    fn simple_relu(sides: [&[f32]; 3], state: &mut [f32], gates: &mut [f32]) {
        let d = state.len();
        let [x, p, bias] = sides.map(|side| &side[..d]);
        let gates = &mut gates[..d];
        for j in 0..d {
            let y = relu(x[j] + (p[j] + bias[j])).0;
            (state[j], gates[j]) = (y, y);
        }
    }
}

vectorised! {
    fn simple_tanh_back(sides: [&[f32]; 2], of_state: &mut [f32], of_input: &mut [f32]) {
        let d = of_state.len();
        let [y, of_output] = sides.map(|side| &side[..d]);
        let of_input = &mut of_input[..d];
        for j in 0..d {
            of_input[j] = (of_state[j] + of_output[j]) * ((1.0 - y[j]) * (1.0 + y[j]));
            of_state[j] = 0.0;
        }
    }
}

vectorised! {
    fn simple_relu_back(sides: [&[f32]; 2], of_state: &mut [f32], of_input: &mut [f32]) {
        let d = of_state.len();
        let [y, of_output] = sides.map(|side| &side[..d]);
        let of_input = &mut of_input[..d];
        for j in 0..d {
            of_input[j] = if y[j] > 0.0 { of_state[j] + of_output[j] } else { 0.0 };
            of_state[j] = 0.0;
        }
    }
}

vectorised! {
    fn gru(sides: [&[f32]; 3], state: &mut [f32], gates: &mut [f32], extra: &mut [f32]) {
        let d = state.len();
        let [x, p, bias]: [[&[f32]; 3]; 3] = [parts(sides[0], d), parts(sides[1], d), parts(sides[2], d)];
        let [r, z, n] = parts_mut(gates, d);
        let product = &mut extra[..d];
        for j in 0..d {
            r[j] = sigmoid(x[0][j] + (p[0][j] + bias[0][j])).0;
            z[j] = sigmoid(x[1][j] + (p[1][j] + bias[1][j])).0;
            product[j] = p[2][j] + bias[2][j];
            n[j] = tanh(x[2][j] + r[j] * product[j]).0;
            state[j] = n[j] + z[j] * (state[j] - n[j]);
        }
    }
}

vectorised! {
    fn gru_back(sides: [&[f32]; 4], of_state: &mut [f32], of_input: &mut [f32], of_hidden: &mut [f32]) {
        let d = of_state.len();
        let [r, z, n] = parts(sides[0], d);
        let [product, before, of_output] = [&sides[1][..d], &sides[2][..d], &sides[3][..d]];
        let [ir, iz, input_n] = parts_mut(of_input, d);
        let [hr, hz, hidden_n] = parts_mut(of_hidden, d);
        for j in 0..d {
            let g = of_state[j] + of_output[j];
            let of_n = g * (1.0 - z[j]) * ((1.0 - n[j]) * (1.0 + n[j]));
            let of_r = of_n * product[j] * (r[j] * (1.0 - r[j]));
            let of_z = g * (before[j] - n[j]) * (z[j] * (1.0 - z[j]));
            (ir[j], iz[j], input_n[j]) = (of_r, of_z, of_n);
            (hr[j], hz[j], hidden_n[j]) = (of_r, of_z, of_n * r[j]);
            of_state[j] = g * z[j];
        }
    }
}

vectorised! {
    fn lstm(sides: [&[f32]; 3], state: &mut [f32], gates: &mut [f32], extra: &mut [f32]) {
        let d = state.len() / 2;
        let [x, p, bias]: [[&[f32]; 4]; 3] = [parts(sides[0], d), parts(sides[1], d), parts(sides[2], d)];
        let [i, f, g, o] = parts_mut(gates, d);
        let [hidden, cell] = parts_mut(state, d);
        let [before, squashed] = parts_mut(extra, d);
        for j in 0..d {
            i[j] = sigmoid(x[0][j] + (p[0][j] + bias[0][j])).0;
            f[j] = sigmoid(x[1][j] + (p[1][j] + bias[1][j])).0;
            g[j] = tanh(x[2][j] + (p[2][j] + bias[2][j])).0;
            o[j] = sigmoid(x[3][j] + (p[3][j] + bias[3][j])).0;
            before[j] = cell[j];
            cell[j] = f[j] * cell[j] + i[j] * g[j];
            squashed[j] = tanh(cell[j]).0;
            hidden[j] = o[j] * squashed[j];
        }
    }
}

vectorised! {
    fn lstm_back(sides: [&[f32]; 3], of_state: &mut [f32], of_input: &mut [f32]) {
        let d = of_state.len() / 2;
        let [i, f, g, o] = parts(sides[0], d);
        let [before, squashed] = parts(sides[1], d);
        let of_output = &sides[2][..d];
        let [of_hidden, of_cell] = parts_mut(of_state, d);
        let [gi, gf, gg, go] = parts_mut(of_input, d);
        for j in 0..d {
            let (h, s) = (of_hidden[j] + of_output[j], squashed[j]);
            let c = of_cell[j] + h * o[j] * ((1.0 - s) * (1.0 + s));
            gi[j] = c * g[j] * (i[j] * (1.0 - i[j]));
            gf[j] = c * before[j] * (f[j] * (1.0 - f[j]));
            gg[j] = c * i[j] * ((1.0 - g[j]) * (1.0 + g[j]));
            go[j] = h * s * (o[j] * (1.0 - o[j]));
            (of_hidden[j], of_cell[j]) = (0.0, c * f[j]);
        }
    }
}
