//! Int8 products for inference: C = A·B with A of u8, B of i8 and C of i32, exact in any order.
//!
//! B is packed once: panels of 32 columns, and along k in groups of four, since one instruction (VNNI's `vpdpbusd`)
//! multiplies four neighbouring bytes of A by four of B and adds the products to one 32-bit sum. A row of A is read
//! four bytes at a time and broadcast to all columns of a panel.
//!
//! [`quantize_rows`] quantises activations (one scale per row, so that a row does not depend on its batch) and
//! [`Int8Weights::new`] weights (one scale per output): x ≈ s_x (q − 128), w ≈ s_w p, so x·w ≈ s_x s_w Σ (q − 128) p.

mod kernel;

use std::ops::Range;

use rayon::prelude::*;

use self::kernel::{Int8Tile, Scales, multiply, multiply_and_scale};
use super::matrix::{Matrix, MatrixMut, Shared};
use crate::lanes::{max_abs, vectorised};
use crate::ops::activation::{Activation, with_function};
use crate::parallel;
use crate::tensor::Tensor;

const PANEL_COLS: usize = 32;
/// Bytes along k that are multiplied at once.
const GROUP: usize = 4;
/// Rows of A whose sums are held in registers together.
const TILE_ROWS: usize = 8;
/// Minimum multiplications of a task.
const MIN_TASK_WORK: usize = 1 << 19;
/// Tasks per thread, so that a late thread does not delay the rest.
const TASKS_PER_THREAD: usize = 2;
/// Zero point of a quantised row.
const ZERO: u8 = 128;

/// Weights quantised to int8: d_out × d_in with one scale per output.
#[derive(Debug, Clone)]
pub struct Int8Weights {
    d_in: usize,
    d_out: usize,
    scales: Vec<f32>,
    /// 128 Σ p for each output, padded with zeros to a whole panel.
    offsets: Vec<i32>,
    /// For each panel and group: 32 columns × 4 bytes.
    panels: Vec<i8>,
}

/// Quantised rows, each with a scale; padded with zeros to whole groups.
#[derive(Debug, Clone)]
pub struct Int8Rows {
    width: usize,
    scales: Vec<f32>,
    bytes: Vec<u8>,
}

impl Int8Weights {
    /// Quantises `weight` (d_out × d_in): the largest magnitude of each row becomes 127.
    pub fn new(weight: Matrix<'_>) -> Self {
        let [d_out, d_in] = [weight.rows, weight.cols];
        let mut bytes = vec![0; d_out * d_in];
        let mut scales = vec![0.0; d_out];
        let rows = bytes.par_chunks_mut(d_in.max(1)).zip(scales.par_iter_mut()).enumerate();
        rows.with_min_len(64).for_each(|(out, (bytes, scale))| {
            let largest = (0..d_in).map(|k| weight.get(out, k).abs()).fold(0.0, f32::max);
            *scale = if largest == 0.0 { 1.0 } else { largest / 127.0 };
            for (k, byte) in bytes.iter_mut().enumerate() {
                *byte = (weight.get(out, k) / *scale).round() as i8;
            }
        });
        Self::from_rows([d_out, d_in], &bytes, &scales)
    }

    /// Weights that were quantised before: d_out × d_in int8 values and one scale per output.
    ///
    /// # Panics
    /// If the number of values or scales differs, or a value is −128.
    pub fn from_rows([d_out, d_in]: [usize; 2], bytes: &[i8], scales: &[f32]) -> Self {
        assert!(bytes.len() == d_out * d_in && scales.len() == d_out, "{d_out} × {d_in} weights");
        assert!(!bytes.contains(&i8::MIN), "int8 weights are from −127 to 127");
        let depth = d_in.next_multiple_of(GROUP);
        let mut panels = vec![0; d_out.div_ceil(PANEL_COLS) * depth * PANEL_COLS];
        let mut offsets = vec![0; d_out.next_multiple_of(PANEL_COLS)];
        let columns =
            panels.par_chunks_mut((depth * PANEL_COLS).max(1)).zip(offsets.par_chunks_mut(PANEL_COLS));
        columns.enumerate().with_min_len(4).for_each(|(panel, (panel_bytes, offsets))| {
            for (column, offset) in offsets.iter_mut().enumerate().take(d_out - panel * PANEL_COLS) {
                let row = &bytes[(panel * PANEL_COLS + column) * d_in..][..d_in];
                *offset = i32::from(ZERO) * row.iter().map(|&byte| i32::from(byte)).sum::<i32>();
                let (groups, rest) = row.as_chunks::<GROUP>();
                let (places, _) = panel_bytes.as_chunks_mut::<GROUP>();
                let mut places = places[column..].iter_mut().step_by(PANEL_COLS);
                places.by_ref().zip(groups).for_each(|(place, group)| *place = *group);
                if !rest.is_empty() {
                    let start = (groups.len() * PANEL_COLS + column) * GROUP;
                    panel_bytes[start..start + rest.len()].copy_from_slice(rest);
                }
            }
        });
        Self { d_in, d_out, scales: scales.to_vec(), offsets, panels }
    }

