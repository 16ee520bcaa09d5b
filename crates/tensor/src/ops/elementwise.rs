//! Elementwise operations: sums, differences, products and quotients of two tensors, functions of one.
//!
//! Two tensors broadcast as in NumPy. Backward, summed over repeated axes: a + b has gradients g and g, a − b has g and
//! −g, a·b has g·b and g·a, a/b has g/b and −g·(a/b)/b. A function f has g·f′(x).

use super::activation::{self, Activation, with_function};
use super::broadcast::{Broadcast, Steps, sum_to};
use crate::lanes::{self, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// left + right.
///
/// # Errors
/// If the shapes do not broadcast.
pub fn add(tape: &Tape, left: &Var, right: &Var) -> Result<Var> {
    binary(tape, Binary::Add, left, right)
}

/// left − right.
///
/// # Errors
/// If the shapes do not broadcast.
pub fn sub(tape: &Tape, left: &Var, right: &Var) -> Result<Var> {
    binary(tape, Binary::Sub, left, right)
}

/// left · right.
///
/// # Errors
/// If the shapes do not broadcast.
pub fn mul(tape: &Tape, left: &Var, right: &Var) -> Result<Var> {
    binary(tape, Binary::Mul, left, right)
}

/// left / right.
///
/// # Errors
/// If the shapes do not broadcast.
pub fn div(tape: &Tape, left: &Var, right: &Var) -> Result<Var> {
    binary(tape, Binary::Div, left, right)
}

/// factor · x.
pub fn scale(tape: &Tape, x: &Var, factor: f32) -> Var {
    unary(tape, x, Unary::Scale(factor))
}

/// −x.
pub fn neg(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Scale(-1.0))
}

/// x².
pub fn square(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Square)
}

/// √x; its gradient at 0 is infinite.
pub fn sqrt(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Sqrt)
}

/// eˣ; 0 below −87.
pub fn exp(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Exp)
}

/// The natural logarithm; −∞ for 0, NaN below.
pub fn ln(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Ln)
}

/// tanh x.
pub fn tanh(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Tanh)
}

/// σ(x) = 1/(1 + e⁻ˣ).
pub fn sigmoid(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Activation(Activation::Sigmoid))
}

/// max(0, x); its gradient at 0 is 0.
pub fn relu(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Relu)
}

/// x·Φ(x), Φ being the normal distribution function.
pub fn gelu(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Activation(Activation::Gelu))
}

/// x·Φ(x) with the approximation by tanh.
pub fn gelu_tanh(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Activation(Activation::GeluTanh))
}

/// x·σ(1.702x).
pub fn quick_gelu(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Activation(Activation::QuickGelu))
}

/// x·σ(x).
pub fn silu(tape: &Tape, x: &Var) -> Var {
    unary(tape, x, Unary::Activation(Activation::Silu))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
        }
    }

    /// Applies the operation to tensors whose shapes broadcast.
    fn apply(self, plan: &Broadcast, sides: [&Tensor; 2]) -> Tensor {
        plan.apply(sides, |out, a, b, steps| combine(self, out, [a, b], steps))
    }
}

fn binary(tape: &Tape, operation: Binary, left: &Var, right: &Var) -> Result<Var> {
    let plan = Broadcast::new(operation.name(), left.shape(), right.shape())?;
    on_gpu!(if left.value().gpu().is_some() || right.value().gpu().is_some() => {
        let are_there = left.value().gpu().is_some() && right.value().gpu().is_some();
        let ones = right.shape().iter().take_while(|&&size| size == 1).count();
        if are_there && left.shape().ends_with(&right.shape()[ones..]) {
            return Ok(crate::cuda::ops::elementwise::binary(tape, operation, left, right));
        }
        crate::cuda::through_host(tape, &[left, right], |tape, inputs| {
            binary(tape, operation, &inputs[0], &inputs[1])
        })
    });
    let y = operation.apply(&plan, [left.value(), right.value()]);
    let ratio = (operation == Binary::Div).then(|| y.clone());
    let saved = BinarySaved { operation, left: left.clone(), right: right.clone(), ratio };
    Ok(tape.record(y, &[left, right], move |gradient, gradients| saved.backward(gradient, gradients)))
}

struct BinarySaved {
    operation: Binary,
    left: Var,
    right: Var,
    /// left / right, for a quotient.
    ratio: Option<Tensor>,
}

impl BinarySaved {
    fn backward(&self, g: &Tensor, gradients: &mut Gradients) {
        let Self { operation, left, right, ratio } = self;
        let combined = |operation: Binary, a: &Tensor, b: &Tensor| {
            let plan = Broadcast::new(operation.name(), a.shape(), b.shape());
            operation.apply(&plan.expect("the sides broadcast in the forward pass"), [a, b])
        };
        if left.needs_gradient() {
            let full = match operation {
                Binary::Add | Binary::Sub => g.clone(),
                Binary::Mul => combined(Binary::Mul, g, right.value()),
                Binary::Div => combined(Binary::Div, g, right.value()),
            };
            gradients.add(left, &sum_to(&full, left.shape()));
        }
        if right.needs_gradient() {
            let full = match operation {
                Binary::Add => g.clone(),
                Binary::Sub => map(Unary::Scale(-1.0), g),
                Binary::Mul => combined(Binary::Mul, g, left.value()),
                Binary::Div => {
                    let ratio = ratio.as_ref().expect("saved for quotients");
                    let slope = combined(Binary::Div, ratio, right.value());
                    map(Unary::Scale(-1.0), &combined(Binary::Mul, g, &slope))
                }
            };
            gradients.add(right, &sum_to(&full, right.shape()));
        }
    }
}

