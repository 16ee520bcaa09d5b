//! Rotary positions: pairs of values of a head are rotated by an angle that grows with the position.
//!
//! Su et al. 2021. Pair i of a head at position p is rotated by p·base^(−2i/d_head): (a, b) ← (a cos − b sin, a sin + b
//! cos). The product of a query and a key rotated like this depends on their distance only. Backward: the rotation by
//! the opposite angle.

use crate::elementary::{ln, power, sin_cos};
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
    /// Scaling of the angles for texts longer than in training. Default: none.
    pub scaling: RotaryScaling,
}

/// Scaling of the angles, by which a model reads longer texts than it was first trained on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum RotaryScaling {
    /// None.
    #[default]
    None,
    /// All angles are divided by `factor` (Chen et al. 2023).
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Slow pairs are divided by `factor`, fast ones are not, those between are interpolated (Llama 3).
    Llama3 {
        /// The divisor of slow pairs.
        factor: f32,
        /// Pairs that turn less often than this over `original` positions are slow.
        low: f32,
        /// Pairs that turn more often than this over `original` positions are fast.
        high: f32,
        /// Positions of the first training.
        original: f32,
    },
    /// The same by the index of the pair, and all values are multiplied by `attention` (Peng et al. 2023, YaRN).
    Yarn {
        /// The divisor of slow pairs.
        factor: f32,
        /// Turns over `original` positions above which a pair is fast.
        fast: f32,
        /// Turns over `original` positions below which a pair is slow.
        slow: f32,
        /// Positions of the first training.
        original: f32,
        /// Factor of the rotated values.
        attention: f32,
    },
}

impl RotaryScaling {
    /// The angles per position of all pairs of a head of `d_head` values.
    fn speeds(self, d_head: usize, base: f64) -> Vec<f64> {
        let own = |pair: usize| power(base, -((2 * pair) as f64) / d_head as f64);
        let half = d_head / 2;
        let mixed =
            |slow: f64, factor: f32, speed: f64| slow * speed / f64::from(factor) + (1.0 - slow) * speed;
        let speeds = (0..half).map(own);
        match self {
            Self::None => speeds.collect(),
            Self::Linear { factor } => speeds.map(|speed| speed / f64::from(factor)).collect(),
            Self::Llama3 { factor, low, high, original } => {
                let [low, high, original] = [low, high, original].map(f64::from);
                let scaled = |speed: f64| {
                    let turns = original * speed / std::f64::consts::TAU;
                    mixed(1.0 - ((turns - low) / (high - low)).clamp(0.0, 1.0), factor, speed)
                };
                speeds.map(scaled).collect()
            }
            Self::Yarn { factor, fast, slow, original, .. } => {
                // The pair that turns this often over the original positions.
                let pair = |turns: f32| {
                    let positions = f64::from(original) / (f64::from(turns) * std::f64::consts::TAU);
                    d_head as f64 * ln(positions) / (2.0 * ln(base))
                };
                let first = pair(fast).floor().max(0.0);
                let last = pair(slow).ceil().min(d_head as f64 - 1.0);
                let width = if last == first { 0.001 } else { last - first };
                let slowness = |pair: usize| ((pair as f64 - first) / width).clamp(0.0, 1.0);
                (0..half).map(|pair| mixed(slowness(pair), factor, own(pair))).collect()
            }
        }
    }

    /// Factor of cosines and sines.
    fn amplitude(self) -> f64 {
        match self {
            Self::Yarn { attention, .. } => f64::from(attention),
            Self::None | Self::Linear { .. } | Self::Llama3 { .. } => 1.0,
        }
    }
}

impl Default for RotaryOptions {
    fn default() -> Self {
        Self { base: 10_000.0, pairing: Pairing::default(), scaling: RotaryScaling::None }
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
        let speeds = options.scaling.speeds(d_head, f64::from(options.base));
        let amplitude = options.scaling.amplitude();
        let mut turns = Tensor::uninit(&[max_len, d_head]);
        for (position, row) in turns.data_mut().chunks_exact_mut(d_head).enumerate() {
            for (pair, speed) in speeds.iter().enumerate() {
                let [sin, cos] = sin_cos(position as f64 * speed);
                (row[pair], row[half + pair]) = ((amplitude * cos) as f32, (amplitude * sin) as f32);
            }
        }
        Ok(Self { turns, pairing: options.pairing })
    }

    /// Rotates the heads of one position by its angles.
    fn turn(&self, out: &mut [f32], x: &[f32], turn: &[f32], sign: f32) {
        match self.pairing {
            Pairing::Interleaved => turn_neighbours(out, x, turn, sign),
            Pairing::Halves => turn_halves(out, x, turn, sign),
        }
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

/// Rotates one token per row on the CPU: x is rows × (n_heads·d_head), row r at position `positions[r]`.
///
/// # Errors
/// If the table has too few positions.
pub(crate) fn rotary_rows(x: &Tensor, table: &RotaryTable, positions: &[usize]) -> Result<Tensor> {
    let (&[max_len, d_head], [rows, width]) = (table.turns.shape(), x.rows()) else {
        return shape("rotary", "table", table.turns.shape(), "two axes");
    };
    if positions.len() != rows || positions.iter().any(|&position| position >= max_len) {
        let expected = format!("{rows} rows at positions below {max_len}, as in the table");
        return shape("rotary", "x", x.shape(), expected);
    }
    let mut out = Tensor::uninit(x.shape());
    let (from, turns) = (x.data(), table.turns.data());
    parallel::rows(out.data_mut(), width, |first, block| {
        for (index, out) in block.chunks_exact_mut(width).enumerate() {
            let row = first + index;
            let turn = &turns[positions[row] * d_head..][..d_head];
            table.turn(out, &from[row * width..][..width], turn, 1.0);
        }
    });
    Ok(out)
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
            table.turn(out, x, turn, sign);
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