    /// The int8 values, row-major.
    pub fn to_rows(&self) -> Vec<i8> {
        (0..self.d_out * self.d_in).map(|at| self.byte(at / self.d_in, at % self.d_in)).collect()
    }

    /// The weights of some outputs only, in that order.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn select(&self, outs: &[u32]) -> Self {
        let groups = self.d_in.div_ceil(GROUP);
        let mut panels = vec![0; outs.len().div_ceil(PANEL_COLS) * groups * GROUP * PANEL_COLS];
        let mut offsets = vec![0; outs.len().next_multiple_of(PANEL_COLS)];
        let (from, _) = self.panels.as_chunks::<GROUP>();
        let (to, _) = panels.as_chunks_mut::<GROUP>();
        let panel_len = (groups * PANEL_COLS).max(1);
        for ((to, offsets), outs) in
            to.chunks_mut(panel_len).zip(offsets.chunks_mut(PANEL_COLS)).zip(outs.chunks(PANEL_COLS))
        {
            let mut firsts = [0; PANEL_COLS];
            for ((first, offset), &out) in firsts.iter_mut().zip(offsets).zip(outs) {
                let out = out as usize;
                assert!(out < self.d_out, "output {out} of {}", self.d_out);
                *offset = self.offsets[out];
                *first = out / PANEL_COLS * panel_len + out % PANEL_COLS;
            }
            // Neighbouring outputs share cache lines, so all columns of a group are copied before the next group.
            for (group, to) in to.chunks_exact_mut(PANEL_COLS).enumerate() {
                for (to, first) in to.iter_mut().zip(&firsts[..outs.len()]) {
                    *to = from[first + group * PANEL_COLS];
                }
            }
        }
        let scales = outs.iter().map(|&out| self.scales[out as usize]).collect();
        Self { d_in: self.d_in, d_out: outs.len(), scales, offsets, panels }
    }

    fn byte(&self, out: usize, k: usize) -> i8 {
        let panel = out / PANEL_COLS * self.d_in.next_multiple_of(GROUP) * PANEL_COLS;
        self.panels[panel + (k / GROUP * PANEL_COLS + out % PANEL_COLS) * GROUP + k % GROUP]
    }

    /// One scale per output.
    pub fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.panels.len() + 8 * self.d_out
    }

    /// [d_out, d_in].
    pub fn shape(&self) -> [usize; 2] {
        [self.d_out, self.d_in]
    }

    /// Writes the dequantised weights of output `out` to `row`.
    ///
    /// # Panics
    /// If there is no such output or `row` does not have d_in values.
    pub fn row(&self, out: usize, row: &mut [f32]) {
        assert!(out < self.d_out && row.len() == self.d_in, "row {out} of {} × {}", self.d_out, self.d_in);
        let first = out / PANEL_COLS * self.d_in.div_ceil(GROUP) * PANEL_COLS + out % PANEL_COLS;
        for (group, numbers) in row.chunks_mut(GROUP).enumerate() {
            let at = (first + group * PANEL_COLS) * GROUP;
            for (number, &byte) in numbers.iter_mut().zip(&self.panels[at..]) {
                *number = f32::from(byte) * self.scales[out];
            }
        }
    }

    /// act(x·Wᵀ + b): rows × d_out. Threads divide the outputs, so each reads its own weights.
    ///
    /// # Panics
    /// If the widths do not fit together.
    pub fn linear(&self, x: &Int8Rows, bias: Option<&[f32]>, activation: Activation) -> Tensor {
        assert_eq!(x.width, self.d_in, "a row has {} values, expected {}", x.width, self.d_in);
        let rows = x.scales.len();
        let mut out = Tensor::uninit(&[rows, self.d_out]);
        if rows == 0 || self.d_out == 0 {
            return out;
        }
        let n_panels = self.d_out.div_ceil(PANEL_COLS);
        let work = rows * self.d_in * self.d_out;
        let tasks =
            (work / MIN_TASK_WORK).clamp(1, TASKS_PER_THREAD * rayon::current_num_threads()).min(n_panels);
        let target = MatrixMut::new(out.data_mut(), rows, self.d_out).shared();
        let run = |task: usize| {
            let panels = task * n_panels / tasks..(task + 1) * n_panels / tasks;
            // SAFETY: tasks write the columns of different panels.
            unsafe { self.panels(panels, x, Finish { bias, activation }, target) };
        };
        if tasks == 1 || rayon::current_num_threads() == 1 {
            (0..tasks).for_each(run);
        } else {
            (0..tasks).into_par_iter().with_max_len(1).for_each(run);
        }
        out
    }

    /// Multiplies all rows by some panels; a panel stays in the first-level cache meanwhile.
    ///
    /// # Safety
    /// Nobody else writes the columns of these panels.
    unsafe fn panels(&self, panels: Range<usize>, x: &Int8Rows, finish: Finish<'_>, target: Shared) {
        let depth = self.d_in.div_ceil(GROUP) * GROUP;
        let n_rows = x.scales.len();
        let mut sums = [[0_i32; PANEL_COLS]; TILE_ROWS];
        for panel in panels {
            let weights = &self.panels[panel * depth * PANEL_COLS..(panel + 1) * depth * PANEL_COLS];
            let first = panel * PANEL_COLS;
            let cols = PANEL_COLS.min(self.d_out - first);
            let offsets = self.offsets[first..].first_chunk().expect("whole panels");
            let mut bias_or_zero = [0.0; PANEL_COLS];
            if let Some(bias) = finish.bias {
                bias_or_zero[..cols].copy_from_slice(&bias[first..first + cols]);
            }
            for row in (0..n_rows).step_by(TILE_ROWS) {
                let rows = TILE_ROWS.min(n_rows - row);
                // SAFETY: the tile lies inside the matrix, and the caller guarantees that nobody else writes its
                // columns.
                let mut out = unsafe { Int8Tile::at(target, [row, first], cols) };
                let bytes = &x.bytes[row * depth..(row + rows) * depth];
                let scales = Scales {
                    rows: &x.scales[row..row + rows],
                    columns: &self.scales[first..first + cols],
                    bias: &bias_or_zero,
                    activation: finish.activation,
                };
                if !multiply_and_scale(bytes, weights, offsets, &mut out, &scales) {
                    multiply(bytes, weights, offsets, &mut sums[..rows]);
                    dequantize(&mut out, &sums[..rows], &scales);
                }
            }
        }
    }
}

