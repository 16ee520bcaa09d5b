//! Loops over rows that become vector code, with the same bits for every instruction set.
//!
//! Rust never reorders or fuses floating-point operations by itself, so a loop over independent elements gives the same
//! bits however wide the vectors are. Sums do depend on order; here they run in sixteen lanes, element i in lane i mod
//! 16, and the lanes are added in a fixed tree.

/// Lanes of a sum.
pub(crate) const LANES: usize = 16;

/// Compiles a function three times, for plain, AVX2 and AVX-512 machines, and chooses when it is called.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($argument: $kind),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $kind),*) $(-> $result)? { plain($($argument),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
            fn avx512($($argument: $kind),*) $(-> $result)? { plain($($argument),*) }
            match $crate::isa::Isa::best() {
                // SAFETY: `best` names only instructions that the machine has.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx2 => unsafe { avx2($($argument),*) },
                _ => plain($($argument),*),
            }
        }
    };
}
pub(crate) use vectorised;

/// The sum of `value(i)` for i in 0..len, in sixteen lanes.
#[inline(always)]
pub(crate) fn sum(len: usize, value: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            lanes[lane] += value(start + lane);
        }
    }
    for index in whole..len {
        lanes[index - whole] += value(index);
    }
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// The largest of `values`, −∞ if there are none.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    rest.iter().chain(&lanes).copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
}

/// eˣ to about one unit in the last place: x = n ln 2 + r, eˣ = 2ⁿ eʳ with a polynomial for eʳ on |r| ≤ ½ ln 2.
/// Below −87 it is 0, so that a masked score weighs nothing.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few bits, so that n times it is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const ROUND: f32 = 12_582_912.0; // 1.5 × 2²³: adding and taking it away rounds to a whole number
    let clamped = if x > 88.0 { 88.0 } else { x };
    let clamped = if clamped < -87.0 { -87.0 } else { clamped };
    let n = clamped.mul_add(LOG2_E, ROUND) - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    let mut p = 1.987_569_1e-4_f32;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    let whole = p.mul_add(r * r, r) + 1.0;
    let power = f32::from_bits((((n as i32) + 127) << 23) as u32);
    if x < -87.0 { 0.0 } else { whole * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_two_units_in_the_last_place() {
        for index in -8700..8800 {
            let x = index as f32 * 0.01;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.4e-7, "exp({x}) off by {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_cover_every_element_once() {
        for len in [0, 1, 15, 16, 17, 47, 64] {
            assert_eq!(sum(len, |i| i as f32), (0..len).sum::<usize>() as f32);
        }
    }
}
