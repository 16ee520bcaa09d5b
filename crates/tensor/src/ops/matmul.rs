//! Batched matrix products: C = A·B for … × M × K and … × K × N, each side as stored or transposed.
//!
//! Both sides have the same leading axes, or B has two axes and is shared by every A. Each element of C is one chain
//! over k as in [`crate::gemm`]. Backward: dA = dC·Bᵀ, dB = Aᵀ·dC, summed in batch order if B is shared.

use rayon::prelude::*;

use crate::Result;
use crate::error::shape;
use crate::gemm::{Matrix, MatrixMut, Output, gemm, gemm_serial};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Layout of the last two axes of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// As stored.
    #[default]
    Plain,
    /// Transposed.
    Transposed,
}

/// Layouts of the two sides of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatmulOptions {
    /// Left side, … × M × K; transposed it is stored as … × K × M. Default: plain.
    pub left: Layout,
    /// Right side, … × K × N; transposed it is stored as … × N × K. Default: plain.
    pub right: Layout,
}

/// left · right: … × M × N.
///
/// # Errors
/// If the shapes do not fit together.
pub fn matmul(tape: &Tape, left: &Var, right: &Var, options: MatmulOptions) -> Result<Var> {
    let (plan, out_shape) = MatmulPlan::new(left.shape(), right.shape(), options)?;
    on_gpu!(if left.value().gpu().is_some() || right.value().gpu().is_some() => {
        let are_there = left.value().gpu().is_some() && right.value().gpu().is_some();
        if are_there && (plan.right_stride > 0 || plan.is_one_product()) {
            return Ok(crate::cuda::ops::matmul::matmul(tape, left, right, plan, &out_shape));
        }
        crate::cuda::through_host(tape, &[left, right], |tape, inputs| matmul(tape, &inputs[0], &inputs[1], options))
    });
    let mut y = Tensor::uninit(&out_shape);
    let (a, b) = (left.value().data(), right.value().data());
    let MatmulPlan { batch, m, n, .. } = plan;
    if plan.is_one_product() {
        let a = Matrix::new(a, batch * m, plan.k);
        gemm(&mut MatrixMut::new(y.data_mut(), batch * m, n), a, plan.right(b, 0), Output::Overwrite);
    } else {
        let sides = |index| [plan.left(a, index), plan.right(b, index)];
        products(y.data_mut(), [batch, m, n], sides, Output::Overwrite);
    }
    let saved = MatmulSaved { left: left.clone(), right: right.clone(), plan };
    Ok(tape.record(y, &[left, right], move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// Sizes and layouts.
#[derive(Clone, Copy)]
pub(crate) struct MatmulPlan {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) options: MatmulOptions,
    /// Values from one right side to the next, 0 if all share one.
    right_stride: usize,
}

impl MatmulPlan {
    /// The plan and the shape of the product.
    fn new(left: &[usize], right: &[usize], options: MatmulOptions) -> Result<(Self, Vec<usize>)> {
        let (&[.., rows, cols], Some(leading)) = (left, left.len().checked_sub(2)) else {
            return shape("matmul", "left", left, "at least two axes");
        };
        let leading = &left[..leading];
        let [m, k] = if options.left == Layout::Plain { [rows, cols] } else { [cols, rows] };
        let &[ref right_leading @ .., rows, cols] = right else {
            return shape("matmul", "right", right, "at least two axes");
        };
        let [right_k, n] = if options.right == Layout::Plain { [rows, cols] } else { [cols, rows] };
        let shared = right_leading.is_empty();
        if right_k != k || !(shared || right_leading == leading) {
            let last = if options.right == Layout::Plain { [k, n] } else { [n, k] };
            let whole = [leading, &last].concat();
            let expected = format!("{whole:?} or {last:?} for a left side of {left:?}");
            return shape("matmul", "right", right, expected);
        }
        let mut out_shape = leading.to_vec();
        out_shape.extend([m, n]);
        let right_stride = if shared { 0 } else { k * n };
        Ok((Self { batch: leading.iter().product(), m, k, n, options, right_stride }, out_shape))
    }

    /// True if all left sides form one tall matrix that meets a single right side.
    pub(crate) fn is_one_product(&self) -> bool {
        self.right_stride == 0 && self.options.left == Layout::Plain
    }

    /// Left side `index` as M × K.
    fn left<'a>(&self, data: &'a [f32], index: usize) -> Matrix<'a> {
        view(&data[index * self.m * self.k..], [self.m, self.k], self.options.left)
    }

    /// Right side `index` as K × N.
    fn right<'a>(&self, data: &'a [f32], index: usize) -> Matrix<'a> {
        view(&data[index * self.right_stride..], [self.k, self.n], self.options.right)
    }
}