/// Bias and activation after the product.
#[derive(Clone, Copy)]
struct Finish<'a> {
    bias: Option<&'a [f32]>,
    activation: Activation,
}

vectorised! {
    /// act(s_x s_w Σ (q − 128) p + b) for the rows of a tile.
    fn dequantize(tile: &mut Int8Tile, sums: &[[i32; PANEL_COLS]], finish: &Scales<'_>) {
        for (row, (sums, row_scale)) in sums.iter().zip(finish.rows).enumerate() {
            // SAFETY: a tile has as many rows as sums.
            let out = unsafe { tile.row(row) };
            if let (Some(out), Some(scales)) = (out.first_chunk_mut::<PANEL_COLS>(), finish.columns.first_chunk()) {
                // Whole panels have a constant size, which compiles to straight vector code.
                scale_row(out, sums, [scales, finish.bias], *row_scale, finish.activation);
            } else {
                let (mut whole, mut scales) = ([0.0; PANEL_COLS], [0.0; PANEL_COLS]);
                scales[..out.len()].copy_from_slice(finish.columns);
                scale_row(&mut whole, sums, [&scales, finish.bias], *row_scale, finish.activation);
                out.copy_from_slice(&whole[..out.len()]);
            }
        }
    }
}

#[inline(always)]
fn scale_row(
    out: &mut [f32; PANEL_COLS],
    sums: &[i32; PANEL_COLS],
    [scales, bias]: [&[f32; PANEL_COLS]; 2],
    row_scale: f32,
    activation: Activation,
) {
    for col in 0..PANEL_COLS {
        out[col] = sums[col] as f32 * (row_scale * scales[col]) + bias[col];
    }
    with_function!(activation, f => for number in out {
        *number = f(*number).0;
    });
}

