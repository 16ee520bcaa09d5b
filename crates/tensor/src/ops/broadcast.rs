//! NumPy's broadcasting: shapes are aligned at their last axes, and an axis of size 1 is repeated to fit the other.
//!
//! Neighbouring axes that both sides walk in the same way are merged first, so that most pairs become a few long rows.
//! Backward: a side that was repeated gets the sum over the repeated axes, in the fixed order of `reduce`.

use super::reduce::sum_axis;
use crate::error::shape;
use crate::tensor::Tensor;
use crate::{Result, parallel};

/// Broadcasting of two tensors.
#[derive(Debug, Clone)]
pub(super) struct Broadcast {
    /// Shape of the result.
    pub(super) shape: Vec<usize>,
    /// Merged axes: size, and the stride of each side, 0 where it is repeated.
    axes: Vec<(usize, [usize; 2])>,
}

/// Stride of each side along a row.
pub(super) type Steps = [usize; 2];

impl Broadcast {
    pub(super) fn new(operation: &'static str, a: &[usize], b: &[usize]) -> Result<Self> {
        let rank = a.len().max(b.len());
        let size =
            |side: &[usize], axis: usize| (axis + side.len()).checked_sub(rank).map_or(1, |at| side[at]);
        let mut out = Vec::with_capacity(rank);
        for axis in 0..rank {
            match (size(a, axis), size(b, axis)) {
                (m, n) if m == n => out.push(m),
                (1, n) => out.push(n),
                (m, 1) => out.push(m),
                _ => return shape(operation, "right", b, format!("one that broadcasts with {a:?}")),
            }
        }
        let mut axes: Vec<(usize, [usize; 2])> = Vec::new();
        let mut strides = [1, 1];
        for axis in (0..rank).rev() {
            let sizes = [size(a, axis), size(b, axis)];
            let here = [0, 1].map(|side: usize| if sizes[side] == 1 { 0 } else { strides[side] });
            strides = [strides[0] * sizes[0], strides[1] * sizes[1]];
            if out[axis] == 1 {
                continue;
            }
            match axes.last_mut() {
                Some((inner, steps)) if [0, 1].into_iter().all(|side| here[side] == steps[side] * *inner) => {
                    *inner *= out[axis];
                }
                _ => axes.push((out[axis], here)),
            }
        }
        if axes.is_empty() {
            axes.push((1, [0, 0]));
        }
        Ok(Self { shape: out, axes })
    }

    /// Returns the tensor that `work(out, a, b, steps)` writes, called for parts of rows; a and b begin at the part.
    pub(super) fn apply(
        &self,
        [a, b]: [&Tensor; 2],
        work: impl Fn(&mut [f32], &[f32], &[f32], Steps) + Sync,
    ) -> Tensor {
        let mut out = Tensor::uninit(&self.shape);
        let (width, steps) = self.axes[0];
        let (a, b) = (a.data(), b.data());
        parallel::elements(out.data_mut(), |start, mut block| {
            let (mut row, mut column) = (start / width, start % width);
            while !block.is_empty() {
                let (piece, rest) = block.split_at_mut((width - column).min(block.len()));
                let [at_a, at_b] = self.row_start(row);
                work(piece, &a[at_a + column * steps[0]..], &b[at_b + column * steps[1]..], steps);
                (block, row, column) = (rest, row + 1, 0);
            }
        });
        out
    }

    /// Index of the first value of a row, for both sides.
    fn row_start(&self, mut row: usize) -> [usize; 2] {
        let mut at = [0, 0];
        for (size, steps) in &self.axes[1..] {
            let index = row % size;
            row /= size;
            at = [at[0] + index * steps[0], at[1] + index * steps[1]];
        }
        at
    }
}

/// Sums `gradient` over the axes along which a tensor of shape `target` was repeated.
pub(super) fn sum_to(gradient: &Tensor, target: &[usize]) -> Tensor {
    if gradient.shape() == target {
        return gradient.clone();
    }
    let from = gradient.shape();
    let offset = from.len() - target.len();
    let repeated = |axis: usize| axis < offset || (target[axis - offset] == 1 && from[axis] != 1);
    let mut sums = gradient.clone();
    let (mut outer, mut axis) = (1, 0);
    while axis < from.len() {
        let mut n = 1;
        let first = axis;
        while axis < from.len() && repeated(axis) {
            n *= from[axis];
            axis += 1;
        }
        if axis > first {
            let inner = from[axis..].iter().product();
            sums = sum_axis(sums.data(), [outer, n, inner]);
        } else {
            outer *= from[axis];
            axis += 1;
        }
    }
    sums.reshaped(target)
}
