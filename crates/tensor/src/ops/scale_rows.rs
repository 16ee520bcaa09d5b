//! Rows multiplied by a number each: y_r = f_r · x_r. Backward: dx_r = f_r · dy_r; the numbers are constants.
//!
//! With numbers that dropout has drawn, it is stochastic depth (Huang et al. 2016).

use crate::error::shape;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Multiplies each entry of the first axis of x (rows × …) by its number in `factors`, one for each row.
///
/// # Errors
/// If there are not as many numbers as rows.
pub fn scale_rows(tape: &Tape, x: &Var, factors: &Tensor) -> Result<Var> {
    let rows = x.shape().first().copied().unwrap_or(0);
    if factors.len() != rows || rows == 0 {
        return shape("scale_rows", "factors", factors.shape(), format!("[{rows}], one a row of x"));
    }
    on_gpu!(x.value() => Ok(crate::cuda::ops::scale_rows::scale_rows(tape, x, factors)));
    let (factors, node) = (factors.clone(), x.node_only());
    let scaled = move |from: &Tensor| {
        let mut to = Tensor::uninit(from.shape());
        let (width, from, factors) = (from.len() / rows, from.data(), factors.data());
        parallel::rows(to.data_mut(), width, |first, block| {
            let from = &from[first * width..first * width + block.len()];
            for ((out, row), factor) in
                block.chunks_exact_mut(width).zip(from.chunks_exact(width)).zip(&factors[first..])
            {
                out.iter_mut().zip(row).for_each(|(out, number)| *out = factor * number);
            }
        });
        to
    };
    Ok(tape
        .record(scaled(x.value()), &[x], move |gradient, gradients| gradients.add(&node, &scaled(gradient))))
}
