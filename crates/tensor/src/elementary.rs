//! Sine, cosine and powers in f64 from +, −, ×, ÷ alone.
//!
//! The system's functions choose their instructions by machine and may differ in the last bit; these do not. They are
//! accurate to about 1e-13, far beyond the precision of f32.

/// sin x and cos x for |x| up to about 10⁸: x = k·π/2 + r, and Taylor polynomials for |r| ≤ π/4.
pub fn sin_cos(x: f64) -> [f64; 2] {
    // π/2 in two parts: the first has 33 bits, so that k times it is exact.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let k = (x * std::f64::consts::FRAC_2_PI).round();
    let r = (x - k * HIGH) - k * LOW;
    let square = r * r;
    let (mut sin, mut cos) = (1.0, 1.0);
    for n in (1..=8).rev() {
        let n = f64::from(n);
        sin = 1.0 - sin * square / ((2.0 * n) * (2.0 * n + 1.0));
        cos = 1.0 - cos * square / ((2.0 * n - 1.0) * (2.0 * n));
    }
    sin *= r;
    match (k as i64).rem_euclid(4) {
        0 => [sin, cos],
        1 => [cos, -sin],
        2 => [-sin, -cos],
        _ => [-cos, sin],
    }
}

/// baseˣ for a positive base: e^(x·ln base), both from their series.
pub fn power(base: f64, x: f64) -> f64 {
    exp(x * ln(base))
}

/// eˣ = (e^(x/2ⁿ))^(2ⁿ) would lose digits; here x = k·ln 2 + r and a Taylor polynomial for eʳ.
fn exp(x: f64) -> f64 {
    let k = (x / std::f64::consts::LN_2).round();
    let r = x - k * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for n in (1..=16).rev() {
        sum = 1.0 + sum * r / f64::from(n);
    }
    let mut factor = if k < 0.0 { 0.5 } else { 2.0 };
    let mut rest = k.abs() as u64;
    while rest > 0 {
        if rest & 1 == 1 {
            sum *= factor;
        }
        factor *= factor;
        rest >>= 1;
    }
    sum
}

/// ln x for positive, finite x: x = 2ᵉ·m with ¾ ≤ m < 1½, and ln m = 2(t + t³/3 + t⁵/5 + …) with t = (m − 1)/(m + 1).
pub fn ln(x: f64) -> f64 {
    let (mut m, mut e) = (x, 0.0);
    while m >= 1.5 {
        (m, e) = (m * 0.5, e + 1.0);
    }
    while m < 0.75 {
        (m, e) = (m * 2.0, e - 1.0);
    }
    let t = (m - 1.0) / (m + 1.0);
    let mut sum = 0.0;
    for n in (0..=14).rev() {
        sum = sum * t * t + 1.0 / f64::from(2 * n + 1);
    }
    2.0 * t * sum + e * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_to_the_system_to_twelve_digits() {
        for index in -3000..3000 {
            let x = f64::from(index) * 37.77;
            let [sin, cos] = sin_cos(x);
            assert!((sin - x.sin()).abs() < 1e-12 && (cos - x.cos()).abs() < 1e-12, "angle {x}");
        }
        for base in [1.5, 100.0, 10_000.0, 500_000.0, 1e-3] {
            for index in -40..40 {
                let x = f64::from(index) * 0.05;
                let exact = f64::powf(base, x);
                assert!((power(base, x) / exact - 1.0).abs() < 1e-12, "{base} to the {x}");
            }
        }
    }
}