vectorised! {
    fn combine(operation: Binary, out: &mut [f32], sides: [&[f32]; 2], steps: Steps) {
        match operation {
            Binary::Add => walk(out, sides, steps, |a, b| a + b),
            Binary::Sub => walk(out, sides, steps, |a, b| a - b),
            Binary::Mul => walk(out, sides, steps, |a, b| a * b),
            Binary::Div => walk(out, sides, steps, |a, b| a / b),
        }
    }
}

/// out[i] = f(a[i·step], b[i·step]); one loop per pair of steps so that each vectorises.
#[inline(always)]
fn walk(out: &mut [f32], [a, b]: [&[f32]; 2], steps: Steps, f: impl Fn(f32, f32) -> f32) {
    match steps {
        [1, 1] => out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = f(a, b)),
        [1, _] => out.iter_mut().zip(a).for_each(|(out, &a)| *out = f(a, b[0])),
        [_, 1] => out.iter_mut().zip(b).for_each(|(out, &b)| *out = f(a[0], b)),
        _ => out.fill(f(a[0], b[0])),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unary {
    Scale(f32),
    Square,
    Sqrt,
    Exp,
    Ln,
    Tanh,
    Relu,
    Activation(Activation),
}

impl Unary {
    /// The tensor that the backward pass reads: y = f(x) if f′ is a function of y, x, or nothing.
    pub(crate) fn saved(self, x: &Tensor, y: &Tensor) -> Option<Tensor> {
        match self {
            Self::Scale(_) => None,
            Self::Sqrt | Self::Exp | Self::Tanh | Self::Relu => Some(y.clone()),
            Self::Square | Self::Ln | Self::Activation(_) => Some(x.clone()),
        }
    }
}

fn unary(tape: &Tape, x: &Var, operation: Unary) -> Var {
    on_gpu!(x.value() => crate::cuda::ops::elementwise::unary(tape, x, operation));
    let y = map(operation, x.value());
    let (node, saved) = (x.node_only(), operation.saved(x.value(), &y));
    tape.record(y, &[x], move |gradient, gradients| {
        let mut dx = Tensor::uninit(gradient.shape());
        let (g, saved) = (gradient.data(), saved.as_ref().unwrap_or(gradient).data());
        parallel::elements(dx.data_mut(), |start, out| {
            let range = start..start + out.len();
            differentiate(operation, out, &g[range.clone()], &saved[range]);
        });
        gradients.add(&node, &dx);
    })
}

fn map(operation: Unary, x: &Tensor) -> Tensor {
    let mut y = Tensor::uninit(x.shape());
    let x = x.data();
    parallel::elements(y.data_mut(), |start, out| evaluate(operation, out, &x[start..start + out.len()]));
    y
}

/// eˣ that grows to infinity instead of stopping at e⁸⁸.
#[inline(always)]
fn exp_to_infinity(x: f32) -> f32 {
    // Between 88 and 128 subtracting 1 is exact.
    let (less, factor) = if x > 88.0 { (x - 1.0, std::f32::consts::E) } else { (x, 1.0) };
    lanes::exp(less) * factor
}

vectorised! {
    fn evaluate(operation: Unary, out: &mut [f32], x: &[f32]) {
        match operation {
            Unary::Scale(factor) => each(out, x, |x| factor * x),
            Unary::Square => each(out, x, |x| x * x),
            Unary::Sqrt => each(out, x, f32::sqrt),
            Unary::Exp => each(out, x, exp_to_infinity),
            Unary::Ln => each(out, x, lanes::ln),
            Unary::Tanh => values(out, x, activation::tanh),
            Unary::Relu => values(out, x, activation::relu),
            Unary::Activation(activation) => with_function!(activation, f => values(out, x, f)),
        }
    }
}

vectorised! {
    /// g·f′(x), in terms of the saved tensor: x or y = f(x).
    fn differentiate(operation: Unary, out: &mut [f32], g: &[f32], saved: &[f32]) {
        match operation {
            Unary::Scale(factor) => each(out, g, |g| factor * g),
            Unary::Square => pairs(out, g, saved, |g, x| g * (2.0 * x)),
            Unary::Sqrt => pairs(out, g, saved, |g, y| g / (2.0 * y)),
            Unary::Exp => pairs(out, g, saved, |g, y| g * y),
            Unary::Ln => pairs(out, g, saved, |g, x| g / x),
            Unary::Tanh => pairs(out, g, saved, |g, y| g * ((1.0 - y) * (1.0 + y))),
            Unary::Relu => pairs(out, g, saved, |g, y| if y > 0.0 { g } else { 0.0 }),
            Unary::Activation(activation) => with_function!(activation, f => slopes(out, g, saved, f)),
        }
    }
}

#[inline(always)]
fn each(out: &mut [f32], x: &[f32], f: impl Fn(f32) -> f32) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = f(x));
}

#[inline(always)]
fn pairs(out: &mut [f32], g: &[f32], x: &[f32], f: impl Fn(f32, f32) -> f32) {
    out.iter_mut().zip(g).zip(x).for_each(|((out, &g), &x)| *out = f(g, x));
}

/// Values of an activation. The function is passed directly: a closure around it might be compiled separately, without
/// the vector instructions of the caller.
#[inline(always)]
fn values(out: &mut [f32], x: &[f32], f: impl Fn(f32) -> (f32, f32)) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x).0;
    }
}

/// Derivatives of an activation times g.
#[inline(always)]
fn slopes(out: &mut [f32], g: &[f32], x: &[f32], f: impl Fn(f32) -> (f32, f32)) {
    for ((out, &g), &x) in out.iter_mut().zip(g).zip(x) {
        *out = g * f(x).1;
    }
}
