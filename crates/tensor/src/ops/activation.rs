//! Activations and their derivatives, for one value; `linear` fuses them, `elementwise` applies them alone.
//!
//! Everything is computed from [`exp`] and exact operations, so the bits are the same on every machine.

use crate::lanes::exp;

/// Activation function, applied to each output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// Identity.
    #[default]
    None,
    /// max(0, x).
    Relu,
    /// x·Φ(x), Φ being the normal distribution (Hendrycks & Gimpel 2016).
    Gelu,
    /// x·Φ(x) with their approximation by tanh.
    GeluTanh,
    /// x·Φ(x) with their approximation x·σ(1.702x).
    QuickGelu,
    /// x·σ(x) (Elfwing et al. 2017).
    Silu,
    /// tanh x.
    Tanh,
    /// σ(x) = 1/(1 + e⁻ˣ).
    Sigmoid,
}

impl Activation {
    /// All activations with their names; the first name of each is the one that is written.
    const NAMES: &[(&str, Self)] = &[
        ("linear", Self::None),
        ("relu", Self::Relu),
        ("gelu", Self::Gelu),
        ("gelu_python", Self::Gelu),
        ("gelu_new", Self::GeluTanh),
        ("gelu_pytorch_tanh", Self::GeluTanh),
        ("gelu_fast", Self::GeluTanh),
        ("gelu_accurate", Self::GeluTanh),
        ("quick_gelu", Self::QuickGelu),
        ("silu", Self::Silu),
        ("swish", Self::Silu),
        ("tanh", Self::Tanh),
        ("sigmoid", Self::Sigmoid),
    ];

    /// Name, as in Hugging Face's configs.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, activation)| *activation == self);
        named.map(|(name, _)| *name).expect("every activation is in the list")
    }

    /// Returns the activation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation)
    }

    /// All accepted names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }
}

/// Runs a loop with `$f` bound to an activation: x ↦ its value and derivative. The choice is made outside the loop,
/// which is compiled once for each.
macro_rules! with_function {
    ($activation:expr, $f:ident => $body:expr) => {{
        use $crate::ops::activation as functions;
        match $activation {
            functions::Activation::None => with_function!(@run $f, functions::identity, $body),
            functions::Activation::Relu => with_function!(@run $f, functions::relu, $body),
            functions::Activation::Gelu => with_function!(@run $f, functions::gelu, $body),
            functions::Activation::GeluTanh => with_function!(@run $f, functions::gelu_tanh, $body),
            functions::Activation::QuickGelu => with_function!(@run $f, functions::quick_gelu, $body),
            functions::Activation::Silu => with_function!(@run $f, functions::silu, $body),
            functions::Activation::Tanh => with_function!(@run $f, functions::tanh, $body),
            functions::Activation::Sigmoid => with_function!(@run $f, functions::sigmoid, $body),
        }
    }};
    (@run $f:ident, $function:path, $body:expr) => {{
        let $f = $function;
        $body
    }};
}
pub(crate) use with_function;

/// x and 1.
#[inline(always)]
pub(crate) fn identity(x: f32) -> (f32, f32) {
    (x, 1.0)
}

/// max(0, x) and its derivative, 0 at 0.
#[inline(always)]
pub(crate) fn relu(x: f32) -> (f32, f32) {
    (if x < 0.0 { 0.0 } else { x }, if x > 0.0 { 1.0 } else { 0.0 })
}

/// σ(x) and its derivative σ(x)·σ(−x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> (f32, f32) {
    let s = logistic(x);
    (s, s * logistic(-x))
}

/// x·σ(x) and its derivative.
#[inline(always)]
pub(crate) fn silu(x: f32) -> (f32, f32) {
    let s = logistic(x);
    (x * s, s * (1.0 + x * (1.0 - s)))
}

/// x·σ(1.702x) and its derivative.
#[inline(always)]
pub(crate) fn quick_gelu(x: f32) -> (f32, f32) {
    let u = 1.702 * x;
    let s = logistic(u);
    (x * s, s * (1.0 + u * (1.0 - s)))
}

/// ½x(1 + tanh u) with u = √(2/π)(x + 0.044715x³), and its derivative.
#[inline(always)]
pub(crate) fn gelu_tanh(x: f32) -> (f32, f32) {
    const ROOT: f32 = 0.797_884_6;
    const CUBIC: f32 = 0.044_715;
    let u = ROOT * (x + CUBIC * x * x * x);
    let tanh = 2.0 * logistic(2.0 * u) - 1.0;
    let slope = ROOT * (1.0 + 3.0 * CUBIC * x * x);
    (0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope)
}

/// x·Φ(x) and its derivative Φ(x) + x·φ(x), with φ(x) = e^(−x²/2)/√(2π).
#[inline(always)]
pub(crate) fn gelu(x: f32) -> (f32, f32) {
    const INVERSE_ROOT: f32 = 0.398_942_3;
    let below = normal_below(x);
    (x * below, x.mul_add(INVERSE_ROOT * exp(-0.5 * x * x), below))
}