/// View of `rows × cols` stored in `layout`.
fn view(data: &[f32], [rows, cols]: [usize; 2], layout: Layout) -> Matrix<'_> {
    match layout {
        Layout::Plain => Matrix::new(data, rows, cols),
        Layout::Transposed => Matrix::new(data, cols, rows).t(),
    }
}

/// One product per batch entry, in parallel if there are at least as many as threads.
fn products<'a>(
    out: &mut [f32],
    [batch, rows, cols]: [usize; 3],
    sides: impl Fn(usize) -> [Matrix<'a>; 2] + Sync,
    output: Output,
) {
    if rows * cols == 0 {
        return;
    }
    let side_by_side = batch >= rayon::current_num_threads();
    let multiply = if side_by_side { gemm_serial } else { gemm };
    let work = |(index, out): (usize, &mut [f32])| {
        let [a, b] = sides(index);
        multiply(&mut MatrixMut::new(out, rows, cols), a, b, output);
    };
    if side_by_side {
        out.par_chunks_mut(rows * cols).enumerate().for_each(work);
    } else {
        out.chunks_mut(rows * cols).enumerate().for_each(work);
    }
}

/// Factors of a product that is stored in `layout`: (A·B)ᵀ = Bᵀ·Aᵀ.
fn stored(sides: [Matrix<'_>; 2], layout: Layout) -> [Matrix<'_>; 2] {
    match layout {
        Layout::Plain => sides,
        Layout::Transposed => [sides[1].t(), sides[0].t()],
    }
}

/// Shape in which `rows × cols` is stored in `layout`.
fn stored_shape([rows, cols]: [usize; 2], layout: Layout) -> [usize; 2] {
    if layout == Layout::Plain { [rows, cols] } else { [cols, rows] }
}

struct MatmulSaved {
    left: Var,
    right: Var,
    plan: MatmulPlan,
}

impl MatmulSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let plan = &self.plan;
        let MatmulPlan { batch, m, k, n, options, .. } = *plan;
        let (a, b, g) = (self.left.value().data(), self.right.value().data(), gradient.data());
        let d_product = |index: usize| Matrix::new(&g[index * m * n..], m, n);
        gradients.update(&self.left, |out, output| {
            if plan.is_one_product() {
                let g = Matrix::new(g, batch * m, n);
                return gemm(&mut MatrixMut::new(out, batch * m, k), g, plan.right(b, 0).t(), output);
            }
            let [rows, cols] = stored_shape([m, k], options.left);
            let sides = |index| stored([d_product(index), plan.right(b, index).t()], options.left);
            products(out, [batch, rows, cols], sides, output);
        });
        gradients.update(&self.right, |out, output| {
            let [rows, cols] = stored_shape([k, n], options.right);
            let sides = |index| stored([plan.left(a, index).t(), d_product(index)], options.right);
            if plan.right_stride != 0 || k * n == 0 {
                return products(out, [batch, rows, cols], sides, output);
            }
            if output == Output::Overwrite {
                out.fill(0.0);
            }
            if plan.is_one_product() {
                let whole = [Matrix::new(a, batch * m, k).t(), Matrix::new(g, batch * m, n)];
                let [a, b] = stored(whole, options.right);
                return gemm(&mut MatrixMut::new(out, rows, cols), a, b, Output::Accumulate);
            }
            for index in 0..batch {
                let [a, b] = sides(index);
                gemm(&mut MatrixMut::new(out, rows, cols), a, b, Output::Accumulate);
            }
        });
    }
}
