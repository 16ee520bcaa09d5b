//! Weights that no longer change, prepared for fast products: packed as f32, or quantised to int8.
//!
//! Both give a row the same result in any batch. Packed weights give the same bits as the weights they were made from.

use crate::Dtype;
use crate::gemm::int8::{Int8Weights, quantize_rows};
use crate::gemm::{Matrix, MatrixMut, Output, Packed, gemm_packed};
use crate::ops::activation::Activation;
use crate::ops::linear::finish_rows;
use crate::tensor::Tensor;

/// Prepared weights, d_out × d_in.
#[derive(Debug, Clone)]
pub enum Prepared {
    /// f32, in the order in which products read them.
    Packed(Packed),
    /// int8.
    Int8(Int8Weights),
}

impl Prepared {
    /// Prepares `weight`, d_out × d_in: quantised for [`Dtype::Int8`] (a scale for each output; inputs are quantised with a
    /// scale for each row), packed as f32 for any other dtype.
    ///
    /// # Panics
    /// If it does not have two axes.
    pub fn new(weight: &Tensor, dtype: Dtype) -> Self {
        let &[d_out, d_in] = weight.shape() else { panic!("weights of shape {:?}", weight.shape()) };
        let matrix = Matrix::new(weight.data(), d_out, d_in);
        match dtype {
            Dtype::Int8 => Self::Int8(Int8Weights::new(matrix)),
            _ => Self::Packed(Packed::new(matrix.t())),
        }
    }

    /// [d_out, d_in].
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Packed(packed) => {
                let [d_in, d_out] = packed.shape();
                [d_out, d_in]
            }
            Self::Int8(weights) => weights.shape(),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.bytes(),
            Self::Int8(weights) => weights.bytes(),
        }
    }

    /// Writes the weights of output `out` to `row`, as an embedding reads them.
    ///
    /// # Panics
    /// If there is no such output or `row` does not have d_in values.
    pub fn row(&self, out: usize, row: &mut [f32]) {
        match self {
            Self::Packed(packed) => packed.column(out, row),
            Self::Int8(weights) => weights.row(out, row),
        }
    }

    /// The weights as an array again, d_out × d_in; int8 weights are dequantised.
    pub fn to_tensor(&self) -> Tensor {
        let [d_out, d_in] = self.shape();
        let mut rows = Tensor::zeros(&[d_out, d_in]);
        for (out, row) in rows.data_mut().chunks_exact_mut(d_in.max(1)).enumerate() {
            self.row(out, row);
        }
        rows
    }

    /// The weights of some outputs only, in that order; each output keeps its bits.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn select(&self, outs: &[u32]) -> Self {
        let [_, d_in] = self.shape();
        match self {
            Self::Packed(packed) => {
                let mut rows = Tensor::zeros(&[outs.len(), d_in]);
                for (row, &out) in rows.data_mut().chunks_exact_mut(d_in.max(1)).zip(outs) {
                    packed.column(out as usize, row);
                }
                Self::new(&rows, Dtype::F32)
            }
            Self::Int8(weights) => Self::Int8(weights.select(outs)),
        }
    }

    /// act(x·Wᵀ + b) for x of … × d_in.
    ///
    /// # Panics
    /// If the widths do not fit together.
    pub fn linear(&self, x: &Tensor, bias: Option<&[f32]>, activation: Activation) -> Tensor {
        let [d_out, d_in] = self.shape();
        let mut shape = x.shape().to_vec();
        assert!(shape.pop() == Some(d_in), "the input has shape {:?}, expected […, {d_in}]", x.shape());
        shape.push(d_out);
        match self {
            Self::Int8(weights) => weights.linear(&quantize_rows(x), bias, activation).reshaped(&shape),
            Self::Packed(packed) => {
                let rows = x.len() / d_in.max(1);
                let mut y = Tensor::uninit(&shape);
                let mut target = MatrixMut::new(y.data_mut(), rows, d_out);
                gemm_packed(&mut target, Matrix::new(x.data(), rows, d_in), packed, Output::Overwrite);
                finish_rows(&mut y, bias, activation);
                y
            }
        }
    }
}
