//! Activations and their derivatives, one number at a time; `linear` fuses them, `elementwise` applies them alone.
//!
//! Everything is made of [`exp`] and exact operations, so the bits are the same on every machine.

use crate::lanes::exp;

/// max(0, x).
#[inline(always)]
pub(crate) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// σ(x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// x·σ(x) and its derivative (Elfwing et al. 2017).
#[inline(always)]
pub(crate) fn silu(x: f32) -> (f32, f32) {
    let s = sigmoid(x);
    (x * s, s * (1.0 + x * (1.0 - s)))
}

/// ½x(1 + tanh u) with u = √(2/π)(x + 0.044715x³), and its derivative (Hendrycks & Gimpel 2016).
#[inline(always)]
pub(crate) fn gelu(x: f32) -> (f32, f32) {
    const ROOT: f32 = 0.797_884_6;
    const CUBIC: f32 = 0.044_715;
    let u = ROOT * (x + CUBIC * x * x * x);
    let tanh = 2.0 * sigmoid(2.0 * u) - 1.0;
    let slope = ROOT * (1.0 + 3.0 * CUBIC * x * x);
    (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
}

/// tanh x to about two units in the last place: a polynomial near 0, where 1 − 2/(e²ˣ + 1) would cancel.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let square = x * x;
    let mut p = -5.704_988_7e-3_f32;
    for c in [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1] {
        p = p.mul_add(square, c);
    }
    let near = (p * square).mul_add(x, x);
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 { near } else { far.copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_right_to_three_units_in_the_last_place() {
        for index in -2000..2000 {
            let x = index as f32 * 0.011;
            let error = (f64::from(tanh(x)) - f64::from(x).tanh()).abs();
            assert!(error <= 3.6e-7 * f64::from(x).tanh().abs(), "tanh({x}) off by {error}");
        }
        assert_eq!(tanh(1e-20), 1e-20);
        assert_eq!(tanh(f32::NEG_INFINITY), -1.0);
        assert!(tanh(f32::NAN).is_nan());
    }
}