/// tanh x and its derivative.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> (f32, f32) {
    let y = hyperbolic_tangent(x);
    (y, (1.0 - y) * (1.0 + y))
}

/// 1/(1 + e⁻ˣ).
#[inline(always)]
fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Φ(x) = ½(1 + erf(x/√2)), the cumulative distribution function of the normal distribution.
///
/// Near 0 a polynomial for erf. Further out 1 − erf z = e^p(z) with a polynomial p, so that the lower tail is a small
/// number instead of a difference of large ones.
#[inline(always)]
fn normal_below(x: f32) -> f32 {
    let z = x * std::f32::consts::FRAC_1_SQRT_2;
    let (size, square) = (z.abs(), z * z);
    let mut p = -5.967_617e-4_f32;
    for c in [4.991_194_2e-3, -2.676_813_5e-2, 1.128_199_25e-1, -3.761_253_4e-1, 1.283_791_7e-1] {
        p = p.mul_add(square, c);
    }
    let near = 0.5_f32.mul_add(p.mul_add(z, z), 0.5);
    let mut p = -1.728_534_7e-5_f32;
    for c in
        [3.831_971_3e-4, -3.883_964_4e-3, 2.425_462_2e-2, -1.067_778_8e-1, -6.348_467e-1, -1.287_175_1e-1]
    {
        p = p.mul_add(size, c);
    }
    let outside = 0.5 * exp(p.mul_add(size, -size));
    let far = if x < 0.0 { outside } else { 1.0 - outside };
    if size < 0.927_734_4 { near } else { far }
}

/// tanh x to about two units in the last place: a polynomial near 0, where 1 − 2/(e²ˣ + 1) would cancel.
#[inline(always)]
fn hyperbolic_tangent(x: f32) -> f32 {
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
    fn tanh_is_accurate_to_three_units_in_the_last_place() {
        for index in -2000..2000 {
            let x = index as f32 * 0.011;
            let error = (f64::from(tanh(x).0) - f64::from(x).tanh()).abs();
            assert!(error <= 3.6e-7 * f64::from(x).tanh().abs(), "tanh({x}) off by {error}");
        }
        assert_eq!(tanh(1e-20).0, 1e-20);
        assert_eq!(tanh(f32::NEG_INFINITY).0, -1.0);
        assert!(tanh(f32::NAN).0.is_nan());
    }

    /// erf z = 2/√π · e^(−z²) · Σ 2ⁿ z²ⁿ⁺¹ / (1·3·…·(2n + 1)): no term is negative, so nothing cancels.
    fn erf(z: f64) -> f64 {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= 2.0 * z * z / f64::from(2 * n + 1);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * sum
    }

    #[test]
    fn the_normal_distribution_is_accurate_to_its_last_place() {
        for index in -8000..=8000 {
            let x = index as f32 * 1e-3;
            let exact = 0.5 + 0.5 * erf(f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
            let error = (f64::from(normal_below(x)) - exact).abs();
            assert!(error < 1e-7, "Φ({x}) off by {error}");
        }
        // From tables.
        for (x, known) in [(0.0, 0.5), (1.0, 0.841_344_8), (-2.0, 0.022_750_132), (-5.0, 2.866_515_7e-7)] {
            assert!((normal_below(x) / known - 1.0).abs() < 1e-4, "Φ({x})");
        }
        assert_eq!([f32::NEG_INFINITY, -50.0, 50.0, f32::INFINITY].map(normal_below), [0.0, 0.0, 1.0, 1.0]);
        assert!(normal_below(f32::NAN).is_nan());
    }

    #[test]
    fn gelu_and_its_derivative_are_accurate_to_a_few_units_in_the_last_place() {
        for index in -8000..=8000 {
            let x = index as f32 * 1e-3;
            let wide = f64::from(x);
            let below = 0.5 + 0.5 * erf(wide * std::f64::consts::FRAC_1_SQRT_2);
            let density = (-0.5 * wide * wide).exp() / std::f64::consts::TAU.sqrt();
            let (value, slope) = gelu(x);
            assert!((f64::from(value) - wide * below).abs() < 2e-7 * wide.abs().max(1.0), "gelu({x})");
            assert!((f64::from(slope) - below - wide * density).abs() < 2e-7, "slope at {x}");
        }
    }

    #[test]
    fn names_round_trip() {
        for (name, activation) in Activation::NAMES {
            assert_eq!(Activation::from_name(name), Some(*activation));
            assert_eq!(Activation::from_name(activation.name()), Some(*activation));
        }
        assert_eq!(Activation::from_name("gelu"), Some(Activation::Gelu));
        assert_eq!(Activation::from_name("softmax"), None);
    }
}