/// Quantises each row of `x`: the largest magnitude becomes 127, zero becomes 128.
pub fn quantize_rows(x: &Tensor) -> Int8Rows {
    let [rows, width] = x.rows();
    let padded = width.next_multiple_of(GROUP);
    let mut bytes = vec![ZERO; rows * padded];
    let mut scales = vec![0.0; rows];
    let data = x.data();
    // The scales are computed in parallel, together with the quantised values.
    scales
        .par_iter_mut()
        .zip(bytes.par_chunks_mut(padded.max(1)))
        .enumerate()
        .with_min_len(16)
        .for_each(|(row, (scale, bytes))| *scale = quantize(&data[row * width..(row + 1) * width], bytes));
    Int8Rows { width, scales, bytes }
}

vectorised! {
    fn quantize(row: &[f32], bytes: &mut [u8]) -> f32 {
        let largest = max_abs(row);
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        let inverse = 1.0 / scale;
        for (byte, &number) in bytes.iter_mut().zip(row) {
            // Adding half and truncating rounds, since the sum is never negative; NaN becomes 0.
            let shifted = number * inverse + 128.5;
            let shifted = if shifted > 0.0 { shifted } else { 0.0 };
            let shifted = if shifted < 255.0 { shifted } else { 255.0 };
            // SAFETY: the value is between 0 and 255. A checked conversion would not compile to vector code.
            *byte = unsafe { shifted.to_int_unchecked::<i32>() } as u8;
        }
        scale
    }
}

