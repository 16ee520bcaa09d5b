//! Dropout: each value is set to 0 with probability p, the others are divided by 1 − p.
//!
//! Srivastava et al. 2014. Which values are dropped is a pure function of (seed, step, call site, index): sixteen
//! random bits a value, from sixteen Philox counters side by side so that they fill vectors. Nothing is stored for the
//! backward pass; the mask is drawn again.

use polyhead_random::{KEY_STEP, MULTIPLIERS, ROUNDS, Random};

use crate::lanes::vectorised;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// Values drawn at once: sixteen counters of eight 16-bit numbers.
const BLOCK: usize = 128;
const COUNTERS: usize = 16;

/// A dropout mask: which values are kept, and their factor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DropoutMask {
    random: Random,
    /// A value is dropped if its sixteen bits are below this.
    threshold: u32,
    scale: f32,
    /// Address of the step's key on a GPU; 0 if it is in `random`.
    #[cfg(feature = "cuda")]
    key_at: u64,
}

impl DropoutMask {
    /// The mask of the next call site on the tape; `None` if nothing is dropped.
    pub(crate) fn draw(tape: &Tape, probability: f32) -> Result<Option<Self>> {
        if !(0.0..1.0).contains(&probability) {
            let found = f64::from(probability);
            return Err(Error::Value {
                operation: "dropout",
                name: "probability",
                found,
                expected: "0 to below 1",
            });
        }
        if !tape.is_training() || probability == 0.0 {
            return Ok(None);
        }
        let threshold = (probability * 65536.0).round() as u32;
        let scale = 65536.0 / (65536 - threshold) as f32;
        Ok(Some(Self {
            random: tape.next_site(),
            threshold,
            scale,
            #[cfg(feature = "cuda")]
            key_at: tape.key_at(),
        }))
    }

    /// The mask as an argument of GPU kernels.
    #[cfg(feature = "cuda")]
    pub(crate) fn argument(self) -> crate::cuda::DropoutArgument {
        let (key, site) = self.random.parts();
        let Self { threshold, scale, key_at, .. } = self;
        crate::cuda::DropoutArgument { key_at, key, site, threshold, scale }
    }

    /// Multiplies `data`, whose first value has index `index`, by the mask.
    pub(crate) fn apply(self, index: usize, data: &mut [f32]) {
        let mut at = 0;
        while at < data.len() {
            let (block, skip) = ((index + at) / BLOCK, (index + at) % BLOCK);
            let len = (BLOCK - skip).min(data.len() - at);
            apply_block(self, block as u64, skip, &mut data[at..at + len]);
            at += len;
        }
    }

    /// As [`DropoutMask::apply`] for rows of `width` values that follow each other in `data`; the first value of the
    /// first row has index `index`, that of the next row `index + stride`.
    pub(crate) fn apply_rows(self, index: usize, stride: usize, data: &mut [f32], width: usize) {
        if width == stride || width >= BLOCK {
            let rows = data.chunks_mut(if width == stride { data.len() } else { width }.max(1));
            return rows.enumerate().for_each(|(row, data)| self.apply(index + row * stride, data));
        }
        apply_short_rows(self, [index, stride], data, width);
    }
}

vectorised! {
    /// Applies the mask to rows shorter than a block; a block that several rows share is drawn once.
    fn apply_short_rows(mask: DropoutMask, start: [usize; 2], data: &mut [f32], width: usize) {
        let [index, stride] = start;
        let (mut drawn, mut factors_drawn) = (usize::MAX, [0.0; BLOCK]);
        for (row, mut data) in data.chunks_mut(width.max(1)).enumerate() {
            let mut at = index + row * stride;
            while !data.is_empty() {
                let (block, skip) = (at / BLOCK, at % BLOCK);
                if block != drawn {
                    (drawn, factors_drawn) = (block, factors(mask, block as u64));
                }
                let (now, later) = data.split_at_mut((BLOCK - skip).min(data.len()));
                for (number, factor) in now.iter_mut().zip(&factors_drawn[skip..]) {
                    *number *= factor;
                }
                at += now.len();
                data = later;
            }
        }
    }
}

vectorised! {
    fn apply_block(mask: DropoutMask, block: u64, skip: usize, data: &mut [f32]) {
        let factors = factors(mask, block);
        if skip == 0 && let Some(data) = data.first_chunk_mut::<BLOCK>() {
            for index in 0..BLOCK {
                data[index] *= factors[index];
            }
            return;
        }
        for (number, factor) in data.iter_mut().zip(&factors[skip..]) {
            *number *= factor;
        }
    }
}

/// Factors of the values of a block. Value i takes half a word of counter i mod 16.
#[inline(always)]
fn factors(mask: DropoutMask, block: u64) -> [f32; BLOCK] {
    let (key, stream) = mask.random.parts();
    let words = philox_lanes(block * COUNTERS as u64, stream, key);
    // Unrolled: as a loop it would be vectorised across words, with a scatter for every value.
    let [a, b, c, d] = &words;
    let factors = [
        keep(mask, a, 0),
        keep(mask, a, 16),
        keep(mask, b, 0),
        keep(mask, b, 16),
        keep(mask, c, 0),
        keep(mask, c, 16),
        keep(mask, d, 0),
        keep(mask, d, 16),
    ];
    *factors.as_flattened().first_chunk().expect("eight times sixteen numbers")
}

