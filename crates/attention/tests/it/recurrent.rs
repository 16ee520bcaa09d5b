//! Recurrent cells: agreement with PyTorch, with equations in f64 and their finite differences; steps against sequences.

use polyhead_attention::layers::Recurrent;
use polyhead_attention::layers::recurrent::{Gru, Lstm, LstmState, Rnn};
use polyhead_attention::{Builder, Capture, Error, Pass};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};
use serde_json::Value;

use crate::golden::{TOLERANCE, cases, fill, tensor, wide};
use crate::gradient::{assert_close, assert_equation, random_tensor, run};

/// Runs the case called `name` by `layer`, which maps [x, states…] to [outputs, last states…].
fn assert_matches_pytorch<Cell>(
    name: &str,
    new: impl Fn(&mut Builder<'_>, usize, usize) -> Cell,
    layer: impl Fn(&Cell, &Pass<'_>, &[Var]) -> Vec<Var>,
) {
    let case: Value = cases("recurrent").into_iter().find(|case| case["name"] == name).unwrap();
    let [d_in, d_hidden] = ["d_in", "d_hidden"].map(|size| case["options"][size].as_u64().unwrap() as usize);
    let mut parameters = Parameters::default();
    let cell = new(&mut Builder::new(&mut parameters), d_in, d_hidden);
    let in_file = |ours: &str| format!("{ours}_l0");
    fill(&mut parameters, &case["inputs"], in_file);
    let states: &[&str] = if name == "lstm" { &["hidden", "cell"] } else { &["hidden"] };
    let names: Vec<&str> = ["x"].iter().chain(states).copied().collect();
    let outputs = &["output", "last_hidden", "last_cell"][..names.len()];
    // PyTorch's states have a leading axis for layers, of size one.
    let flat = |array: &Value| {
        let whole = tensor(array);
        let shape = whole.shape();
        if shape[0] == 1 { whole.reshaped(&shape[1..]) } else { whole }
    };
    let inputs: Vec<Tensor> = names.iter().map(|input| flat(&case["inputs"][input])).collect();
    let upstream: Vec<Tensor> = outputs.iter().map(|output| flat(&case["upstream"][output])).collect();
    let found = run(&parameters, &inputs, &upstream, |pass, vars| layer(&cell, pass, vars));
    for (found, output) in found.outputs.iter().zip(outputs) {
        assert_eq!(found.shape(), flat(&case[output]).shape(), "{name} {output}");
        assert_close(&format!("{name} {output}"), found.data(), &wide(&case[output]), TOLERANCE);
    }
    let ours = parameters.declared().map(|(_, ours, _)| in_file(ours));
    let gradients = found.inputs.iter().chain(&found.parameters);
    for (gradient, input) in gradients.zip(names.iter().map(ToString::to_string).chain(ours)) {
        let expected = wide(&case["gradients"][&input]);
        assert_close(&format!("{name} d{input}"), gradient.data(), &expected, TOLERANCE);
    }
}

#[test]
fn rnn_matches_pytorch() {
    assert_matches_pytorch("rnn", Rnn::new, |cell, pass, vars| {
        let (outputs, last) = cell.forward(pass, &vars[0], &vars[1]).unwrap();
        vec![outputs, last]
    });
}

#[test]
fn gru_matches_pytorch() {
    assert_matches_pytorch("gru", Gru::new, |cell, pass, vars| {
        let (outputs, last) = cell.forward(pass, &vars[0], &vars[1]).unwrap();
        vec![outputs, last]
    });
}

#[test]
fn lstm_matches_pytorch() {
    assert_matches_pytorch("lstm", Lstm::new, |cell, pass, vars| {
        let start = LstmState { hidden: vars[1].clone(), cell: vars[2].clone() };
        let (outputs, last) = cell.forward(pass, &vars[0], &start).unwrap();
        vec![outputs, last.hidden, last.cell]
    });
}

const D_IN: usize = 2;
const D: usize = 3;

fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// W·x + b for one row x.
fn affine(weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let rows = weight.chunks(x.len()).zip(bias);
    rows.map(|(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()).collect()
}

/// One step of a cell in f64 for one row: products with x and with h, and the old state, to the new state.
type Step = fn(&[f64], &[f64], &[Vec<f64>]) -> Vec<Vec<f64>>;

fn rnn_step(of_x: &[f64], of_h: &[f64], _: &[Vec<f64>]) -> Vec<Vec<f64>> {
    vec![(0..D).map(|j| (of_x[j] + of_h[j]).tanh()).collect()]
}

fn gru_step(of_x: &[f64], of_h: &[f64], state: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let one = |j: usize| {
        let [r, z] = [j, D + j].map(|at| sigma(of_x[at] + of_h[at]));
        let n = (of_x[2 * D + j] + r * of_h[2 * D + j]).tanh();
        (1.0 - z) * n + z * state[0][j]
    };
    vec![(0..D).map(one).collect()]
}

fn lstm_step(of_x: &[f64], of_h: &[f64], state: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let gate = |gate: usize, j: usize| of_x[gate * D + j] + of_h[gate * D + j];
    let cell: Vec<f64> =
        (0..D).map(|j| sigma(gate(1, j)) * state[1][j] + sigma(gate(0, j)) * gate(2, j).tanh()).collect();
    vec![(0..D).map(|j| sigma(gate(3, j)) * cell[j].tanh()).collect(), cell]
}

/// The outputs for [x, states…, weight_ih, weight_hh, bias_ih, bias_hh].
fn equation(all: &[Vec<f64>], [batch, length]: [usize; 2], n_states: usize, step: Step) -> Vec<f64> {
    let [weight_ih, weight_hh, bias_ih, bias_hh] = &all[1 + n_states..] else { panic!("{}", all.len()) };
    let mut outputs = Vec::new();
    for b in 0..batch {
        let mut state: Vec<Vec<f64>> =
            all[1..=n_states].iter().map(|state| state[b * D..(b + 1) * D].to_vec()).collect();
        for t in 0..length {
            let x = &all[0][(b * length + t) * D_IN..][..D_IN];
            state = step(&affine(weight_ih, bias_ih, x), &affine(weight_hh, bias_hh, &state[0]), &state);
            outputs.extend(&state[0]);
        }
    }
    outputs
}

/// Checks gradients by finite differences; `state` builds the cell's state from the inputs after x.
fn assert_differences<Cell: Recurrent>(
    what: &str,
    new: impl Fn(&mut Builder<'_>, usize, usize) -> Cell,
    state: impl Fn(&[Var]) -> Cell::State,
    (n_states, step): (usize, Step),
) {
    let mut parameters = Parameters::default();
    let cell = new(&mut Builder::new(&mut parameters), D_IN, D);
    parameters.initialise(3);
    for [batch, length] in [[1, 1], [2, 3], [3, 5]] {
        let mut inputs = vec![random_tensor(&[batch, length, D_IN], 1)];
        inputs.extend((0..n_states).map(|index| random_tensor(&[batch, D], 2 + index as u64)));
        assert_equation(
            what,
            &parameters,
            &inputs,
            |pass, vars| cell.forward(pass, &vars[0], &state(&vars[1..])).unwrap().0,
            |all| equation(all, [batch, length], n_states, step),
        );
    }
}

#[test]
fn gradients_match_finite_differences() {
    assert_differences("rnn", Rnn::new, |vars| vars[0].clone(), (1, rnn_step));
    assert_differences("gru", Gru::new, |vars| vars[0].clone(), (1, gru_step));
    let state = |vars: &[Var]| LstmState { hidden: vars[0].clone(), cell: vars[1].clone() };
    assert_differences("lstm", Lstm::new, state, (2, lstm_step));
}

/// Single steps from zeros equal the whole sequence bit for bit.
fn assert_steps<Cell: Recurrent>(new: impl Fn(&mut Builder<'_>, usize, usize) -> Cell) {
    let mut parameters = Parameters::default();
    let cell = new(&mut Builder::new(&mut parameters), D_IN, D);
    parameters.initialise(4);
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, &parameters, &capture);
    let x = random_tensor(&[1, 6, D_IN], 1);
    let (outputs, _) = cell.forward(&pass, &Var::constant(x.clone()), &cell.start(1)).unwrap();
    let mut state = cell.start(1);
    for (x, expected) in x.data().chunks(D_IN).zip(outputs.value().data().chunks(D)) {
        state = cell.step(&pass, &Var::constant(Tensor::new(&[1, D_IN], x.to_vec())), &state).unwrap();
        assert_eq!(cell.output(&state).value().data(), expected);
    }
    let zeros = |shape: &[usize]| Var::constant(Tensor::zeros(shape));
    let named = |result: Result<_, Error>| match result {
        Err(Error::Shape { name, .. }) => name,
        _ => panic!("no error about shapes"),
    };
    assert_eq!(named(cell.forward(&pass, &zeros(&[1, 0, D_IN]), &cell.start(1)).map(|_| ())), "x");
    assert_eq!(named(cell.forward(&pass, &zeros(&[2, D_IN]), &cell.start(2)).map(|_| ())), "x");
    assert_eq!(named(cell.step(&pass, &zeros(&[2, D_IN]), &cell.start(3)).map(|_| ())), "state");
    assert_eq!(named(cell.step(&pass, &zeros(&[2, D_IN + 1]), &cell.start(2)).map(|_| ())), "weight");
}

#[test]
fn a_sequence_equals_its_steps() {
    assert_steps(Rnn::new);
    assert_steps(Gru::new);
    assert_steps(Lstm::new);
}