/// Dequantised values of `rows`.
pub fn dequantize_rows(rows: &Int8Rows) -> Tensor {
    let mut out = Tensor::uninit(&[rows.scales.len(), rows.width]);
    let padded = rows.width.next_multiple_of(GROUP);
    parallel::rows(out.data_mut(), rows.width, |first, block| {
        for (offset, out) in block.chunks_exact_mut(rows.width).enumerate() {
            let row = first + offset;
            for (out, &byte) in out.iter_mut().zip(&rows.bytes[row * padded..]) {
                *out = (f32::from(byte) - f32::from(ZERO)) * rows.scales[row];
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::Random;

    fn numbers(len: usize, stream: u64) -> Vec<f32> {
        let random = Random::new(5).stream(stream);
        (0..len as u64).map(|index| random.uniform(index) as f32 * 4.0 - 2.0).collect()
    }

    /// The result is the exact product of the dequantised values, which are within half a step of the originals.
    #[test]
    fn a_linear_layer_is_the_product_of_the_dequantised_values() {
        let [rows, d_in, d_out] = [17, 50, 37];
        let (x, w, bias) = (numbers(rows * d_in, 1), numbers(d_out * d_in, 2), numbers(d_out, 3));
        let weights = Int8Weights::new(Matrix::new(&w, d_out, d_in));
        let bytes = quantize_rows(&Tensor::new(&[rows, d_in], x.clone()));
        let near = dequantize_rows(&bytes);
        let out = weights.linear(&bytes, Some(&bias), Activation::None);
        for row in 0..rows {
            for col in 0..d_out {
                let w_row = &w[col * d_in..(col + 1) * d_in];
                let step = w_row.iter().fold(0.0_f32, |a, b| a.max(b.abs())) / 127.0;
                let x_row = &near.data()[row * d_in..(row + 1) * d_in];
                let exact: f32 =
                    x_row.iter().zip(w_row).map(|(x, w)| x * (w / step).round() * step).sum::<f32>();
                let got = out.data()[row * d_out + col];
                assert!((got - exact - bias[col]).abs() < 1e-3, "{got} {exact}");
            }
        }
        for (near, x) in near.data().chunks(d_in).zip(x.chunks(d_in)) {
            let step = x.iter().fold(0.0_f32, |a, b| a.max(b.abs())) / 127.0;
            assert!(near.iter().zip(x).all(|(near, x)| (near - x).abs() <= 0.501 * step));
        }
    }

    #[test]
    fn the_fused_kernel_gives_the_bits_of_the_kernel_with_sums_in_memory() {
        let [rows, d_in, d_out] = [11, 36, 70];
        let (x, w, bias) = (numbers(rows * d_in, 1), numbers(d_out * d_in, 2), numbers(d_out, 3));
        let weights = Int8Weights::new(Matrix::new(&w, d_out, d_in));
        let bytes = quantize_rows(&Tensor::new(&[rows, d_in], x));
        for activation in [Activation::None, Activation::Relu, Activation::Silu] {
            let found = weights.linear(&bytes, Some(&bias), activation);
            for row in 0..rows {
                for col in 0..d_out {
                    let mut weight = vec![0.0; d_in];
                    weights.row(col, &mut weight);
                    let byte = |k: usize| (weight[k] / weights.scales[col]).round() as i32;
                    let sum: i32 =
                        (0..d_in).map(|k| (i32::from(bytes.bytes[row * d_in + k]) - 128) * byte(k)).sum();
                    let mut expected = [0.0; PANEL_COLS];
                    let [sums, scale, shift] = [sum as f32, weights.scales[col], bias[col]];
                    let (sums, scales) = ([sums as i32; PANEL_COLS], [scale; PANEL_COLS]);
                    scale_row(
                        &mut expected,
                        &sums,
                        [&scales, &[shift; PANEL_COLS]],
                        bytes.scales[row],
                        activation,
                    );
                    assert_eq!(found.data()[row * d_out + col], expected[0], "{activation:?} {row} {col}");
                }
            }
        }
    }

    #[test]
    fn selected_outputs_are_packed_as_if_quantised_alone() {
        let [d_in, d_out] = [33, 100];
        let weights = Int8Weights::new(Matrix::new(&numbers(d_out * d_in, 2), d_out, d_in));
        let rows = weights.to_rows();
        let outs: Vec<u32> = (0..d_out as u32).filter(|out| out % 7 != 3).rev().collect();
        let selected = weights.select(&outs);
        let bytes: Vec<i8> =
            outs.iter().flat_map(|&out| rows[out as usize * d_in..][..d_in].to_vec()).collect();
        let scales: Vec<f32> = outs.iter().map(|&out| weights.scales[out as usize]).collect();
        let packed = Int8Weights::from_rows([outs.len(), d_in], &bytes, &scales);
        assert_eq!((selected.panels, selected.offsets), (packed.panels, packed.offsets));
        assert_eq!((selected.scales, selected.d_out), (packed.scales, outs.len()));
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        let [rows, d_in, d_out] = [17, 33, 40];
        let (x, w) = (numbers(rows * d_in, 1), numbers(d_out * d_in, 2));
        let weights = Int8Weights::new(Matrix::new(&w, d_out, d_in));
        let whole =
            weights.linear(&quantize_rows(&Tensor::new(&[rows, d_in], x.clone())), None, Activation::None);
        for row in 0..rows {
            let alone = Tensor::new(&[1, d_in], x[row * d_in..(row + 1) * d_in].to_vec());
            let alone = weights.linear(&quantize_rows(&alone), None, Activation::None);
            assert_eq!(alone.data(), &whole.data()[row * d_out..(row + 1) * d_out]);
        }
        let zeros = weights.linear(&quantize_rows(&Tensor::zeros(&[2, d_in])), None, Activation::None);
        assert!(zeros.data().iter().all(|&number| number == 0.0));
    }
}
