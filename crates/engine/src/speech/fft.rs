//! The fast Fourier transform of several sequences at once, for any length (Stockham's form of Cooley & Tukey 1965).
//!
//! X_k = Σ_n x_n · e^(−2πikn/N). Sequences lie side by side, so that each step is a loop over vectors.

use polyhead_lanes::vectorised;
use polyhead_tensor::elementary::sin_cos;

/// Sequences that are transformed together.
pub(super) const WIDTH: usize = 8;

/// A complex number of each sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Complex {
    pub(super) re: [f64; WIDTH],
    pub(super) im: [f64; WIDTH],
}

impl Complex {
    pub(super) const ZERO: Self = Self { re: [0.0; WIDTH], im: [0.0; WIDTH] };

    /// self += other · (re + i·im).
    #[expect(clippy::inline_always, reason = "the instruction set is that of the caller")]
    #[inline(always)]
    fn add_product(&mut self, other: &Self, [re, im]: [f64; 2]) {
        for lane in 0..WIDTH {
            self.re[lane] += other.re[lane] * re - other.im[lane] * im;
            self.im[lane] += other.re[lane] * im + other.im[lane] * re;
        }
    }
}

/// A transform of one length.
#[derive(Debug, Clone)]
pub(super) struct Fft {
    factors: Vec<usize>,
    /// e^(−2πik/N) as cosine and sine.
    roots: Vec<[f64; 2]>,
}

impl Fft {
    /// The transform of sequences of `length` numbers.
    pub(super) fn new(length: usize) -> Self {
        let (mut factors, mut rest) = (Vec::new(), length);
        for factor in [4, 2, 3, 5, 7] {
            while rest.is_multiple_of(factor) {
                factors.push(factor);
                rest /= factor;
            }
        }
        if rest > 1 {
            factors.push(rest);
        }
        let root = |k: usize| {
            let [sin, cos] = sin_cos(2.0 * std::f64::consts::PI * k as f64 / length as f64);
            [cos, -sin]
        };
        Self { factors, roots: (0..length).map(root).collect() }
    }

    /// Transforms `x`; `other` is memory of the same size.
    pub(super) fn transform(&self, x: &mut Vec<Complex>, other: &mut Vec<Complex>) {
        let (mut length, mut stride) = (x.len(), 1);
        for &radix in &self.factors {
            step(x, other, &self.roots, [length, stride, radix]);
            std::mem::swap(x, other);
            length /= radix;
            stride *= radix;
        }
    }
}

vectorised! {
    /// One factor: sequences of `length` numbers, `stride` of them interleaved, become `radix` times as many.
    fn step(x: &[Complex], y: &mut [Complex], roots: &[[f64; 2]], sizes: [usize; 3]) {
        let [length, stride, radix] = sizes;
        let (all, part) = (roots.len(), length / radix);
        for p in 0..part {
            for t in 0..radix {
                // W_length^(p·t) · W_radix^(i·t), for each input i.
                let first = p * t * stride;
                let turn = all / radix * t;
                for q in 0..stride {
                    let mut sum = Complex::ZERO;
                    let mut at = first;
                    for i in 0..radix {
                        sum.add_product(&x[q + stride * (p + part * i)], roots[at % all]);
                        at += turn;
                    }
                    y[q + stride * (radix * p + t)] = sum;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_sum_of_its_definition() {
        for length in [1, 2, 3, 8, 25, 60, 77, 200, 400] {
            let value = |at: usize, lane: usize| ((at * 7 + lane * 3) % 11) as f64 - 5.0;
            let mut x: Vec<Complex> = (0..length)
                .map(|at| Complex {
                    re: std::array::from_fn(|lane| value(at, lane)),
                    im: std::array::from_fn(|lane| value(at + 3, lane)),
                })
                .collect();
            let input = x.clone();
            Fft::new(length).transform(&mut x, &mut vec![Complex::ZERO; length]);
            for (k, found) in x.iter().enumerate() {
                for lane in [0, 5] {
                    let (mut re, mut im) = (0.0, 0.0);
                    for (n, input) in input.iter().enumerate() {
                        let angle = 2.0 * std::f64::consts::PI * ((k * n) % length) as f64 / length as f64;
                        re += input.re[lane] * angle.cos() + input.im[lane] * angle.sin();
                        im += input.im[lane] * angle.cos() - input.re[lane] * angle.sin();
                    }
                    assert!((found.re[lane] - re).abs() + (found.im[lane] - im).abs() < 1e-9, "{length} {k}");
                }
            }
        }
    }
}
