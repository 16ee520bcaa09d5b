//! All positions of a layer on the CPU, forward and backward. Threads divide the rows.

use rayon::prelude::*;

use super::pointwise::{self, RowStep, RowStepBack};
use super::{Reading, RecurrentInput, RecurrentOptions, Sizes};
use crate::gemm::{Matrix, MatrixMut, Output, Packed, gemm_packed_serial};
use crate::lanes::add_assign;
use crate::ops::shared_weight::SharedWeight;
use crate::tensor::Tensor;

/// Layers with fewer multiply-adds run on one thread.
const MIN_PARALLEL_WORK: usize = 1 << 19;

/// What the backward pass reads: gates (batch × length × gates), h before each position (batch × length × d), and
/// [`Sizes::extra`].
#[derive(Debug)]
pub(super) struct Saved {
    gates: Tensor,
    pub(super) before: Tensor,
    extra: Tensor,
}

/// The inputs of the forward pass.
pub(super) struct ForwardPass<'a> {
    pub(super) sizes: Sizes,
    pub(super) input: RecurrentInput<'a>,
    pub(super) options: RecurrentOptions,
    pub(super) lengths: Option<&'a [u32]>,
}

/// The saved values of a layer.
pub(super) struct BackwardPass {
    pub(super) sizes: Sizes,
    pub(super) options: RecurrentOptions,
    pub(super) lengths: Option<Vec<u32>>,
    pub(super) saved: Saved,
}

impl Sizes {
    /// Rows of a thread.
    fn block(&self) -> usize {
        let work = self.batch * self.length * self.gates() * self.d;
        let threads = if work < MIN_PARALLEL_WORK { 1 } else { rayon::current_num_threads() };
        self.batch.div_ceil(threads).max(1)
    }

    /// The positions in the order of `reading`.
    fn positions(&self, reading: Reading) -> Vec<usize> {
        match reading {
            Reading::Forwards => (0..self.length).collect(),
            Reading::Backwards => (0..self.length).rev().collect(),
        }
    }
}

/// Number of positions of a row.
fn length_of(lengths: Option<&[u32]>, row: usize, length: usize) -> usize {
    lengths.map_or(length, |lengths| lengths[row] as usize)
}

/// Splits buffers of some widths per row into blocks of rows.
fn blocks<const N: usize>(
    buffers: [&mut [f32]; N],
    widths: [usize; N],
    block: usize,
) -> Vec<[&mut [f32]; N]> {
    let mut rest = buffers;
    let mut found = Vec::new();
    let rows = (0..N).find(|&at| widths[at] > 0).map_or(0, |at| rest[at].len() / widths[at]);
    for first in (0..rows).step_by(block) {
        let rows = block.min(rows - first);
        let mut widths = widths.iter();
        rest = {
            let mut now = Vec::with_capacity(N);
            let later = rest.map(|part| {
                let (head, tail) = part.split_at_mut(rows * widths.next().expect("a width for each buffer"));
                now.push(head);
                tail
            });
            found.push(now.try_into().expect("N buffers"));
            later
        };
    }
    found
}

impl ForwardPass<'_> {
    /// Outputs, last state, and what the backward pass reads if it will run.
    pub(super) fn run(&self, saves: bool) -> (Tensor, Tensor, Option<Saved>) {
        let sizes @ Sizes { batch, length, d, .. } = self.sizes;
        let mut outputs = Tensor::uninit(&[batch, length, d]);
        let mut last = match self.input.state {
            Some(state) => {
                let mut last = Tensor::uninit(&[batch, sizes.state()]);
                last.data_mut().copy_from_slice(state.value().data());
                last
            }
            None => Tensor::zeros(&[batch, sizes.state()]),
        };
        let stored = if saves { length } else { 0 };
        let saved = |width: usize| Tensor::uninit(&[batch, stored, width]);
        let [mut gates, mut before, mut extra] = [saved(sizes.gates()), saved(d), saved(sizes.extra())];
        let bias = match self.input.weight.bias() {
            Some(bias) => bias.clone(),
            None => Tensor::zeros(&[sizes.gates()]),
        };
        let packed = self.input.weight.packed();
        // int8 products quantise rows as a whole tensor and use threads themselves.
        let block = if packed.is_some() { sizes.block() } else { batch.max(1) };
        let buffers =
            [outputs.data_mut(), last.data_mut(), gates.data_mut(), before.data_mut(), extra.data_mut()];
        let widths = [length * d, sizes.state(), stored * sizes.gates(), stored * d, stored * sizes.extra()];
        let shared = self.shared(packed, bias.data());
        let work = |(index, parts): (usize, [&mut [f32]; 5])| shared.run(index * block, parts);
        let blocks = blocks(buffers, widths, block);
        match &shared.product {
            ProductOf::Packed(_) if blocks.len() > 1 => blocks.into_par_iter().enumerate().for_each(work),
            ProductOf::Packed(_) => blocks.into_iter().enumerate().for_each(work),
            ProductOf::Int8 => {
                // Not shared between threads: the weight is counted without atomics.
                for (index, parts) in blocks.into_iter().enumerate() {
                    shared.run_with(index * block, parts, &|h| self.input.weight.product(h));
                }
            }
        }
        (outputs, last, saves.then_some(Saved { gates, before, extra }))
    }

    fn shared<'a>(&'a self, packed: Option<&'a Packed>, bias: &'a [f32]) -> SharedForward<'a> {
        SharedForward {
            sizes: self.sizes,
            positions: self.sizes.positions(self.options.reading),
            lengths: self.lengths,
            projected: self.input.projected.value().data(),
            bias,
            product: packed.map_or(ProductOf::Int8, ProductOf::Packed),
        }
    }
}

