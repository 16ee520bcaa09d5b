//! Rotary positions: pairs of values of a head are rotated by an angle that grows with the position.
//!
//! Su et al. 2021. Pair i of a head at position p is rotated by p·base^(−2i/d_head): (a, b) ← (a cos − b sin, a sin + b
//! cos). The product of a query and a key rotated like this depends on their distance only. Backward: the rotation by
//! the opposite angle.

use crate::elementary::{power, sin_cos};
use crate::error::shape;
use crate::lanes::vectorised;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// Pairing: the values of a head that form pair i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pairing {
    /// 2i and 2i + 1, as in the paper.
    #[default]
    Interleaved,
    /// i and i + d_head/2, as in GPT-NeoX and Hugging Face.
    Halves,
}

/// Options of rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RotaryOptions {
    /// Base of the angles: the slowest pair rotates about `base` times slower than the fastest. Default: 10 000.
    pub base: f32,
    /// Pairing of values. Default: neighbours.
    pub pairing: Pairing,
}

impl Default for RotaryOptions {
    fn default() -> Self {
        Self { base: 10_000.0, pairing: Pairing::default() }
    }
}

/// Rotations of every position, computed once for all layers; clones share them.
#[derive(Debug, Clone)]
pub struct RotaryTable {
    /// max_len × d_head: d_head/2 cosines, then d_head/2 sines.
    turns: Tensor,
    pairing: Pairing,
}

impl RotaryTable {
    /// Rotations of heads of `d_head` values at positions 0 to `max_len` − 1.
    ///
    /// # Errors
    /// If `d_head` is odd or 0, or the base is not positive.
    pub fn new(d_head: usize, max_len: usize, options: RotaryOptions) -> Result<Self> {
        if d_head == 0 || !d_head.is_multiple_of(2) {
            let (found, expected) = (d_head as f64, "an even number above 0");
            return Err(Error::Value { operation: "rotary", name: "d_head", found, expected });
        }
        if !(options.base > 0.0 && options.base.is_finite()) {
            let (found, expected) = (f64::from(options.base), "a number above 0");
            return Err(Error::Value { operation: "rotary", name: "base", found, expected });
        }
        let half = d_head / 2;
        let speed = |pair: usize| power(f64::from(options.base), -((2 * pair) as f64) / d_head as f64);
        let speeds: Vec<f64> = (0..half).map(speed).collect();
        let mut turns = Tensor::uninit(&[max_len, d_head]);
        for (position, row) in turns.data_mut().chunks_exact_mut(d_head).enumerate() {
            for (pair, speed) in speeds.iter().enumerate() {
                let [sin, cos] = sin_cos(position as f64 * speed);
                (row[pair], row[half + pair]) = (cos as f32, sin as f32);
            }
        }
        Ok(Self { turns, pairing: options.pairing })
    }

    /// The rotations, max_len × d_head, and true if a pair is half a head apart.
    #[cfg(feature = "cuda")]
    pub(crate) fn parts(&self) -> (&Tensor, bool) {
        (&self.turns, self.pairing == Pairing::Halves)
    }
}

/// Rotates x, batch × length × n_heads × d_head; the first position of each sequence is `offset`.
///
/// # Errors
/// If x has another shape or the table has too few positions.
pub fn rotary(tape: &Tape, x: &Var, table: &RotaryTable, offset: usize) -> Result<Var> {
    let &[max_len, table_width] = table.turns.shape() else {
        return shape("rotary", "table", table.turns.shape(), "two axes");
    };
    let &[_, length, _, d_head] = x.shape() else {
        return shape("rotary", "x", x.shape(), "batch × length × n_heads × d_head");
    };
    if d_head != table_width {
        return shape("rotary", "x", x.shape(), format!("heads of {table_width}, as in the table"));
    }
    if offset.checked_add(length).is_none_or(|end| end > max_len) {
        let expected = format!("at most {max_len} positions, as in the table, from {offset} on");
        return shape("rotary", "x", x.shape(), expected);
    }
    on_gpu!(x.value() => Ok(crate::cuda::ops::rotary::rotary(tape, x, &table.turns, table.pairing, offset)));
    let y = turned(x.value(), table, offset, 1.0);
    let (input, table) = (x.clone(), table.clone());
    Ok(tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&input, &turned(gradient, &table, offset, -1.0));
    }))
}

/// x rotated by `sign` times the angles.
fn turned(x: &Tensor, table: &RotaryTable, offset: usize, sign: f32) -> Tensor {
    let mut out = Tensor::uninit(x.shape());
    let &[_, length, n_heads, d_head] = x.shape() else { unreachable!("checked in the forward pass") };
    let (from, turns, width) = (x.data(), table.turns.data(), n_heads * d_head);
    parallel::rows(out.data_mut(), width, |first, block| {
        for (index, out) in block.chunks_exact_mut(width).enumerate() {
            let position = offset + (first + index) % length;
            let turn = &turns[position * d_head..(position + 1) * d_head];
            let x = &from[(first + index) * width..(first + index + 1) * width];
            match table.pairing {
                Pairing::Interleaved => turn_neighbours(out, x, turn, sign),
                Pairing::Halves => turn_halves(out, x, turn, sign),
            }
        }
    });
    out
}

vectorised! {
    fn turn_neighbours(out: &mut [f32], x: &[f32], turn: &[f32], sign: f32) {
        let (cos, sin) = turn.split_at(turn.len() / 2);
        for (out, x) in out.chunks_exact_mut(turn.len()).zip(x.chunks_exact(turn.len())) {
            let (out, x) = (out.as_chunks_mut::<2>().0, x.as_chunks::<2>().0);
            for (((out, &[a, b]), cos), sin) in out.iter_mut().zip(x).zip(cos).zip(sin) {
                let sin = sign * sin;
                *out = [a * cos - b * sin, a * sin + b * cos];
            }
        }
    }
}

vectorised! {
    fn turn_halves(out: &mut [f32], x: &[f32], turn: &[f32], sign: f32) {
        let half = turn.len() / 2;
        let (cos, sin) = turn.split_at(half);
        for (out, x) in out.chunks_exact_mut(turn.len()).zip(x.chunks_exact(turn.len())) {
            let ((left, right), (a, b)) = (out.split_at_mut(half), x.split_at(half));
            for i in 0..half {
                let sin = sign * sin[i];
                left[i] = a[i] * cos[i] - b[i] * sin;
                right[i] = a[i] * sin + b[i] * cos[i];
            }
        }
    }
}
