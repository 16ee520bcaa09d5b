//! Batched matrix products on a GPU; see [`crate::ops::matmul`].

use crate::cuda::{Array, ElementType, Operand, Product};
use crate::gemm::Output;
use crate::ops::matmul::{Layout, MatmulPlan};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// left · right, in the type of the left side.
pub(crate) fn matmul(tape: &Tape, left: &Var, right: &Var, plan: MatmulPlan, out_shape: &[usize]) -> Var {
    let a = left.value().array().operand().clone();
    let b = right.value().array().matching(a.dtype());
    let y = Array::new(a.cuda(), a.dtype(), out_shape.iter().product());
    let sizes = Sizes::new(plan);
    sizes.multiply(sizes.left(&a), sizes.right(&b), &y, Output::Overwrite);
    let saved = CudaMatmulSaved { nodes: [left.node_only(), right.node_only()], a, b, sizes };
    let inputs = [left, right];
    tape.record(Tensor::on_gpu(out_shape, y), &inputs, move |gradient, gradients| {
        saved.backward(gradient.array(), gradients);
    })
}

/// Sizes of each of `batch` products; a right side shared by all is one product of all rows.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    layouts: [Layout; 2],
}

impl Sizes {
    fn new(plan: MatmulPlan) -> Self {
        let MatmulPlan { batch, m, k, n, options, .. } = plan;
        let layouts = [options.left, options.right];
        if plan.is_one_product() {
            Self { batch: 1, m: batch * m, k, n, layouts }
        } else {
            Self { batch, m, k, n, layouts }
        }
    }

    fn left<'a>(&self, array: &'a Array) -> Operand<'a> {
        view(array, self.batch, [self.m, self.k], self.layouts[0])
    }

    fn right<'a>(&self, array: &'a Array) -> Operand<'a> {
        view(array, self.batch, [self.k, self.n], self.layouts[1])
    }

    fn out<'a>(&self, array: &'a Array) -> Operand<'a> {
        Operand::batched(array, self.batch, self.m, self.n)
    }

    fn multiply(&self, a: Operand<'_>, b: Operand<'_>, out: &Array, output: Output) {
        let product = Product::new(a, b, out);
        out.cuda().multiply(&Product { output, batch: self.batch, ..product });
    }
}

/// View of `batch` matrices of rows × columns stored in `layout`.
fn view(array: &Array, batch: usize, [rows, columns]: [usize; 2], layout: Layout) -> Operand<'_> {
    match layout {
        Layout::Plain => Operand::batched(array, batch, rows, columns),
        Layout::Transposed => Operand::batched(array, batch, columns, rows).t(),
    }
}

struct CudaMatmulSaved {
    nodes: [Var; 2],
    a: Array,
    b: Array,
    sizes: Sizes,
}

impl CudaMatmulSaved {
    /// dA = dC·Bᵀ and dB = Aᵀ·dC, each stored as its side is.
    fn backward(&self, g: &Array, gradients: &mut Gradients) {
        let Self { nodes: [left, right], a, b, sizes } = self;
        gradients.update_array(left, |out, output| {
            let [g, b] = alike(out, [g, b]);
            let factors = [sizes.out(&g), sizes.right(&b).t()];
            let [one, other] = stored(factors, sizes.layouts[0]);
            sizes.multiply(one, other, out, output);
        });
        gradients.update_array(right, |out, output| {
            let [g, a] = alike(out, [g, a]);
            let factors = [sizes.left(&a).t(), sizes.out(&g)];
            let [one, other] = stored(factors, sizes.layouts[1]);
            sizes.multiply(one, other, out, output);
        });
    }
}

/// The factors of a product of the type of `out`: both bf16 for a bf16 result, of one type otherwise.
fn alike(out: &Array, factors: [&Array; 2]) -> [Array; 2] {
    let all_bf16 = factors.iter().all(|factor| factor.dtype() == ElementType::Bf16);
    let dtype =
        if out.dtype() == ElementType::Bf16 || all_bf16 { ElementType::Bf16 } else { ElementType::F32 };
    factors.map(|factor| factor.to_dtype(dtype))
}

/// Factors of a product that is stored in `layout`: (A·B)ᵀ = Bᵀ·Aᵀ.
fn stored(factors: [Operand<'_>; 2], layout: Layout) -> [Operand<'_>; 2] {
    match layout {
        Layout::Plain => factors,
        Layout::Transposed => [factors[1].t(), factors[0].t()],
    }
}