/// The product with h.
enum ProductOf<'a> {
    Packed(&'a Packed),
    Int8,
}

/// What all threads of the forward pass read.
struct SharedForward<'a> {
    sizes: Sizes,
    positions: Vec<usize>,
    lengths: Option<&'a [u32]>,
    projected: &'a [f32],
    bias: &'a [f32],
    product: ProductOf<'a>,
}

impl SharedForward<'_> {
    /// All positions of the rows from `first`, with packed weights.
    fn run(&self, first: usize, parts: [&mut [f32]; 5]) {
        let ProductOf::Packed(packed) = self.product else { unreachable!("int8 runs with its own product") };
        let Sizes { d, .. } = self.sizes;
        let width = self.sizes.gates();
        let mut products = Tensor::uninit(&[parts[1].len() / self.sizes.state(), width]);
        let mut multiply = |last: &[f32]| {
            let rows = last.len() / self.sizes.state();
            let h = Matrix::strided(last, [rows, d], [self.sizes.state(), 1]);
            let mut out = MatrixMut::new(products.data_mut(), rows, width);
            gemm_packed_serial(&mut out, h, packed, Output::Overwrite);
            products.clone()
        };
        self.all_positions(first, parts, &mut multiply);
    }

    /// All positions of the rows from `first`, with another product of h (rows × d).
    fn run_with(&self, first: usize, parts: [&mut [f32]; 5], product: &dyn Fn(&Tensor) -> Tensor) {
        let (d, state) = (self.sizes.d, self.sizes.state());
        let mut multiply = |last: &[f32]| {
            let h = last.chunks_exact(state).flat_map(|row| &row[..d]).copied().collect();
            product(&Tensor::new(&[last.len() / state, d], h))
        };
        self.all_positions(first, parts, &mut multiply);
    }

    fn all_positions(
        &self,
        first: usize,
        [outputs, last, gates, before, extra]: [&mut [f32]; 5],
        multiply: &mut dyn FnMut(&[f32]) -> Tensor,
    ) {
        let Sizes { length, d, cell, .. } = self.sizes;
        let [width, state, more] = [self.sizes.gates(), self.sizes.state(), self.sizes.extra()];
        let rows = last.len() / state;
        let own = |row: usize| length_of(self.lengths, first + row, length);
        let (mut scratch, mut more_scratch) = (vec![0.0; width], vec![0.0; more]);
        let saves = !before.is_empty();
        for &t in &self.positions {
            let is_active = (0..rows).any(|row| t < own(row));
            let products = if is_active { Some(multiply(last)) } else { None };
            for row in 0..rows {
                let at = row * length + t;
                let state = &mut last[row * state..(row + 1) * state];
                let output = &mut outputs[at * d..(at + 1) * d];
                let (gates, extra) = if saves {
                    (&mut gates[at * width..(at + 1) * width], &mut extra[at * more..(at + 1) * more])
                } else {
                    (&mut scratch[..], &mut more_scratch[..])
                };
                let Some(products) = products.as_ref().filter(|_| t < own(row)) else {
                    output.fill(0.0);
                    if saves {
                        before[at * d..(at + 1) * d].fill(0.0);
                    }
                    continue;
                };
                if saves {
                    before[at * d..(at + 1) * d].copy_from_slice(&state[..d]);
                }
                let from = ((first + row) * length + t) * width;
                let step = RowStep {
                    x: &self.projected[from..from + width],
                    p: &products.data()[row * width..(row + 1) * width],
                    bias: self.bias,
                    state: &mut *state,
                    gates,
                    extra,
                };
                pointwise::forward(cell, step);
                output.copy_from_slice(&state[..d]);
            }
        }
    }
}