/// Factors of sixteen values, from sixteen bits of each word.
#[inline(always)]
fn keep(mask: DropoutMask, words: &[u64; COUNTERS], shift: u32) -> [f32; COUNTERS] {
    let mut factors = [0.0; COUNTERS];
    // A loop: the closure of `map` would be compiled separately, without the vector instructions of the caller.
    for lane in 0..COUNTERS {
        let bits = (words[lane] as u32 >> shift) & 0xffff;
        factors[lane] = if bits < mask.threshold { 0.0 } else { mask.scale };
    }
    factors
}

/// Philox for sixteen consecutive counters. Words are held in 64-bit lanes, where vectors multiply 32-bit numbers.
#[inline(always)]
fn philox_lanes(first: u64, stream: [u32; 2], key: [u32; 2]) -> [[u64; COUNTERS]; 4] {
    const LOW: u64 = 0xffff_ffff;
    let mut a: [u64; COUNTERS] = std::array::from_fn(|lane| (first + lane as u64) & LOW);
    // A block begins at a multiple of sixteen, so the low word of its counters never overflows into the high one.
    let mut b = [first >> 32; COUNTERS];
    let mut c = [u64::from(stream[0]); COUNTERS];
    let mut d = [u64::from(stream[1]); COUNTERS];
    let mut key = key;
    for _ in 0..ROUNDS {
        for lane in 0..COUNTERS {
            let left = u64::from(MULTIPLIERS[0]) * (a[lane] & LOW);
            let right = u64::from(MULTIPLIERS[1]) * (c[lane] & LOW);
            a[lane] = (right >> 32) ^ b[lane] ^ u64::from(key[0]);
            c[lane] = (left >> 32) ^ d[lane] ^ u64::from(key[1]);
            b[lane] = right & LOW;
            d[lane] = left & LOW;
        }
        key = [key[0].wrapping_add(KEY_STEP[0]), key[1].wrapping_add(KEY_STEP[1])];
    }
    [a, b, c, d]
}

/// Sets values of `x` to 0 with `probability` in training, and scales the others.
///
/// # Errors
/// If `probability` is outside [0, 1).
pub fn dropout(tape: &Tape, x: &Var, probability: f32) -> Result<Var> {
    let Some(mask) = DropoutMask::draw(tape, probability)? else { return Ok(x.clone()) };
    on_gpu!(x.value() => Ok(crate::cuda::ops::dropout::dropout(tape, x, mask)));
    let masked = move |from: &Tensor| {
        let mut to = Tensor::uninit(from.shape());
        let from = from.data();
        parallel::elements(to.data_mut(), |start, to| {
            to.copy_from_slice(&from[start..start + to.len()]);
            mask.apply(start, to);
        });
        to
    };
    let input = x.clone();
    Ok(tape
        .record(masked(x.value()), &[x], move |gradient, gradients| gradients.add(&input, &masked(gradient))))
}

/// x + dropout(inner), of one shape: the residual connection around a layer that normalises its input.
///
/// # Errors
/// If the shapes do not broadcast or `probability` is outside [0, 1).
pub fn add_dropped(tape: &Tape, x: &Var, inner: &Var, probability: f32) -> Result<Var> {
    on_gpu!(if inner.value().gpu().is_some() && x.shape() == inner.shape() => {
        let mask = DropoutMask::draw(tape, probability)?;
        Ok(crate::cuda::ops::dropout::add_dropped(tape, x, inner, mask))
    });
    super::elementwise::add(tape, x, &dropout(tape, inner, probability)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::philox;

    #[test]
    fn lanes_are_philox() {
        let (key, stream) = Random::new(7).stream(9).parts();
        let words = philox_lanes(32, stream, key);
        for lane in 0..COUNTERS {
            let expected = philox([32 + lane as u32, 0, stream[0], stream[1]], key);
            assert_eq!([0, 1, 2, 3].map(|word| words[word][lane] as u32), expected);
        }
    }

    #[test]
    fn the_mask_does_not_depend_on_how_the_data_is_split() {
        let mask = DropoutMask {
            random: Random::new(1),
            threshold: 6554,
            scale: 1.1,
            #[cfg(feature = "cuda")]
            key_at: 0,
        };
        let mut whole = vec![1.0; 1000];
        mask.apply(0, &mut whole);
        let mut parts = vec![1.0; 1000];
        for (index, part) in parts.chunks_mut(37).enumerate() {
            mask.apply(index * 37, part);
        }
        assert_eq!(whole, parts);
        for (width, stride) in [(5, 5), (5, 9), (40, 41), (130, 140), (1, 1), (16, 17)] {
            let rows = (1000 - width - 3) / stride;
            let mut found = vec![1.0; rows * width];
            mask.apply_rows(3, stride, &mut found, width);
            let expected: Vec<f32> =
                (0..rows).flat_map(|row| &whole[3 + row * stride..][..width]).copied().collect();
            assert_eq!(found, expected, "{width} of {stride}");
        }
        let dropped = whole.iter().filter(|&&number| number == 0.0).count();
        assert!((60..140).contains(&dropped), "{dropped} of 1000 dropped at 10 %");
    }
}