impl BackwardPass {
    /// Gradients of the projected input (batch × length × gates), of the products with W_hh (likewise) and of the
    /// initial state, from those of the outputs and of the last state.
    pub(super) fn run(
        &self,
        gradient: &Tensor,
        last: Option<&Tensor>,
        weight: &SharedWeight<'_>,
    ) -> (Tensor, Tensor, Tensor) {
        let sizes @ Sizes { batch, length, .. } = self.sizes;
        let width = sizes.gates();
        let mut of_input = Tensor::uninit(&[batch, length, width]);
        let is_apart = self.sizes.cell == super::CellKind::Gru;
        let mut of_hidden = Tensor::uninit(&[batch, if is_apart { length } else { 0 }, width]);
        let mut of_state = match last {
            Some(last) => {
                let mut copy = Tensor::uninit(&[batch, sizes.state()]);
                copy.data_mut().copy_from_slice(last.data());
                copy
            }
            None => Tensor::zeros(&[batch, sizes.state()]),
        };
        let block = sizes.block();
        let buffers = [of_input.data_mut(), of_hidden.data_mut(), of_state.data_mut()];
        let widths = [length * width, if is_apart { length * width } else { 0 }, sizes.state()];
        let (packed, mut positions) = (weight.packed_back(), sizes.positions(self.options.reading));
        positions.reverse();
        let work = |(index, parts): (usize, [&mut [f32]; 3])| {
            self.rows(index * block, parts, gradient.data(), (packed, &positions));
        };
        let blocks = blocks(buffers, widths, block);
        if blocks.len() > 1 {
            blocks.into_par_iter().enumerate().for_each(work);
        } else {
            blocks.into_iter().enumerate().for_each(work);
        }
        let of_hidden = if is_apart { of_hidden } else { of_input.clone() };
        (of_input, of_hidden, of_state)
    }

    /// All positions of the rows from `first`, backwards.
    fn rows(
        &self,
        first: usize,
        [of_input, of_hidden, of_state]: [&mut [f32]; 3],
        gradient: &[f32],
        (packed, positions): (&Packed, &[usize]),
    ) {
        let Sizes { length, d, cell, .. } = self.sizes;
        let [width, state, more] = [self.sizes.gates(), self.sizes.state(), self.sizes.extra()];
        let rows = of_state.len() / state;
        let own = |row: usize| length_of(self.lengths.as_deref(), first + row, length);
        let mut products = Tensor::uninit(&[rows, d]);
        let is_apart = !of_hidden.is_empty();
        for &t in positions {
            for row in 0..rows {
                let (here, at) = (row * length + t, (first + row) * length + t);
                let of_input = &mut of_input[here * width..(here + 1) * width];
                let of_hidden =
                    if is_apart { &mut of_hidden[here * width..(here + 1) * width] } else { &mut [][..] };
                if t >= own(row) {
                    of_input.fill(0.0);
                    of_hidden.fill(0.0);
                    continue;
                }
                let step = RowStepBack {
                    gates: &self.saved.gates.data()[at * width..(at + 1) * width],
                    extra: &self.saved.extra.data()[at * more..(at + 1) * more],
                    before: &self.saved.before.data()[at * d..(at + 1) * d],
                    of_output: &gradient[at * d..(at + 1) * d],
                    of_state: &mut of_state[row * state..(row + 1) * state],
                    of_input,
                    of_hidden,
                };
                pointwise::backward(cell, step);
            }
            if !(0..rows).any(|row| t < own(row)) {
                continue;
            }
            let all: &[f32] = if is_apart { of_hidden } else { of_input };
            let g = Matrix::strided(&all[t * width..], [rows, width], [length * width, 1]);
            let mut out = MatrixMut::new(products.data_mut(), rows, d);
            gemm_packed_serial(&mut out, g, packed, Output::Overwrite);
            for row in (0..rows).filter(|&row| t < own(row)) {
                add_assign(
                    &mut of_state[row * state..row * state + d],
                    &products.data()[row * d..(row + 1) * d],
                );
            }
        }
    }
}
